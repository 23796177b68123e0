"""A public class of the cores and the client has a name of its own, but for those that are listed here."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "motet"

SHARED = {
    # Every machine has one of these, and nobody uses those of two machines in one file.
    "Core": "what the protocols of one machine share",
    "Phase": "how far a machine is",
    "State": "the memory of a machine",
    "StateMachine": "what a log carries: consensus and the shard log each say what they need",
    "Status": "the role of a replica, in the words of its protocol",
    # Wire tags of an embedded database come from these names; they go with its machine, `core/onelog`.
    "Commit": "consensus has a message of that name in its source text",
    "CreateStream": "of an embedded database, and of an operator",
    "DescribeFeed": "of an embedded database, and of a cluster",
    "EnableClock": "of an embedded database, and of an operator",
    "FeedDescribed": "of an embedded database, and of a cluster",
    "GetTransaction": "of an embedded database, and of a cluster",
    "Latest": "of an embedded database, and of a cluster",
    "TransactionIs": "of an embedded database, and of a cluster",
    # What users see has the word that users have for it.
    "Entry": "an entry of a stream for users, of a log for each protocol",
    "Keeper": "the state machine, and the client's face",
    "Snapshot": "of tables for users, of a log for its replicas",
    "Stream": "of the keeper's applied writes, and a change stream for users",
    "Watch": "a request of a core, and the iterator of a client",
    # The vocabulary of machines and of the keeper's users: read with the name of its module.
    "Block": "of a checkpoint, and of a table",
    "Connection": "of a front end, and of a client",
    "Decision": "of a view change, a session, a sector and a transaction",
    "InFlight": "what a primary, and what the leader of a shard, has under way",
    "Outcome": "of an operation of the keeper, and of a transaction",
    "Read": "of a file, and of the keeper's tree",
    "Refusal": "by the keeper, and by a shard",
    "Refused": "by the keeper, and by a shard",
    "Request": "of a client of consensus, and of an appender",
    "Session": "with consensus, with the keeper, and with a cluster",
    "Sessions": "with consensus, and with the keeper",
    "Verdict": "of a view change, and of a request",
    "Watches": "of a front end, and of a client",
    "Write": "to a file, and to the keeper's tree",
    "Writing": "to a journal, and to the tree",
    "Written": "to a file, and to the keeper's tree",
}
"""Each with why; a name is taken out when it is given away, and none is added without a reason."""


def classes() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for package in ("core", "client"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def test_a_name_means_one_class_unless_it_is_listed() -> None:
    twice = {name: places for name, places in classes().items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in SHARED} == {}
    assert [name for name in SHARED if name not in twice] == [], "listed, and no longer needed"
