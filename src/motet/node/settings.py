"""Finds the value of every setting and remembers where it came from.

Layers, each over the one before: defaults, the file, the environment, flags. Within a layer a setting
is a dotted key (``node.port``) and a raw value; text from the environment and flags is converted by the
type of the key. Whatever does not fit is a ``BadConfig`` that names the place it was written at.

The cluster key is in the settings, or in the file that they name.
"""

from __future__ import annotations

import difflib
import hashlib
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from motet.errors import BadConfig
from motet.node.config import HIDDEN, Config
from motet.node.logs import logger
from motet.real.hello import ClusterKey, Refusal

DEFAULT_FILE = Path("motet.toml")
"""Read from the working directory when no file is named."""

_PREFIX = "MOTET_"
_BETWEEN = "__"

_SHORT_NAMES = {"MOTET_CLUSTER_KEY": "cluster.key"}
"""Environment variables with a name of their own."""

_SECRETS = ("cluster.key",)
"""Keys whose values are never shown."""

_INSTEAD = {"cluster.key": "cluster.key_file", "cluster.key_file": "cluster.key"}
"""Who sets the one has unset the other, as far as a lower layer said something."""


class Setting(msgspec.Struct, frozen=True):
    """One key with all that is known of it."""

    key: str
    value: Any
    origin: str
    description: str


class Settings(msgspec.Struct, frozen=True):
    """A whole configuration and where each of its values came from."""

    config: Config
    #: key -> ``default``, a file, an environment variable or a flag
    origins: dict[str, str]

    def rows(self) -> list[Setting]:
        """All keys in the order of the documentation."""
        return [
            Setting(
                key, _shown(key, _value(self.config, key)), self.origins[key], about.description
            )
            for key, about in KEYS.items()
        ]


class _Key(msgspec.Struct, frozen=True):
    """What the tree of structs says about a key."""

    type: Any
    default: object
    description: str


def _keys() -> dict[str, _Key]:
    keys = {}
    for section in msgspec.structs.fields(Config):
        section_type = section.type
        hints = get_type_hints(section_type, include_extras=True)
        for field in msgspec.structs.fields(section_type):
            (meta,) = (a for a in get_args(hints[field.name])[1:] if isinstance(a, msgspec.Meta))
            assert meta.description is not None
            default = getattr(section.default, field.name)
            keys[f"{section.name}.{field.name}"] = _Key(
                hints[field.name], default, meta.description
            )
    return keys


KEYS = _keys()
"""Every key there is, ``section.name``, in the order of :class:`motet.node.config.Config`."""


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> Settings:
    """The configuration from all its layers.

    ``flags`` are key -> (flag as typed, value); a value of None is a flag not given. Without ``file``,
    ``motet.toml`` in the working directory is read if there is one.
    """
    values: dict[str, Any] = {key: about.default for key, about in KEYS.items()}
    origins = dict.fromkeys(KEYS, "default")
    for layer in (_file_layer(file), _environment_layer(environment or {}), flags or {}):
        for key, (origin, raw) in layer.items():
            if raw is not None:
                values[key] = _convert(key, raw, origin)
                origins[key] = origin
                other = _INSTEAD.get(key)
                if other in layer:
                    hint = "set one of them"
                    raise BadConfig(f"{key} and {other} are both set ({origin})", hint=hint)
                if other is not None:
                    values[other], origins[other] = KEYS[other].default, "default"
    return Settings(_assemble(values), origins)


def _assemble(values: Mapping[str, object]) -> Config:
    tree: dict[str, dict[str, object]] = {}
    for key, value in values.items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = value
    return msgspec.convert(tree, Config)


def _value(config: Config, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)


def _shown(key: str, value: object) -> object:
    return HIDDEN if key in _SECRETS and value else value


# Layers


def _file_layer(file: Path | None) -> dict[str, tuple[str, object]]:
    path = DEFAULT_FILE if file is None else file
    if file is None and not path.exists():
        return {}
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadConfig(
            f"cannot read {path}: {error.strerror}", hint="name a file with --config"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} is not TOML: {error}", hint="correct that place") from None
    layer = {}
    for section, table in tree.items():
        if not isinstance(table, dict):
            raise BadConfig(
                f"{section} stands outside of a section in {path}",
                hint=_did_you_mean(section, f"put it under one of {_sections()}"),
            )
        for name, raw in table.items():
            key = f"{section}.{name}"
            layer[_known(key, str(path))] = (str(path), raw)
    return layer


