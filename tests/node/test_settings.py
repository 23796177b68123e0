"""Defaults < file < environment < flags, each value with its origin, and nothing misspelt gets through."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from motet.errors import BadConfig
from motet.node.config import ClusterSettings, Config
from motet.node.settings import KEYS, load, load_cluster_key


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_file(folder: Path, text: str, name: str = "motet.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.usefixtures("in_empty_folder")
def test_without_anything_all_is_default() -> None:
    settings = load()
    assert settings.config == Config()
    assert set(settings.origins.values()) == {"default"}
    assert [row.key for row in settings.rows()] == list(KEYS)
    assert all(row.description.endswith(".") for row in settings.rows())


def test_each_layer_goes_over_the_one_before(in_empty_folder: Path) -> None:
    write_file(in_empty_folder, '[node]\nid = "file"\nhost = "file"\nport = 1000\n')
    environment = {"MOTET_NODE__HOST": "environment", "MOTET_NODE__PORT": "2000"}
    settings = load(None, environment, {"node.port": ("--port", 3000)})
    node = settings.config.node
    assert (node.id, node.host, node.port) == ("file", "environment", 3000)
    origins = {row.key: row.origin for row in settings.rows()}
    assert origins["node.cluster"] == "default"
    assert origins["node.id"] == "motet.toml"
    assert origins["node.host"] == "MOTET_NODE__HOST"
    assert origins["node.port"] == "--port"


@pytest.mark.usefixtures("in_empty_folder")
def test_a_flag_that_was_not_given_changes_nothing() -> None:
    settings = load(None, {"MOTET_NODE__PORT": "2000"}, {"node.port": ("--port", None)})
    assert settings.config.node.port == 2000


def test_lists_and_tables_from_text_and_from_toml_are_the_same(in_empty_folder: Path) -> None:
    file = write_file(
        in_empty_folder,
        '[node]\nroles = ["keeper", "data"]\n[node.peers]\nn0 = "a:1"\nn1 = "[::1]:2"\n',
    )
    environment = {
        "MOTET_NODE__ROLES": "keeper, data",
        "MOTET_NODE__PEERS": "n0=a:1, n1=[::1]:2",
        "MOTET_DEBUG__INVARIANTS": "true",
    }
    from_file, from_text = load(file).config, load(None, environment).config
    assert from_file.node.roles == from_text.node.roles == ("keeper", "data")
    assert from_file.node.peers == from_text.node.peers == {"n0": "a:1", "n1": "[::1]:2"}
    assert from_text.debug.invariants is True


@pytest.mark.usefixtures("in_empty_folder")
def test_variables_that_are_no_settings_are_left_alone() -> None:
    environment = {"MOTET_DEBUG": "1", "MOTET_ENDPOINT": "x", "HOME__PORT": "1", "PATH": "/"}
    assert load(None, environment).config == Config()


@pytest.mark.usefixtures("in_empty_folder")
@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("[node]\nprot = 1", "no setting node.prot (my.toml)", "did you mean node.port?"),
        ("[nod]\nport = 1", "no setting nod.port", "did you mean node.port?"),
        ("[log]\nport = 1", "no setting log.port", "did you mean node.port?"),
        ("port = 1", "port stands outside of a section", "did you mean node.port?"),
        ("zzz = 1", "zzz stands outside", "put it under one of [node], [cluster], [keeper]"),
        ("[node]\nport = 70000", "node.port cannot be 70000 (my.toml)", "Base port"),
        ("[node]\nport = true", "node.port cannot be True", "Base port"),
        ("[node]\nport = 'x'", "node.port cannot be 'x'", "Base port"),
        ("[node]\nid = 'a b'", "node.id cannot be 'a b'", "Name of the node"),
        ("[node]\npeers = 'n0'", "expected name=value", "All nodes"),
        ("[node]\npeers = 'n0=nowhere'", "node.peers cannot be", "All nodes"),
        ("[log]\nlevel = 'loud'", "log.level cannot be 'loud'", "least severe"),
        ("[node", "my.toml is not TOML", "correct that place"),
    ],
)
def test_what_does_not_fit_is_refused_with_place_and_advice(
    tmp_path: Path, text: str, what: str, hint: str
) -> None:
    write_file(tmp_path, text, "my.toml")
    with pytest.raises(BadConfig) as caught:
        load(Path("my.toml"))
    assert what in caught.value.what
    assert hint in caught.value.advice


@pytest.mark.usefixtures("in_empty_folder")
def test_misspelt_variables_are_refused() -> None:
    with pytest.raises(BadConfig, match="MOTET_LOG__LEVLE") as caught:
        load(None, {"MOTET_LOG__LEVLE": "info"})
    assert caught.value.advice == "did you mean log.level?"


@pytest.mark.usefixtures("in_empty_folder")
def test_a_file_that_was_named_must_be_there() -> None:
    with pytest.raises(BadConfig, match=r"cannot read missing\.toml"):
        load(Path("missing.toml"))


def test_the_key_of_the_cluster_from_each_layer_and_never_shown(in_empty_folder: Path) -> None:
    file = write_file(in_empty_folder, '[cluster]\nkey_file = "somewhere"\n')
    settings = load(file, {"MOTET_CLUSTER_KEY": "0123456789abcdef"})
    assert settings.config.cluster.key == "0123456789abcdef"
    assert settings.config.cluster.key_file == "", "the layer above decides which of the two it is"
    rows = {row.key: row for row in settings.rows()}
    assert rows["cluster.key"].value == "(hidden)"
    assert rows["cluster.key"].origin == "MOTET_CLUSTER_KEY"
    assert "0123456789abcdef" not in repr(settings)
    assert load(file, {"MOTET_CLUSTER__KEY": "0123456789abcdef"}).config == settings.config
    again = load(file, {"MOTET_CLUSTER_KEY": "x"}, {"cluster.key_file": ("--key-file", "y")})
    assert (again.config.cluster.key, again.config.cluster.key_file) == ("", "y")
    with pytest.raises(BadConfig, match="are both set"):
        load(file, {"MOTET_CLUSTER_KEY": "x", "MOTET_CLUSTER__KEY_FILE": "y"})
    write_file(in_empty_folder, "[cluster]\nkey = 1234567890\n")
    with pytest.raises(BadConfig) as caught:
        load()
    assert "1234567890" not in str(caught.value)


def test_a_key_from_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "key"
    config = Config(cluster=ClusterSettings(key_file=str(file)))
    with pytest.raises(BadConfig, match="cannot read the cluster key"):
        load_cluster_key(config)
    file.write_text("  0123456789abcdef\n")
    file.chmod(0o600)
    in_file = load_cluster_key(config)
    in_text = load_cluster_key(Config(cluster=ClusterSettings(key="0123456789abcdef")))
    assert in_file is not None
    assert in_text is not None
    assert in_file.derive("x") == in_text.derive("x") != in_text.derive("y")
    assert caplog.messages == []
    file.chmod(0o644)
    load_cluster_key(config)
    assert caplog.messages == ["cluster_key_readable_by_others"]
    file.write_text("short")
    with pytest.raises(BadConfig, match="has 5 characters"):
        load_cluster_key(config)
    assert load_cluster_key(Config()) is None


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operate" / "configuration.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    documented = {row[0].strip().strip("`"): row[-1].strip() for row in rows}
    assert documented == {key: about.description for key, about in KEYS.items()}


def test_every_default_passes_its_own_check() -> None:
    assert msgspec.convert(msgspec.to_builtins(Config()), Config) == Config()
