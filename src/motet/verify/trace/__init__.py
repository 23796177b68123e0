"""Trace validation: is what a system logged a behaviour of a model?

A trace is a file of lines, each one JSON object. The first may be a header that names the model and its
size; each other line is a step of the system::

    {"model": "quorum", "set": {"replicas": 3, "records": 2}}
    {"action": "QuorumInsert", "with": {"r": 0}}
    {"action": "UpdateQuorum", "with": {"r": 1}, "state": {"replica": {"1": {"log_pointer": 2}}}}
    {"state": {"last_added_data": 1}}

``action`` is an action of the model, ``with`` as many of its arguments as are known, ``state`` as much of the
state after it as was seen. A line without an action only looks. Whatever else a line has is ignored. Actions
that the system does not log are *silent*: so many of them may come before each line.

The checker keeps every state of the model that the lines so far allow. When none is left, the line that
left none is one that no behaviour of the model explains.
"""

from motet.verify.trace.check import Checked, Tracker, check_trace
from motet.verify.trace.lines import Header, TraceLine, read_trace

__all__ = ["Checked", "Header", "TraceLine", "Tracker", "check_trace", "read_trace"]
