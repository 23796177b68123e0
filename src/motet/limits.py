"""Every bound of the system in one place, each with its unit last and the sum behind it.

Everything is bounded: what arrives from outside is refused with a clear answer when it is too much, and
what we keep for later lives in a queue with a length. The relations between the bounds are asserted
when this module is imported.
"""

KIB = 1 << 10
MIB = 1 << 20

# Frames and records

frame_bytes_max = 16 * MIB
"""A whole frame with its header. Twice the largest body a client may send, so that a reply that wraps
a request still fits; a length field above it is refused before a byte is allocated for it."""

message_bytes_max = 8 * MIB
"""The body of one message."""

batch_bytes_max = 64 * KIB
"""Small frames that travel as one. Nothing of a batch is seen before its last byte, so it must not take
long."""

record_bytes_max = frame_bytes_max + 64
"""One journal record with its header, which is a little larger than a frame's: whatever fits into a frame
can be logged."""

# One turn of a node's loop

turn_events_max = 4096
"""Events stepped in one turn: at about 5 µs each a turn stays near 20 ms."""

inbox_messages_max = 16_384
"""Messages that have arrived and wait for a turn; reading from sockets pauses above it."""

turn_bulk_ms_max = 20
"""How long a turn works on messages to a data node before everybody else is looked after again."""

turn_bulk_files_max = 48
"""Files of a data node that a turn syncs; hundreds at once can take a second."""

gathered_bytes_max = MIB
"""Writes of a turn that wait to become one call; above this they are written without waiting longer."""

timers_max = 4096
"""Timers of one machine that run at once; each has a name that its machine made up."""

peer_queue_bytes_max = 32 * MIB
"""Bytes queued for one peer; more is dropped and counted, since every protocol here repeats itself."""

inbox_bytes_max = 64 * MIB
"""Bytes that have arrived and wait for a turn: as many as it takes to keep a node busy, and no more."""

hello_body_bytes_max = 1 * KIB
"""More than this before the first frame is complete is not a greeting."""

client_unsent_bytes_max = 8 * MIB
"""Answers to one client that have not left, or are being made, above which its next request waits."""

client_unsent_bytes_all_max = 64 * MIB
"""The same for all clients of a node. What nodes send to each other has queues of its own."""

parked_requests_max = 16_384
"""Requests of clients that wait for room for their answers; whoever has most of them is closed above it."""

keeper_answer_bytes_max = 16 * MIB
"""One answer to a ZooKeeper client; a larger ``multi_read`` or list of children is refused."""

keeper_unsent_bytes_max = 1 * MIB
"""Answers given to one ZooKeeper client and not sent yet, above which nothing more of it is answered."""

keeper_unsent_bytes_all_max = 64 * MIB
"""The same for all ZooKeeper clients of a node: above it, reads wait until others have been sent."""

keeper_unsent_bytes_free = 16 * KIB
"""So much of each client does not count towards that: a client that reads little need not report it."""

keeper_asked_bytes_max = 4 * MIB
"""Requests of one ZooKeeper client that wait for their answers, above which it is not read from."""

keeper_asked_bytes_all_max = 64 * MIB
"""The same for all ZooKeeper clients of a node: whoever has asked for something is not read from then."""

unfinished_bytes_max = 32 * MIB
"""Beginnings of messages that the clients of one port have not finished; the oldest is cut off above it."""

open_files_max = 64
"""Files of one folder kept open; the rest are opened when they are needed."""

shard_files_open_max = 4096
"""The same for the logs of a data node, if the system allows six times as many: a log whose file has to be
opened for a write is synced twice, and so is the one whose file is closed for it."""

connections_max = 4096
"""Connections of clients at the native port of a node; one more is closed at once."""

peer_connections_max = 512
"""Connections of nodes there, and of those who have not said who they are."""

zookeeper_connections_max = 10_000
"""Connections at the ZooKeeper port."""

http_connections_max = 1_000
"""Connections at the HTTP port."""

# The cluster clock

clock_logical_max = (1 << 42) - 1
"""42 bits of milliseconds since 1970: until the year 2109."""

clock_counter_max = (1 << 22) - 1
"""22 bits of events within a millisecond."""

clock_reserve_ms = 200
"""How far ahead of the wall clock the durable bound is placed: ten small writes a second while ticking,
since a new bound is asked for when half of the last is used.
A restarted node may start that far ahead, so it must stay well below what its peers accept."""

