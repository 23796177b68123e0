"""The model language: parameters, names, differences, and what is inherited."""

from __future__ import annotations

import pytest

from motet.errors import BadInput
from motet.verify.model import Record
from motet.verify.model.action import camel
from motet.verify.model.record import changes, show
from motet.verify.models import MODELS, model_class, model_named
from motet.verify.models.log_trimming import LogTrimming, WakeLost


class Inner(Record, frozen=True):
    n: int
    seen: frozenset[int] = frozenset()


class Outer(Record, frozen=True):
    parts: tuple[Inner, ...]
    who: int | None = None


def test_but_changes_what_is_named_and_nothing_else() -> None:
    one = Outer((Inner(1), Inner(2)))
    two = one.but(who=3)
    assert (one.who, two.who, two.parts) == (None, 3, one.parts)
    with pytest.raises(AttributeError):
        one.who = 4  # type: ignore[misc]


def test_differences_are_named_by_path() -> None:
    one = Outer((Inner(1), Inner(2)))
    assert changes(one, one) == []
    two = one.but(parts=(Inner(1), Inner(2, frozenset([7, 5]))), who=0)
    assert changes(one, two) == ["parts[1].seen: + 5, + 7", "who: none → 0"]
    assert changes(one, one.but(parts=(*one.parts, Inner(3)))) == ["parts: + (n=3 seen={})"]
    assert changes(one, one.but(parts=one.parts[:1])) == ["parts: - (n=2 seen={})"]
    assert show(one) == "(parts=<(n=1 seen={}), (n=2 seen={})> who=none)"


def test_names_are_those_of_the_texts() -> None:
    assert camel("quorum_read_without_lin") == "QuorumReadWithoutLin"
    titles = [action.title for action in model_class("quorum").actions()]
    assert {"ExecuteLog", "UpdateQuorum", "EndQuorum", "FailedQuorum", "QuorumReadLin"} <= {*titles}
    stale = [action.title for action in model_class("quorum-stale").actions()]
    assert "QuorumReadWithoutLin" in stale
    assert "QuorumReadLin" not in stale


def test_a_variant_inherits_the_place_of_the_action_it_changes() -> None:
    names = [action.name for action in WakeLost.actions()]
    assert names == [action.name for action in LogTrimming.actions()]


def test_every_model_says_what_it_is() -> None:
    for name in MODELS:
        model = model_class(name)
        assert model.headline().endswith((".", ")"))
        assert model.properties()
        for variant in model.variants().values():
            assert variant.what
            variant.model(**variant.settings)


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("quorom", {}, "there is no model 'quorom'"),
        ("quorum", {"replica": 3}, "no parameter 'replica'"),
        ("quorum", {"replicas": "many"}, "a whole number, not 'many'"),
        ("quorum", {"replicas": 0}, "replicas=0 is impossible"),
        ("quorum", {"replicas": 2, "quorum": 3}, "a quorum of 3 cannot be had from 2"),
    ],
)
def test_what_cannot_be_explored_is_refused(
    name: str, settings: dict[str, object], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        model_named(name, settings)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(BadInput, match="no variant 'fresh'"):
        model_named("quorum", {}, variant="fresh")
    with pytest.raises(BadInput, match="it has none"):
        model_named("quorum-stale", {}, variant="fresh")
