"""Dropping and renaming tables.

X1  Dropping a table removes its name and sets its definition to dropped, in one multi (T19). Inserts and
    publications check the definition, so nothing is committed after it; replicas end by themselves.
X2  Renaming moves the name in one multi, which sets the definition to what it is: its version tells everybody
    who read the table under a name that it may not be that one any more (T27). The version of a name's node
    alone cannot tell it, since a node that is made anew begins with version 0.
X3  Both know by the definition what has become of a multi without an answer: nothing else sets it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.mergetree.definition_checks import check_table_name
from motet.core.mergetree.messages import DropTable, NodeRequest, RenameTable, TableChanged
from motet.core.mergetree.paths import definition_path, name_path, named_table
from motet.core.mergetree.procedure import Procedure, ProcedureService, Stage, failure
from motet.core.metadata.definitions import (
    TableDefinition,
    decode_table_definition,
    encode_table_definition,
)
from motet.core.metadata.messages import (
    Conflict,
    Create,
    Delete,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadResult,
    Refusal,
    Set,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord, NodeError, NoSuchTable, TableExists
from motet.ids import Address, TableId, Zxid
from motet.limits import table_shards_max

NEW_NAME = 2
"""Where the new name is in the multi of a rename."""


class ChangeStep(StrEnum):
    """What is with the keeper."""

    NAMES = "names"
    DEFINITION = "definition"
    MULTI = "multi"


class TableChange(Procedure[DropTable | RenameTable]):
    """A table that is being dropped or renamed."""

    step: ChangeStep = ChangeStep.NAMES
    table: TableId = TableId("")
    #: of the nodes of its name and of its definition, as they were read
    name_version: int = -1
    definition_version: int = -1


class ChangingService(ProcedureService[TableChange]):
    """Answers ``DropTable`` and ``RenameTable``."""

    name = "changing"
    takes = (DropTable, RenameTable)

    def begin(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, DropTable | RenameTable)
        check_table_name(message.name)
        if isinstance(message, RenameTable):
            check_table_name(message.new_name)
        self._ask_names(TableChange(client, message))

    def look(self, procedure: TableChange) -> None:
        procedure.step = ChangeStep.DEFINITION
        reads = [definition_path(procedure.table)]
        if isinstance(procedure.message, RenameTable):
            reads.append(name_path(procedure.message.new_name))
        self.ask(procedure, *map(Get, reads))

    def go_on(self, procedure: TableChange, answer: MetadataAnswer) -> None:
        if procedure.step is ChangeStep.MULTI:
            self._on_multi(procedure, answer)
        elif not isinstance(answer, ReadDone):
            raise failure(answer)
        elif procedure.step is ChangeStep.NAMES:
            self._on_names(procedure, answer)
        elif procedure.stage is Stage.LOOKING:
            self._on_looked(procedure, answer)
        else:
            self._on_definition(procedure, answer.results[0])

    # Reading

    def _ask_names(self, change: TableChange) -> None:
        change.step = ChangeStep.NAMES
        message = change.message
        names = [message.name]
        if isinstance(message, RenameTable):
            names.append(message.new_name)
        self.ask(change, *(Get(name_path(name)) for name in names))

    def _on_names(self, change: TableChange, answer: ReadDone) -> None:
        found, *new = answer.results
        if not isinstance(found, Found):
            raise NoSuchTable(f"there is no table {change.message.name!r}")
        if any(isinstance(each, Found) for each in new):
            raise _taken(change)
        change.table = named_table(change.message.name, found.data)
        change.name_version = found.stat.version
        change.step = ChangeStep.DEFINITION
        self.ask(change, Get(definition_path(change.table)))

    def _on_definition(self, change: TableChange, found: ReadResult) -> None:
        message = change.message
        old = name_path(message.name)
        if not isinstance(found, Found):
            raise NodeError(f"the keeper has no definition of the table {message.name!r}")
        change.definition_version = found.stat.version
        data = found.data if isinstance(message, RenameTable) else _dropped(change.table, found)
        operations: list[WriteOperation] = [
            Delete(old, change.name_version),
            Set(found.path, data, found.stat.version),
        ]
        if isinstance(message, RenameTable):
            operations.append(Create(name_path(message.new_name), change.table.encode()))
        change.step = ChangeStep.MULTI
        self.commit(change, *operations)

    # The multi (X1, X2)

    def _on_multi(self, change: TableChange, answer: MetadataAnswer) -> None:
        if isinstance(answer, Written):
            self._done(change, answer.zxid)
        elif not isinstance(answer, Conflict):
            raise failure(answer)
        elif answer.index == NEW_NAME and answer.why is Refusal.NODE_EXISTS:
            raise _taken(change)
        else:
            self.count_attempt(change)
            self._ask_names(change)

    def _on_looked(self, change: TableChange, answer: ReadDone) -> None:
        """X3."""
        found, *new = answer.results
        if isinstance(change.message, DropTable):
            is_done = _is_dropped(found)
        elif isinstance(found, Found) and found.stat.version <= change.definition_version + 1:
            # One change at most: this one, if the new name is there.
            is_new = isinstance(new[0], Found) and new[0].data == change.table.encode()
            is_done = is_new and found.stat.version > change.definition_version
        else:
            raise NodeError("the table was changed again since")
        if is_done:
            self._done(change, found.stat.mzxid if isinstance(found, Found) else answer.zxid)
        else:
            change.stage = Stage.PREPARING
            self.count_attempt(change)
            self._ask_names(change)

    def _done(self, change: TableChange, zxid: Zxid) -> None:
        message = change.message
        what = "renamed" if isinstance(message, RenameTable) else "is_dropped"
        self.node.note(what, f"{message.name} {change.table}")
        self.reply(change, TableChanged(message.request, self.node.version(zxid)))


def _dropped(table: TableId, found: Found) -> bytes:
    """Junk can be dropped, too: of a dropped table nobody needs to know more."""
    try:
        definition = decode_table_definition(found.data)
    except BadRecord:
        definition = TableDefinition(table, b"", (), (), shards=table_shards_max)
    return encode_table_definition(msgspec.structs.replace(definition, is_dropped=True))


def _is_dropped(found: ReadResult) -> bool:
    if not isinstance(found, Found):
        return True  # its last replica has removed it
    try:
        return decode_table_definition(found.data).is_dropped
    except BadRecord:
        return False


def _taken(change: TableChange) -> TableExists:
    assert isinstance(change.message, RenameTable)
    name = change.message.new_name
    return TableExists(f"the table {name!r} exists already", hint="drop it first, or rename it")