clock_reserve_ticks = 1 << 10
"""How many ticks are reserved at first when the clock is ahead of the wall: the counter is reserved
then, not milliseconds, so that a restarting node does not push the cluster into the future. 1,000
restarts burn a quarter of one millisecond's counter."""

clock_reserve_ticks_max = 1 << 18
"""The reservation doubles up to this while one incarnation keeps using it up."""

clock_drift_ms_max = 500
"""How far ahead of the time that the nodes agree on a clock from a peer or client may be."""

clock_found_ms_max = 10 * 366 * 24 * 3_600_000
"""How far ahead of the time a clock on the disk of a node may be and still be taken over by the others:
ten years. Beyond that it is damage, or an error of a kind that must not use up the range of clocks."""

clock_lag_ms_max = 2_000
"""How far a clock may stay behind its wall when the disk takes longer for a bound than that is good for."""

# The keeper

keeper_multi_operations_max = 4096
"""Operations of one multi; fewer if their answers are long, since all of them fit into one reply."""

keeper_reply_bytes_default = 64 * KIB
"""One reply of the keeper, and one entry of its log (`keeper.request_bytes_max`)."""

keeper_multi_sets_max = 450
"""Sets, or creates that return a stat, that one reply of the default size has room for."""

# Streams and transactions

key_bytes_max = 1 * KIB
"""A key."""

row_bytes_max = 1 * MIB
"""One row or value."""

transaction_changes_max = 10_000
"""Changes of one transaction."""

transaction_bytes_max = 4 * MIB
"""All keys and rows of one transaction: half a message, so that it travels and is logged whole."""

page_changes_max = 10_000
"""Changes of one page of the feed, or entries of one read."""

page_bytes_max = 1 * MIB
"""Bytes of one page, give or take its last transaction."""

name_length_max = 128
"""The name of a stream or a producer."""

token_number_max = (1 << 63) - 1
"""The count in a token: what fits a signed 64-bit number anywhere."""

transaction_id_length_max = 64
"""The id of a transaction."""

stream_shards_max = 256
"""Shards of one stream."""

streams_max = 10_000
"""Streams of one database."""

segment_bytes = 16 * MIB
"""One file of the log, made large before it is used, so that writing needs no new blocks."""

block_records_max = 10_000
"""Records that a client sends in one block."""

block_bytes_max = 4 * MIB
"""A block of records: half a message, so that it travels and is logged whole."""

entry_batch_bytes_max = 64 * KIB
"""What comes about transactions in one turn is put together into one entry of a shard's log up to this size:
who looks for the latest change of one key reads all of it."""

entry_bytes_max = 512 * KIB
"""Blocks of many clients are put together into one entry of a shard's log up to this size; a larger block has
an entry of its own."""

appends_waiting_max = 16_384
"""Requests to append to one shard that wait to be committed."""

producer_window = 64
"""Tokens that are remembered of each producer: this many may be under way at once and still be repeated."""

producers_max = 100_000
"""Producers that a shard remembers. None is ever forgotten, so beyond it new ones are refused."""

transaction_participants_max = 64
"""Shards of one transaction."""

transactions_waiting_max = 4096
"""Requests about transactions that wait at the leader of one shard."""

prepared_max = 4096
"""Transactions that are prepared in one shard, and not decided."""

prepared_bytes_max = 32 * MIB
"""What they want to change: it is part of the shard's state, so it must be small beside that."""

decisions_max = 65_536
"""Decisions that a home shard keeps for participants that have not logged them yet."""

outcomes_remembered = 131_072
"""Transactions of which a shard remembers what became of them: a retry is recognised for as long."""

sparse_index_step_bytes = 64 * KIB
"""So much of a shard's log is between two index points at first: what has to be read to find a record."""

named_cursors_max = 1000
"""Named cursors of one shard: each holds back what is trimmed."""

clock_held_ms_max = 1_000
"""How long an embedded database holds a transaction whose clock is fixed: everybody who writes waits."""

raw_keys_max = 65_536
"""Keys of raw records that a shard remembers the latest change of before its first transaction."""

latest_keys_max = 1_000_000
"""Keys that a shard with transactions remembers the latest change of."""

append_batch_bytes_max = 1 << 30
"""Keys or values of one `append_batch`: all are in memory at once, and Arrow counts to twice that."""

