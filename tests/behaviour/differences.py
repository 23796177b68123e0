"""Where the places differ today: what happens, and what should.

Each row makes one case an expected failure in some places, with this error and no other; when the case
passes, the row has to go. What is right everywhere has no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from tests.behaviour.places import CLUSTERS, FOLDERS

from motet.errors import (
    BadInput,
    BadSchema,
    NodeError,
    OutcomeUnknown,
    StreamExists,
    TokenExpired,
)

#: ``pytest.raises`` has waited for an error in vain
NothingRaised = pytest.fail.Exception


class Difference(NamedTuple):
    """One case that fails in some places."""

    #: the file without ``test_`` for all of its cases, or one case, or a variant of it in brackets
    case: str
    places: tuple[str, ...]
    #: how the case fails there
    error: type[BaseException]
    happens: str
    should: str


DIFFERENCES = (
    # Streams
    Difference(
        "streams::test_a_deleted_stream_is_gone_and_its_name_is_free",
        FOLDERS,
        NodeError,
        "an embedded database does not delete streams",
        "it deletes the stream with its data, as a cluster does",
    ),
    Difference(
        "streams::test_what_is_not_there_cannot_be_deleted",
        FOLDERS,
        NodeError,
        "an embedded database does not delete streams",
        "NO_SUCH_STREAM, as a cluster says",
    ),
    Difference(
        "streams::test_a_name_is_used_again_by_a_stream_of_another_type",
        FOLDERS,
        NodeError,
        "an embedded database does not delete streams",
        "it deletes the stream with its data, as a cluster does",
    ),
    Difference(
        "streams::test_a_name_is_used_again_by_a_stream_of_another_type",
        CLUSTERS,
        BadSchema,
        "a client that knew the old stream checks rows against its schema until it has a newer map",
        "it checks and encodes rows by the schema of the stream that it writes to",
    ),
    Difference(
        "streams::test_more_replicas_than_there_are_nodes_are_refused",
        FOLDERS,
        BadInput,
        "BAD_INPUT replicas is a whole number from 1 to 1",
        "NO_NODE_TO_PLACE_ON with the number of data nodes, as a cluster says",
    ),
    Difference(
        "streams::test_the_replicas_that_it_has_anyway_may_be_asked_for",
        CLUSTERS,
        StreamExists,
        "a stream that was created without replicas is another one than with their number",
        "it is the same stream: without a number it has min(3, data nodes)",
    ),
    # Raw entries
    Difference(
        "append_read::test_the_last_tokens_of_a_producer_may_be_repeated",
        FOLDERS,
        TokenExpired,
        "the last token of a producer is remembered",
        "its last 64 are, as on a cluster",
    ),
    # Transactions
    Difference(
        "fixed_clock::test_a_transaction_that_was_taken_back_is_known_as_aborted",
        FOLDERS,
        AssertionError,
        "nothing is known of a transaction whose clock was fixed and that was not committed",
        "it is known as aborted, as on a cluster",
    ),
    # The feed
    Difference(
        "feed_plans::test_a_plan_counts_the_changes_of_its_streams",
        FOLDERS,
        AssertionError,
        "a plan counts the changes of all streams of the database",
        "it counts those of the streams it is made for, as on a cluster",
    ),
    # Clocks
    Difference(
        "clock::test_a_bookmark_ahead_of_the_database_is_refused",
        CLUSTERS,
        NothingRaised,
        "a bookmark ahead of all clocks is taken, and what is asked later is refused for its clock",
        "BAD_BOOKMARK when somebody connects with it, as an embedded database says",
    ),
    # Shards
    Difference(
        "shards::test_a_transaction_whose_clock_is_fixed_is_incomplete",
        FOLDERS,
        AssertionError,
        "none is incomplete, also while the clock of one is fixed",
        "it is listed with its shards until it is committed or given up, as on a cluster",
    ),
    Difference(
        "shards::test_stats_say_who_leads_and_who_holds_each_shard",
        FOLDERS,
        AssertionError,
        "a shard has no leader, no ensemble and no epoch",
        "its one node leads and holds it, in the epoch that positions have",
    ),
    Difference(
        "shards::test_a_leader_is_elected_anew_and_nothing_is_lost",
        FOLDERS,
        AttributeError,
        "an embedded database cannot be asked about its shards as an operator is",
        "it describes them and refuses what one node cannot do, as a cluster of one does",
    ),
    Difference(
        "shards::test_an_ensemble_grows_is_changed_and_shrinks",
        FOLDERS,
        AttributeError,
        "an embedded database cannot be asked about its shards as an operator is",
        "it describes them and refuses what one node cannot do, as a cluster of one does",
    ),
    Difference(
        "shards::test_what_an_operator_cannot_do_is_told_and_changes_nothing",
        FOLDERS,
        AttributeError,
        "an embedded database cannot be asked about its shards as an operator is",
        "it describes them and refuses what one node cannot do, as a cluster of one does",
    ),
    # The face without an event loop
    Difference(
        "sync::test_a_stream_is_deleted",
        FOLDERS,
        NodeError,
        "an embedded database does not delete streams",
        "it deletes the stream with its data, as a cluster does",
    ),
    # Faults
    Difference(
        "faults::test_a_full_disk_is_said_reads_go_on_and_with_room_it_works_again",
        CLUSTERS,
        OutcomeUnknown,
        "OUTCOME_UNKNOWN after 5 seconds: the leader keeps what it cannot write until it can",
        "DISK_FULL, and nothing was written, as an embedded database says",
    ),
)


def difference_of(names: Sequence[str], place: object) -> Difference | None:
    """The row about a case, by any of its names, in a place; None if it is as it should be."""
    return next((row for row in DIFFERENCES if row.case in names and place in row.places), None)
