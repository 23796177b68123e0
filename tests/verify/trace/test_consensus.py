"""What replicas of consensus are seen to be, written down by their nodes, is put together and followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from motet.core.machine import Effect, Event, Send
from motet.core.vsr.look import LookLine, Observed, can_be_seen, changed_slots, observed
from motet.core.vsr.messages import DoViewChange
from motet.core.vsr.replica import Replica
from motet.errors import BadInput
from motet.sim.host import Host
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.models import model_named
from motet.verify.storms.vsr import REPLICAS, ViewChangeRun, ViewChangeStorm
from motet.verify.trace import Checked, check_trace
from motet.verify.trace.nodes import read_of_nodes
from motet.verify.trace.view_changes import read_looks, steps_of

LOOKS = 250


class Told(ViewChangeStorm):
    """Its replicas write their looks down, as nodes do."""

    def __init__(self) -> None:
        self.lines: list[LookLine] = []
        self._seen: dict[str, Observed] = {}

    def prepare(self, world: World, plant: str | None) -> ViewChangeRun:
        run = super().prepare(world, plant)
        world.observe(self._saw)
        return run

    def _saw(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        if not isinstance(host.machine, Replica) or not can_be_seen(host.machine.core):
            return
        core, name = host.machine.core, host.node.address
        before, after = self._seen.get(name), observed(core)
        sends = any(isinstance(e, Send) and isinstance(e.message, DoViewChange) for e in effects)
        if before == after and not sends:
            return
        self._seen[name] = after
        changed = changed_slots(before or Observed(), after)
        at, first = len(self.lines), before is None
        size = (after.view, after.log_view, after.status, after.op, after.commit, after.began)
        self.lines.append(LookLine(at, name, core.own, REPLICAS, *size, changed, sends, first))


@pytest.fixture(scope="module")
def looks() -> list[dict[str, Any]]:
    part = Told()
    assert simulate(part, 41).verdict == "ok"
    assert max(line.view for line in part.lines[:LOOKS]) > 1
    return [msgspec.json.decode(msgspec.json.encode(line)) for line in part.lines[:LOOKS]]


def checked(files: list[Path]) -> Checked:
    header, steps = steps_of(read_looks(files))
    return check_trace(model_named(header.model or "", header.settings), steps)


def write(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_looks_of_all_nodes_are_one_trace(looks: list[dict[str, Any]], tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.ndjson" for name in ("n1", "n2", "n3")]
    for file in files:
        write(file, [line for line in looks if line["node"] == file.stem])
    assert checked(files).verdict == "explained"


def test_the_first_line_that_nothing_explains_is_named(
    looks: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "all.ndjson"
    commits = [at for at, line in enumerate(looks) if line["commit"] > 1 and line["view"] > 1]
    wrong = commits[3]
    write(
        file,
        [*looks[:wrong], looks[wrong] | {"commit": looks[wrong]["op"] + 1}, *looks[wrong + 1 :]],
    )
    result = checked([file])
    assert (result.verdict, result.file, result.line) == ("unexplained", "all.ndjson", wrong + 1)


def test_a_replica_that_was_restarted_has_what_it_had_written(
    looks: list[dict[str, Any]], tmp_path: Path
) -> None:
    """It comes back in the middle, with all that is on its disk and no word of what is committed."""
    file = tmp_path / "all.ndjson"
    middle = next(
        at
        for at, line in enumerate(looks)
        if line["commit"] > 2 and line["view"] % REPLICAS != line["replica"]
    )
    r = looks[middle]["replica"]
    before = Observed()
    for line in looks[: middle + 1]:
        if line["replica"] == r:
            before = msgspec.convert(line, LookLine, str_keys=True).after(before)
    slots = {str(op): slot for op, slot in enumerate(before.slots, start=1) if slot is not None}
    back = looks[middle] | {"slots": slots, "restarted": True, "commit": 0, "sends": False}
    write(file, [*looks[: middle + 1], back])
    assert checked([file]).verdict == "explained"
    written = max(int(op) for op, slot in slots.items() if slot[1] == "written")
    less = {op: slot for op, slot in slots.items() if int(op) < written}
    write(file, [*looks[: middle + 1], back | {"op": written - 1, "slots": less}])
    result = checked([file])
    assert (result.verdict, result.line) == ("unexplained", middle + 2), (
        "what was acknowledged is gone"
    )


def test_shards_and_replicas_are_told_apart(looks: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    join = {"at": 1, "node": "n1", "shard": "s", "action": "Join", "with": {"n": "n1"}}
    write(file, [join, *looks])
    assert read_of_nodes([file], "vsr-view-change", None)[0].model == "vsr-view-change"
    assert read_of_nodes([file], None, None)[0].model == "shard-log-steps"
    write(file, looks)
    with pytest.raises(BadInput, match=r"nothing is said of a shard; .*--model vsr-view-change"):
        read_of_nodes([file], None, None)
    write(file, [join])
    with pytest.raises(BadInput, match="nothing is said of a replica"):
        read_looks([file])
    write(file, [looks[0], looks[0] | {"replicas": 5}])
    with pytest.raises(BadInput, match="several clusters"):
        read_looks([file])
    write(file, [looks[0], {"at": 3}])
    with pytest.raises(BadInput, match=r"line 2 of the trace all\.ndjson is malformed"):
        read_looks([file])
