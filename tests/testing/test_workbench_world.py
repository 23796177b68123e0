"""Around the machines of a workbench: messages, time and nodes."""

from __future__ import annotations

import pytest
from tests.testing.puppet import LOG, Ping, Puppet, Stage, ping

from motet.core.machine import (
    Fired,
    Read,
    Received,
    SetTimer,
    Started,
)
from motet.errors import BadScenario
from motet.ids import Address, ReadId, TimerName
from motet.testing.workbench import Workbench

# Messages


def test_messages_move_only_when_delivered_and_answers_wait() -> None:
    stage = Stage()
    stage.do(ping(2), ping(0))
    assert stage.bench.told_in_flight() == ["n1 -> n2 Ping number=2", "n1 -> n2 Ping number=0"]
    assert stage.bench.deliver("n2") == [
        "n2 received Ping number=2 from n1",
        "  n2 -> n1 Ping number=1",
        "n2 received Ping number=0 from n1",
    ]
    assert stage.bench.told_in_flight() == ["n2 -> n1 Ping number=1"]


def test_messages_are_chosen_by_receiver_sender_and_kind() -> None:
    stage = Stage()
    stage.do(ping(1), ping(2, to="client"))
    stage.do(ping(3, to="client"), name="n2")
    assert stage.bench.deliver("client", sender="n2") == ["client received Ping number=3 from n2"]
    assert stage.bench.received[Address("client")] == [Ping(3)]
    assert stage.bench.drop(kind="Pong") == []
    assert stage.bench.drop(kind="Ping") == [
        "  n1 -x n2 Ping number=1",
        "  n1 -x client Ping number=2",
    ]
    assert stage.bench.deliver() == []


def test_messages_overtake_each_other() -> None:
    stage = Stage()
    stage.do(ping(1), ping(2, to="client"), ping(3), ping(3))
    stage.bench.deliver("n2", nth=2)
    stage.bench.drop("n2", nth=2)
    stage.bench.deliver("n2")
    assert stage.happened("n2") == [
        (Received, "n1", Ping(3), False),
        (Received, "n1", Ping(1), False),
    ]
    with pytest.raises(BadScenario, match="nth=1, but 0"):
        stage.bench.repeat("n2", nth=1)


def test_a_repeated_message_arrives_twice() -> None:
    stage = Stage()
    stage.do(ping(0))
    assert stage.bench.repeat("n2") == ["  n1 -> n2 Ping number=0"]
    stage.bench.deliver()
    assert stage.happened("n2") == [(Received, "n1", Ping(0), False)] * 2


def test_settling_delivers_answers_too() -> None:
    stage = Stage()
    stage.do(ping(3))
    told = stage.bench.settle()
    assert [line for line in told if "received" in line] == [
        "n2 received Ping number=3 from n1",
        "n1 received Ping number=2 from n2",
        "n2 received Ping number=1 from n1",
        "n1 received Ping number=0 from n2",
    ]


def test_machines_that_never_rest_are_stopped() -> None:
    stage = Stage(steps_max=20)
    stage.do(ping(21))
    with pytest.raises(AssertionError, match="no rest"):
        stage.bench.settle()


def test_a_cut_link_loses_one_direction_from_now_on() -> None:
    stage = Stage()
    stage.do(ping(1))
    stage.bench.cut("n1", "n2")
    assert stage.do(ping(2)) == ["  n1 -x n2 Ping number=2"]
    stage.bench.deliver("n2")
    assert stage.bench.told_in_flight() == ["n2 -> n1 Ping number=0"]
    stage.bench.heal()
    assert stage.do(ping(3)) == ["  n1 -> n2 Ping number=3"]


def test_an_isolated_node_is_cut_off_both_ways() -> None:
    stage = Stage()
    stage.bench.isolate("n1")
    assert stage.do(ping(1)) == ["  n1 -x n2 Ping number=1"]
    assert stage.do(ping(1, to="n1"), name="n2") == ["  n2 -x n1 Ping number=1"]


def test_a_message_to_a_node_that_is_down_is_lost() -> None:
    stage = Stage()
    stage.do(ping(1))
    stage.bench.crash("n2")
    assert stage.bench.deliver() == ["  n1 -x n2 Ping number=1 (n2 is down)"]


# Time


def test_timers_fire_when_due_in_order_and_once() -> None:
    stage = Stage()
    stage.do(SetTimer(TimerName("late"), 30), SetTimer(TimerName("early"), 10))
    stage.do(SetTimer(TimerName("moved"), 5), SetTimer(TimerName("moved"), 20), name="n2")
    assert stage.bench.told_timers("n1") == ["early in 10 ms", "late in 30 ms"]
    assert stage.bench.advance(9) == []
    assert stage.bench.advance(16) == ["n1 fired early", "n2 fired moved"]
    assert stage.bench.told_timers("n1") == ["late in 5 ms"]
    assert stage.bench.advance(100) == ["n1 fired late"]
    assert stage.bench.advance(100) == []


def test_firing_by_hand_moves_time_to_where_the_timer_is_due() -> None:
    stage = Stage()
    stage.do(SetTimer(TimerName("a"), 10), SetTimer(TimerName("b"), 20))
    stage.bench.fire("n1", "b")
    fired = stage.puppet().events[-1]
    assert isinstance(fired, Fired)
    assert fired.now.wall_ms == 1020
    assert stage.bench.told_timers("n1") == ["a in -10 ms"], "overdue, but not fired"
    assert stage.bench.advance(0) == ["n1 fired a"]
    with pytest.raises(BadScenario, match=r"'b'.*none"):
        stage.bench.fire("n1", "b")


def test_a_wall_clock_jumps_alone_and_passes_with_time() -> None:
    stage = Stage()
    stage.bench.set_wall(500, "n2")
    stage.bench.advance(25)
    stage.do()
    stage.do(name="n2")
    assert stage.puppet("n1").events[-1].now.wall_ms == 1025
    assert stage.puppet("n2").events[-1].now.wall_ms == 525
    assert (
        stage.puppet("n1").events[-1].now.monotonic_ns
        == stage.puppet("n2").events[-1].now.monotonic_ns
    )


# Nodes


def test_each_incarnation_has_a_nonce_of_its_own() -> None:
    stage = Stage()
    before = stage.puppet().events[0]
    assert stage.bench.restart("n1") == ["n1 crashed", "n1 started"]
    after = stage.puppet().events[0]
    assert isinstance(before, Started)
    assert isinstance(after, Started)
    assert before.nonce != after.nonce


def test_a_machine_can_act_as_it_starts() -> None:
    bench = Workbench()
    bench.add("n1", lambda: Puppet((Read(ReadId(0), LOG),)))
    assert bench.start("n1") == ["n1 started", "  read log@0 all #0", "n1 read back #0: 0 bytes"]


def test_what_makes_no_sense_is_refused() -> None:
    stage = Stage()
    with pytest.raises(BadScenario, match=r"'n3'.*n1, n2"):
        stage.bench.start("n3")
    with pytest.raises(BadScenario, match="runs already"):
        stage.bench.start("n1")
    with pytest.raises(BadScenario, match="on the bench already"):
        stage.bench.add("n1", Puppet)
    stage.bench.crash("n1")
    for operation in (stage.bench.crash, stage.bench.sync):
        with pytest.raises(BadScenario, match="does not run"):
            operation("n1")
