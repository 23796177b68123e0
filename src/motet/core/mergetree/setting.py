"""Changing the settings of a table.

SE1  Settings are a node of their own: whoever changes them disturbs no insert, which checks the definition
     (T19). The multi checks the definition, so nothing is set for a table that was dropped, or renamed since.
SE2  Each change is of the settings that it names; others are left as they are, by the version of the node.
SE3  A commit without an answer was done if the settings say so: to set them once more is no harm.
"""

from __future__ import annotations

from enum import StrEnum

from motet.core.mergetree.dedup import without_dedup
from motet.core.mergetree.definition_checks import check_table_name
from motet.core.mergetree.messages import ChangeSettings, NodeRequest, TableChanged
from motet.core.mergetree.paths import definition_path, name_path, named_table, settings_path
from motet.core.mergetree.procedure import Procedure, ProcedureService, Stage, failure
from motet.core.metadata.definitions import read_table_definition
from motet.core.metadata.messages import (
    Check,
    Conflict,
    Create,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadResult,
    Set,
    WriteOperation,
    Written,
)
from motet.core.metadata.table_settings import changed_settings, check_settings
from motet.errors import NoSuchTable
from motet.ids import Address, TableId, Zxid


class SettingStep(StrEnum):
    """What is with the keeper."""

    NAME = "name"
    TABLE = "table"
    MULTI = "multi"


class SettingChange(Procedure[ChangeSettings]):
    """Settings that are being changed."""

    step: SettingStep = SettingStep.NAME
    table: TableId = TableId("")


class SettingService(ProcedureService[SettingChange]):
    """Answers ``ChangeSettings``."""

    name = "setting"
    takes = (ChangeSettings,)

    def begin(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, ChangeSettings)
        check_table_name(message.name)
        check_settings(message.changes)
        self._ask_name(SettingChange(client, message))

    def look(self, procedure: SettingChange) -> None:
        procedure.step = SettingStep.TABLE
        self._ask_table(procedure)

    def go_on(self, procedure: SettingChange, answer: MetadataAnswer) -> None:
        if procedure.step is SettingStep.MULTI:
            self._on_multi(procedure, answer)
        elif not isinstance(answer, ReadDone):
            raise failure(answer)
        elif procedure.step is SettingStep.NAME:
            self._on_name(procedure, answer.results[0])
        else:
            self._on_table(procedure, answer)

    def _ask_name(self, change: SettingChange) -> None:
        change.step = SettingStep.NAME
        self.ask(change, Get(name_path(change.message.name)))

    def _on_name(self, change: SettingChange, found: ReadResult) -> None:
        if not isinstance(found, Found):
            raise NoSuchTable(f"there is no table {change.message.name!r}")
        change.table = named_table(change.message.name, found.data)
        change.step = SettingStep.TABLE
        self._ask_table(change)

    def _ask_table(self, change: SettingChange) -> None:
        self.ask(change, Get(definition_path(change.table)), Get(settings_path(change.table)))

    def _on_table(self, change: SettingChange, answer: ReadDone) -> None:
        definition, found = answer.results
        name, changes = change.message.name, change.message.changes
        if not isinstance(definition, Found):
            raise NoSuchTable(f"there is no table {name!r}")
        known = read_table_definition(name, definition.data)
        if known.is_dropped:
            raise NoSuchTable(f"there is no table {name!r}")
        if "dedup_window" in changes and known.dedup is None:
            raise without_dedup()
        before = found.data if isinstance(found, Found) else b""
        data = changed_settings(before, changes)
        if isinstance(found, Found) and found.data == data:  # SE3
            self._done(change, answer.zxid)
            return
        change.stage, change.step = Stage.PREPARING, SettingStep.MULTI
        self.count_attempt(change)
        written: WriteOperation = Create(settings_path(change.table), data)
        if isinstance(found, Found):
            written = Set(found.path, data, found.stat.version)
        self.commit(change, Check(definition.path, definition.stat.version), written)

    def _on_multi(self, change: SettingChange, answer: MetadataAnswer) -> None:
        if isinstance(answer, Written):
            self._done(change, answer.zxid)
        elif isinstance(answer, Conflict):
            self._ask_name(change)
        else:
            raise failure(answer)

    def _done(self, change: SettingChange, zxid: Zxid) -> None:
        message = change.message
        self.node.note("set", f"{message.name} {change.table} {' '.join(message.changes)}")
        self.reply(change, TableChanged(message.request, self.node.version(zxid)))
