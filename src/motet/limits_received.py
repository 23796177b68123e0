"""How far a number that comes in from a peer may be from our own, each with the reason.

Views, epochs, ops and offsets count up by one, are kept for ever, and never fall. So a number that was wrong
once and believed would be wrong for ever: one message could leave a cluster without a next view. A receiver
therefore takes a number only if it is near its own. Near is what an honest peer can be ahead by, however long
the receiver was away; and so little that a liar who makes the most of every message needs more of them than a
disk can take in centuries to use the range up.
"""

view_step_max = 1 << 24
"""Views that a message may be ahead of a replica. A view takes a second or two, so a replica that was away
while the others changed views without a pause would have to be away for half a year; and a liar needs 2^38
messages, each of which a replica makes durable, to come to the end of the range."""

epoch_step_max = 1 << 24
"""Epochs that a message may be ahead of a replica of a shard, and a node ahead of its operator. One election
or change of an ensemble raises an epoch by one or two, so the same holds."""

op_step_max = 1 << 44
"""Operations that a message may be ahead of a replica: at 10,000 a second it would have been away for 55
years."""

counter_max = 1 << 62
"""No view, op, epoch, offset or count of ours gets there; 64 bits hold as many again. What would get there is
refused, so that nothing is ever counted beyond what a file can hold."""

timestamp_ns_max = 1 << 62
"""Nanoseconds of a day in 2116: of an operation's timestamp, and of the time that a peer says it is."""

shards_left_max = 1 << 16
"""Shards that a node remembers to have left since its start, so that a message that comes late does not bring
it back; of more than that it forgets the oldest."""

round_step_max = 1 << 32
"""Rounds that an answer may be ahead of whoever asks: a leader asks far fewer than that in one life."""

clock_received_ms_max = 4_102_444_800_000
"""The first millisecond of 2100: no clock that comes in from outside is beyond it, whatever any wall says.
Clocks go on to 2109, so that even from there everything that is ever written has its own."""

map_term_step_max = 1 << 24
"""Terms of operators that a shard map may be ahead of the one that a node has: a term is one election."""

assert view_step_max < counter_max >> 32
assert epoch_step_max < counter_max >> 32