shards_per_node_max = 4096
"""Shards that one node holds replicas of."""

shard_replicas_max = 15
"""Replicas of one shard."""

shard_segment_bytes = 16 * MIB
"""One file of a shard's log: what is removed at once when a log is trimmed, and read at most at a start."""

shard_preallocate_bytes = 4 * MIB
"""By so much a segment is made larger at a time, ahead of what is written."""

shard_index_step_bytes = 64 * KIB
"""One mark of a segment's index for so many bytes: 256 of them for a whole segment."""

shard_tail_bytes_max = 8 * MIB
"""The newest entries of a shard, kept in memory for followers and readers that keep up."""

shard_message_bytes = 1 * MIB
"""Entries that travel to a follower in one message, give or take the last."""

shard_in_flight_bytes_max = 8 * MIB
"""Pushed to one follower and not confirmed: a quarter of what is queued for a peer at most."""

shard_uncommitted_bytes_max = 32 * MIB
"""In the log of a leader and not committed; then appends are refused until followers catch up."""

shard_uncommitted_entries_max = 65_536
"""The same, counted."""

shard_entry_body_bytes_max = 6 * MIB
"""The body of one entry: it travels in one message, and is one record of a segment."""

shard_read_bytes = 1 * MIB
"""Read from a segment at once."""

shard_snapshot_every_bytes = 64 * MIB
"""After so much of the log a shard's state is put on disk: what has to be applied again after a start."""

shard_snapshots_given_max = 4
"""Snapshots of one shard that are kept for nodes that fetch them."""

shard_state_bytes_max = 256 * MIB
"""The state of one shard, as it is fetched and kept in memory by a node that becomes a replica."""

shard_piece_bytes = 1 * MIB
"""A piece of a state that travels in one message."""

asked_together_max = 1024
"""Questions about shards in one message."""

asked_together_bytes_max = 4 * MIB
"""Entries in the answer to it."""

asking_many_max = 1024
"""Such messages that are not answered yet."""

asked_at_once_max = 128
"""Of their questions so many are asked in one turn: at about 50 µs each that takes a few milliseconds."""

readings_max = 4096
"""Requests that are being served from the log, or wait for the visible clock."""

commits_waiting_max = 4096
"""Requests that wait for the log or the clock: as many as a node steps in one turn."""

# Operators

missing_shards_max = 64
"""Shards that a node asks about in one answer because transactions wait for them."""

operator_requests_max = 1024
"""Requests of clients that wait for an operator to finish something."""

cluster_nodes_max = 1000
"""Nodes of a cluster: what an operator sends heartbeats to, and what fits into one shard map."""

# What a peer may say
#
# Views, epochs, ops and offsets count up by one, are kept for ever, and never fall. So a number that was
# wrong once and believed would be wrong for ever: one message could leave a cluster without a next view. A
# receiver therefore takes a number only if it is near its own. Near is what an honest peer can be ahead by,
# however long the receiver was away; and so little that a liar who makes the most of every message needs more
# of them than a disk can take in centuries to use the range up.

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

round_step_max = 1 << 32
"""Rounds that an answer may be ahead of whoever asks: a leader asks far fewer than that in one life."""

clock_received_ms_max = 4_102_444_800_000
"""The first millisecond of 2100: no clock that comes in from outside is beyond it, whatever any wall says.
Clocks go on to 2109, so that even from there everything that is ever written has its own."""

map_term_step_max = 1 << 24
"""Terms of operators that a shard map may be ahead of the one that a node has: a term is one election."""

shards_left_max = 1 << 16
"""Shards that a node remembers to have left since its start, so that a message that comes late does not bring
it back; of more than that it forgets the oldest."""

# Tables

tables_max = 10_000
"""Tables of one database."""

table_columns_max = 1000
"""Columns of a table or of a typed stream."""

schema_bytes_max = 256 * KIB
"""An Arrow schema as its IPC bytes."""

definition_bytes_max = 1_000_000
"""What the keeper holds of a stream or a table: it has to fit into one of its nodes."""

table_shards_max = 256
"""Shards of one table."""

dedup_window_max = 100_000
"""Hashes of content that a shard of a table remembers at most."""

described_tables_max = 1_000
"""Tables that are described at one moment."""

listed_bytes_max = MIB
"""Definitions in one answer about many tables; a single one may be larger."""

publish_parts_max = 4096
"""Parts that become visible in one step."""

