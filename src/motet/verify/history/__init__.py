"""Histories of concurrent operations: a recorder, and checkers that judge what it took down.

Record what the clients of a system see, then ask a checker whether one order of the operations, in
accord with real time, explains all answers::

    recorder = Recorder()
    write = recorder.invoke("c1", "write", None, 1, at=0)
    recorder.ok(write, None, at=5)
    read = recorder.invoke("c2", "read", None, None, at=6)
    recorder.ok(read, None, at=9)                       # the register still answers nothing
    check_register(recorder.history()).status           # violated

A verdict is ok, violated with a witness, or unknown. It is never ok unless everything was looked at.
"""

from motet.verify.history.banks import check_bank, check_snapshots
from motet.verify.history.causal import check_causal
from motet.verify.history.feeds import check_feed
from motet.verify.history.operation import Operation
from motet.verify.history.queues import check_queue
from motet.verify.history.record import History, Recorder, Verdict
from motet.verify.history.register import check_keyed, check_register
from motet.verify.history.sessions import check_sessions
from motet.verify.history.sets import check_set
from motet.verify.history.trees import check_tree
from motet.verify.history.unique import check_unique_register

__all__ = [
    "History",
    "Operation",
    "Recorder",
    "Verdict",
    "check_bank",
    "check_causal",
    "check_feed",
    "check_keyed",
    "check_queue",
    "check_register",
    "check_sessions",
    "check_set",
    "check_snapshots",
    "check_tree",
    "check_unique_register",
]
