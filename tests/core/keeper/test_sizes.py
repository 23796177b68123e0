"""What counts as too large for one write is what the keeper refuses, and is known without asking it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.keeper.front.clusters import KEEPER, OPEN, Cluster
from tests.core.keeper.histories import DATA, FLAGS, VERSIONS
from tests.core.keeper.keepers import FIRST, SMALL, Harness

from motet.core.keeper.acl import NODES_ACL
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.ids import Generation
from motet.core.keeper.operations import Outcome, Outcomes, Write, encode_batch, encode_reply
from motet.core.metadata import messages
from motet.core.metadata.zookeeper import why_too_large as why_too_large_for_a_core
from motet.format.zookeeper.codec import encode_request
from motet.format.zookeeper.messages import (
    Check,
    Create,
    Create2,
    Delete,
    ErrorCode,
    Multi,
    MultiResult,
    SetData,
)
from motet.format.zookeeper.sizes import (
    OURS,
    WriteLimits,
    answer_bytes,
    empty_reply_bytes,
    multi_bytes,
    why_too_large,
)
from motet.ids import SessionId, Zxid

PATHS = st.text(st.sampled_from("aé文"), min_size=1, max_size=300).map(lambda name: f"/{name}")
LISTS = st.sampled_from([OPEN, NODES_ACL, ()])
OPERATIONS = st.one_of(
    st.builds(Create, PATHS, st.none() | DATA, LISTS, FLAGS),
    st.builds(Create2, PATHS, DATA, LISTS, FLAGS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(SetData, PATHS, st.binary(max_size=70_000), VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
MULTIS = st.lists(OPERATIONS, max_size=20).map(lambda found: Multi(tuple(found)))
LARGE = 1 << 62
Single = Create | Create2 | SetData | Check


@settings(max_examples=200)
@given(MULTIS)
def test_a_request_is_as_long_as_it_was_counted_and_no_longer_in_the_log(multi: Multi) -> None:
    assert multi_bytes(multi) == len(encode_request(1, multi))
    write = Write(SessionId(LARGE), Generation(0), multi)
    around_bytes = len(encode_batch([msgspec.structs.replace(write, request=Multi(()))]))
    assert len(encode_batch([write])) <= multi_bytes(multi) + around_bytes


def test_what_fits_the_wire_fits_the_log() -> None:
    assert OURS.request_bytes_max + 100 <= KeeperConfig().write_bytes_max


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["set", "create", "create2", "sequential", "check"]), max_size=20))
def test_an_answer_is_no_longer_than_it_was_counted(names: list[str]) -> None:
    harness = Harness(SMALL)
    harness.create("/文")
    made: dict[str, Callable[[int], Single]] = {
        "set": lambda _: SetData("/文", b"", -1),
        "create": lambda number: Create(f"/文/{number}", b"", OPEN, 0),
        "create2": lambda number: Create2(f"/文/{number}", b"", OPEN, 1),
        "sequential": lambda _: Create("/文/log-", b"", OPEN, 2),
        "check": lambda _: Check("/文", -1),
    }
    multi = Multi(tuple(made[name](number) for number, name in enumerate(names)))
    outcome = harness.one(Write(FIRST, Generation(1), multi))
    assert isinstance(outcome.result, MultiResult)
    outcome = Outcome(Zxid(LARGE), 0, outcome.result)
    assert len(encode_reply(Outcomes([outcome]))) <= empty_reply_bytes(1) + answer_bytes(multi)


@pytest.mark.parametrize("kind", ["sets", "creates", "checks"])
def test_the_largest_multi_is_done_and_one_more_is_refused_before_any_work(kind: str) -> None:
    cluster = Cluster()
    client = cluster.connected("r0")
    client.create("/a")
    limits = WriteLimits(reply_bytes_max=KEEPER.reply_bytes_max)
    kinds: dict[str, Callable[[int], Single]] = {
        "sets": lambda number: SetData("/a", b"%d" % number, -1),
        "creates": lambda number: Create(f"/a/{number:05}", b"", OPEN, 0),
        "checks": lambda _: Check("/a", -1),
    }
    made = kinds[kind]
    count = next(n for n in range(1, 5_000) if why_too_large(_multi(made, n + 1), limits))
    op = cluster.node("r0").replica.core.state.op
    refused = client.ask(_multi(made, count + 1))
    assert refused.error == ErrorCode.MARSHALLING_ERROR
    assert cluster.node("r0").replica.core.state.op == op, "nothing was logged"
    done = client.result(_multi(made, count))
    assert isinstance(done, MultiResult)
    assert len(done.results) == count


def _multi(made: Callable[[int], Single], count: int) -> Multi:
    return Multi(tuple(made(number) for number in range(count)))


def test_why_says_which_limit_and_by_how_much() -> None:
    sets = Multi((SetData("/a", b"", -1),) * 454)
    assert why_too_large(sets, OURS) is None
    assert why_too_large(Multi((*sets.operations, sets.operations[0])), OURS) == (
        "the multi of 455 operations exceeds the limit of 65536 bytes for its answers, which take 65592"
    )
    checks = Multi((Check("/a", 0),) * 4097)
    assert why_too_large(checks, OURS) == (
        "the multi of 4097 operations exceeds the limit of 4096 operations"
    )
    data = Multi((SetData("/a", bytes(600_000), 0),) * 2)
    assert why_too_large(data, OURS) == (
        "the multi of 2 operations exceeds the limit of 1049600 bytes for a request, and has 1200067"
    )


def test_a_core_counts_with_the_longest_permissions() -> None:
    operations = (messages.Check("/a", 0), messages.Set("/a", b"x", 0))
    assert why_too_large_for_a_core(operations) is None
    entries = tuple(
        messages.Create(f"/log/log-{number}", bytes(1000), sequential=True) for number in range(990)
    )
    done = Multi(tuple(Create(each.path, each.data, NODES_ACL, 2) for each in entries))
    excess = multi_bytes(done) - 1
    limits = WriteLimits(request_bytes_max=excess, reply_bytes_max=None)
    assert why_too_large_for_a_core(entries, limits) is not None
    exact = WriteLimits(request_bytes_max=excess + 1, reply_bytes_max=None)
    assert why_too_large_for_a_core(entries, exact) is None
    assert why_too_large(done, limits) is not None