publish_ops_max = 2048
"""Operations of the keeper that one publication takes: one for the entry of each shard, and one for each
replica of it that holds its parts. The keeper's own limit for one multi may be lower."""

writers_max = 10_000
"""Ordered writers of one database; their last epoch is never forgotten."""

writer_note_length_max = 4 * KIB
"""What an ordered writer may say about its last error."""

insert_partitions_max = 1000
"""Partitions that the rows of one insert are in: each makes a part of its own, in each shard."""

bucket_count_max = 10_000
"""Buckets of ``partition_by="bucket(n, column)"``."""

insert_inline_bytes_max = 2 * MIB
"""A part that travels within the message about it; larger ones are put by HTTP before, which costs more.

A link that other messages wait for carries it: so much takes 17 ms on a gigabit."""

part_file_bytes_max = 10 << 30
"""The file of one part of a replicated table: it is never in memory as a whole."""

part_manifest_bytes_max = 8 * MIB
"""The manifest of one part: about as many as 700,000 column chunks."""

sql_seconds_default = 3600.0
"""How long a query in SQL may take, unless the call says otherwise."""

sql_seconds_max = 7 * 24 * 3600.0
"""What a call may ask for."""

sql_memory_bytes_min = 64 * MIB
"""With less DuckDB does not get far. The usual bound is half of the machine's memory."""

checked_files_max = 1 << 16
"""Files of parts that a process remembers as checked; the others are hashed again when they are read."""

put_bytes_max = 64 << 30
"""Files of parts that were put over HTTP and that nothing names yet."""

feed_splits_max = 256
"""Splits into which a slice of the feed is cut for readers that work side by side."""

# The simulated world

simulation_events_max = 1_000_000
"""Events of one simulated run; a run that reaches it is reported as not finished, never as ok."""

# Verification

explored_states_max = 50_000_000
"""States an exploration looks at before it says that it does not know."""
explore_workers_max = 64
"""Processes of one exploration."""
sweep_jobs_max = 100_000
"""Checks in one sweep on Spark."""
trace_line_bytes_max = 1 << 20
"""One line of a trace that is compared with a model."""
trace_candidates_max = 10_000
"""States of a model that may agree with a trace at once."""
trace_reasons_max = 5
"""Differences that are told of a line that no behaviour explains."""

assert message_bytes_max < frame_bytes_max
assert page_bytes_max < client_unsent_bytes_max < client_unsent_bytes_all_max
assert keeper_unsent_bytes_free < keeper_unsent_bytes_max < keeper_unsent_bytes_all_max
assert batch_bytes_max < message_bytes_max
assert asked_together_bytes_max + 4 * KIB * asked_together_max <= message_bytes_max
assert frame_bytes_max < record_bytes_max
assert frame_bytes_max < peer_queue_bytes_max, "one frame always fits into an empty queue"
assert turn_events_max <= inbox_messages_max
assert row_bytes_max + key_bytes_max < transaction_bytes_max
assert (
    transaction_bytes_max
    + page_bytes_max
    + page_changes_max * (name_length_max + transaction_id_length_max + 64)
    < message_bytes_max
), "a page with its last transaction, and the names in it, is one message"
assert publish_parts_max * 700 < transaction_bytes_max, "and so is what is published in one step"
assert row_bytes_max + key_bytes_max + 64 < block_bytes_max, "every record fits into a block"
assert entry_bytes_max < block_bytes_max < message_bytes_max
assert block_bytes_max + KIB < shard_entry_body_bytes_max < message_bytes_max - shard_message_bytes
assert shard_entry_body_bytes_max < shard_segment_bytes // 2
assert 2 * shard_in_flight_bytes_max <= peer_queue_bytes_max
assert part_manifest_bytes_max + KIB < record_bytes_max, "a manifest is one journal record"
assert record_bytes_max <= 2 * segment_bytes
assert transaction_bytes_max < segment_bytes // 2, "a segment takes more than one transaction"
assert view_step_max < counter_max >> 32
assert epoch_step_max < counter_max >> 32
assert clock_logical_max.bit_length() + clock_counter_max.bit_length() == 64
assert clock_reserve_ticks <= clock_reserve_ticks_max <= clock_counter_max
assert 2 * clock_reserve_ms < clock_drift_ms_max, (
    "a restarted node's clock is acceptable to its peers"
)