def _environment_layer(environment: Mapping[str, str]) -> dict[str, tuple[str, object]]:
    """``MOTET_NODE__PORT`` is ``node.port``; ``MOTET_DEBUG`` and the like are no settings."""
    layer: dict[str, tuple[str, object]] = {}
    for variable in sorted(environment):
        if variable in _SHORT_NAMES:
            layer[_SHORT_NAMES[variable]] = (variable, environment[variable])
            continue
        section, between, name = variable.removeprefix(_PREFIX).partition(_BETWEEN)
        if variable.startswith(_PREFIX) and between:
            key = _known(f"{section}.{name}".lower(), variable)
            layer[key] = (variable, environment[variable])
    return layer


# Keys and values


def _known(key: str, origin: str) -> str:
    if key not in KEYS:
        raise BadConfig(f"there is no setting {key} ({origin})", hint=_did_you_mean(key, None))
    return key


def _did_you_mean(key: str, otherwise: str | None) -> str:
    """The nearest key; whoever forgot the section is told which one has this name."""
    names = {name.split(".")[1]: name for name in KEYS}
    name = key.rpartition(".")[2]
    if name in names:
        return f"did you mean {names[name]}?"
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.7)
    if not close:
        close = [names[n] for n in difflib.get_close_matches(name, names, n=1, cutoff=0.7)]
    return f"did you mean {close[0]}?" if close else otherwise or BadConfig.hint


def _sections() -> str:
    return ", ".join(f"[{name}]" for name in dict.fromkeys(key.split(".")[0] for key in KEYS))


def _convert(key: str, raw: object, origin: str) -> object:
    wanted = KEYS[key].type
    try:
        if isinstance(raw, str):
            return msgspec.convert(_from_text(KEYS[key].default, raw), wanted, strict=False)
        return msgspec.convert(raw, wanted)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadConfig(
            f"{key} cannot be {_shown(key, raw)!r} ({origin}): {error}",
            hint=f"{key}: {KEYS[key].description}",
        ) from None


def _from_text(default: object, text: str) -> object:
    """Lists are separated by commas, and in a table each item is ``name=value``."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if isinstance(default, tuple):
        return items
    if isinstance(default, dict):
        pairs = [item.partition("=") for item in items]
        if any(not between for _, between, _ in pairs):
            raise ValueError("expected name=value, separated by commas")
        return {name.strip(): value.strip() for name, _, value in pairs}
    return text


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
REFUSAL_HINTS = {
    Refusal.UNPROVEN: "give all nodes the same cluster.key or cluster.key_file; a stranger is harmless",
    Refusal.NOT_LOOPBACK: "without a cluster key nodes are on one machine: set cluster.key_file on all",
    Refusal.DUPLICATE: "two processes have this node.id: stop one, or give it an id of its own",
    Refusal.WRONG_ADDRESS: "check node.id and node.peers on both sides",
    Refusal.WRONG_CLUSTER: "check node.cluster on both sides",
}
"""What to do when a connection was closed for this; the other reasons are nobody's configuration."""


def load_cluster_key(config: Config) -> ClusterKey | None:
    """The key; None if there is none. ``BadConfig`` for one that cannot be read or is too short."""
    settings = config.cluster
    if settings.key:
        return ClusterKey(settings.key)
    if not settings.key_file:
        return None
    path = Path(settings.key_file)
    try:
        text = path.read_text("utf-8").strip()
        if path.stat().st_mode & _OTHERS:
            fields = {"file": str(path), "hint": f"chmod 600 {path}"}
            logger.warning("cluster_key_readable_by_others", extra={"fields": fields})
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadConfig(
            f"cannot read the cluster key in {path}: {why}",
            hint="set cluster.key_file to a file that this user can read",
        ) from None
    return ClusterKey(text)


def keeper_secret(config: Config, key: ClusterKey | None) -> bytes:
    """By which keepers know the nodes of this cluster.

    Without a key it follows from the cluster's name: that keeps strangers from writing by accident, and
    nobody who wants to.
    """
    if key is None:
        return (
            hashlib.sha256(f"motet keeper nodes of {config.node.cluster}".encode())
            .hexdigest()
            .encode()
        )
    return key.derive("keeper nodes 1").hex().encode()


def vote_key(key: ClusterKey | None) -> bytes:
    """What data nodes seal votes about transactions with.

    Without a key it is empty: that keeps clients from bringing wrong votes by mistake, and nobody who
    wants to.
    """
    return b"" if key is None else key.derive("transaction votes 1")
