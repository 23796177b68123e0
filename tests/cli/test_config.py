"""``motet config show``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.cli.app import main
from motet.node.settings import KEYS


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")


def show(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    with pytest.raises(SystemExit) as exited:
        main(["config", "show", *flags])
    captured = capsys.readouterr()
    assert exited.value.code in (0, None), captured.err
    return captured.out


def test_a_table_of_all_settings_with_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = show(capsys).splitlines()
    assert head.split() == ["setting", "value", "meaning"]
    assert [row.split()[0] for row in rows] == list(KEYS)


def test_the_origin_of_each_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("motet.toml").write_text('[log]\nlevel = "debug"\n')
    monkeypatch.setenv("MOTET_NODE__PORT", "7500")
    rows = [line.split() for line in show(capsys, "--origin").splitlines()]
    assert ["node.port", "7500", "MOTET_NODE__PORT"] in rows
    assert ["log.level", "debug", "motet.toml"] in rows
    assert ["log.format", "text", "default"] in rows


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.toml").write_text('[node.peers]\nn0 = "h:1"\n')
    plain = json.loads(show(capsys, "--output", "json", "--config", "other.toml"))
    assert list(plain) == list(KEYS)
    assert plain["node.peers"] == {"n0": "h:1"}
    with_origin = json.loads(show(capsys, "-o", "json", "--origin", "--config", "other.toml"))
    assert with_origin["node.peers"] == {"value": {"n0": "h:1"}, "origin": "other.toml"}


def test_a_misspelt_setting_is_an_error_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    Path("motet.toml").write_text("[node]\nprot = 1\n")
    with pytest.raises(SystemExit) as exited:
        main(["config", "show"])
    assert exited.value.code == 1
    assert capsys.readouterr().err == (
        "BAD_CONFIG there is no setting node.prot (motet.toml); did you mean node.port?\n"
    )
