"""The models of the protocols Motet is built on, as published and repaired, by name.

``model_named("quorum", {"records": 3})`` makes a model of a given size; a variant is named after its
model: ``model_named("quorum", {}, variant="stale")``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from motet.errors import BadInput
from motet.verify.model import Model, Variant
from motet.verify.models.cluster_clock import ClusterClock
from motet.verify.models.log_trimming import LogTrimming
from motet.verify.models.log_trimming_repaired import LogTrimmingRepaired
from motet.verify.models.quorum import Quorum, QuorumStale
from motet.verify.models.quorum_variants import QuorumRepaired
from motet.verify.models.replication import Replication
from motet.verify.models.replication_repaired import ReplicationRepaired
from motet.verify.models.shard_log import ShardLog, ShardLogRepaired
from motet.verify.models.shard_log_core import ShardLogCore
from motet.verify.models.shard_log_steps import ShardLogChanges, ShardLogSteps
from motet.verify.models.view_change import ViewChange
from motet.verify.models.zero_copy import ZeroCopy, ZeroCopyExclusive

_CLASSES: tuple[type[Model[Any]], ...] = (
    LogTrimming,
    LogTrimmingRepaired,
    Replication,
    ReplicationRepaired,
    Quorum,
    QuorumStale,
    QuorumRepaired,
    ShardLog,
    ShardLogRepaired,
    ShardLogCore,
    ShardLogSteps,
    ShardLogChanges,
    ZeroCopy,
    ZeroCopyExclusive,
    ClusterClock,
    ViewChange,
)

MODELS: dict[str, type[Model[Any]]] = {model.name: model for model in _CLASSES}
"""All models by name, in the order in which they are listed."""


def model_class(name: str) -> type[Model[Any]]:
    """The class behind a name."""
    if name not in MODELS:
        raise BadInput(f"there is no model {name!r}", hint=f"choose one of {', '.join(MODELS)}")
    return MODELS[name]


def variant_of(name: str, variant: str) -> Variant:
    """A variant of a model by its name."""
    variants = model_class(name).variants()
    if variant not in variants:
        raise BadInput(
            f"{name} has no variant {variant!r}",
            hint=f"choose one of {', '.join(variants)}" if variants else "it has none",
        )
    return variants[variant]


def model_named(
    name: str, settings: Mapping[str, object], *, variant: str | None = None
) -> Model[Any]:
    """A model of the given size; a variant has a size of its own where none is given."""
    if variant is None:
        return model_class(name)(**settings)
    chosen = variant_of(name, variant)
    return chosen.model(**{**chosen.settings, **settings})


def every_variant() -> Iterator[tuple[str, str, Variant]]:
    """(model, name, variant) of all variants there are."""
    for name in MODELS:
        for key, variant in model_class(name).variants().items():
            yield name, key, variant
