"""Listing the tables there are, page by page.

A page is no state of one moment: a table that is created, dropped or renamed while the pages are read may be
missed, or listed twice. What cannot be read is left out and noted; describing it says what is wrong with it.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum

import msgspec

from motet.core.mergetree.messages import ListTables, NamedTable, NodeRequest, TablesListed
from motet.core.mergetree.paths import (
    TABLES,
    ShardPaths,
    definition_path,
    name_path,
    named_table,
    settings_path,
)
from motet.core.mergetree.procedure import Procedure, ProcedureService, failure
from motet.core.metadata.definitions import read_table_definition
from motet.core.metadata.messages import (
    Children,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    ReadResult,
)
from motet.core.metadata.table_settings import TableSettings, decode_table_settings
from motet.errors import BadInput, BadRecord
from motet.ids import Address, TableId, TableName
from motet.limits import listed_bytes_max, name_length_max

page_max = 100
"""Tables on one page."""


class ListStep(StrEnum):
    """What is with the keeper."""

    ALL = "all"
    NAMES = "names"
    TABLES = "tables"


class TableList(Procedure[ListTables]):
    """A page that is being read."""

    after: str = ""
    step: ListStep = ListStep.ALL
    names: tuple[TableName, ...] = ()
    #: others follow this page
    more: bool = False
    #: of the names
    tables: dict[TableName, TableId] = msgspec.field(default_factory=dict)


class ListingService(ProcedureService[TableList]):
    """Answers ``ListTables``."""

    name = "listing"
    takes = (ListTables,)

    def begin(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, ListTables)
        if len(message.after) > name_length_max:
            raise BadInput("`after` is the name of a table")
        self._ask_all(TableList(client, message, after=message.after))

    def go_on(self, procedure: TableList, answer: MetadataAnswer) -> None:
        if not isinstance(answer, ReadDone):
            raise failure(answer)
        if procedure.step is ListStep.ALL:
            self._on_all(procedure, answer.results[0])
        elif procedure.step is ListStep.NAMES:
            self._on_names(procedure, answer)
        else:
            self._on_tables(procedure, answer)

    def _ask_all(self, page: TableList) -> None:
        page.step, page.tables = ListStep.ALL, {}
        self.ask(page, Children(TABLES))

    def _on_all(self, page: TableList, found: ReadResult) -> None:
        names = found.names if isinstance(found, Names) else ()
        first = bisect_right(names, page.after)
        page.names = tuple(map(TableName, names[first : first + page_max]))
        page.more = first + page_max < len(names)
        page.step = ListStep.NAMES
        if page.names:
            self.ask(page, *(Get(name_path(name)) for name in page.names))
        else:
            self._reply(page, [])

    def _on_names(self, page: TableList, answer: ReadDone) -> None:
        for name, found in zip(page.names, answer.results, strict=True):
            if isinstance(found, Found):
                try:
                    page.tables[name] = named_table(name, found.data)
                except BadRecord as error:
                    self.node.note("bad_name", error.what)
        page.step = ListStep.TABLES
        reads: list[ReadOperation] = []
        for table in page.tables.values():
            reads += [Get(definition_path(table)), Get(settings_path(table))]
            reads.append(Children(ShardPaths(table, 0).replicas))
        if reads:
            self.ask(page, *reads)
        else:
            self._reply(page, [])

    def _on_tables(self, page: TableList, answer: ReadDone) -> None:
        listed: list[NamedTable] = []
        size, results = 0, iter(answer.results)
        for name, found, set_, below in zip(page.tables, results, results, results, strict=True):
            if not isinstance(found, Found):
                continue  # it was dropped since
            size += len(found.data)
            if listed and size > listed_bytes_max:
                page.more = True
                break
            try:
                definition = read_table_definition(name, found.data)
            except BadRecord as error:
                self.node.note("bad_definition", error.what)
                continue
            settings = self._settings(name, set_)
            replicas = len(below.names) if isinstance(below, Names) else 0
            listed.append(NamedTable(name, definition, replicas, found.stat.ctime_ms, settings))
        self._reply(page, listed)

    def _settings(self, name: TableName, found: ReadResult) -> TableSettings:
        try:
            return decode_table_settings(found.data if isinstance(found, Found) else b"")
        except BadRecord as error:
            self.node.note("bad_settings", f"{name}: {error.what}")
            return TableSettings()

    def _reply(self, page: TableList, listed: list[NamedTable]) -> None:
        """Whoever reads on does so after the last table: a page without one is no answer."""
        if page.more and not listed:
            page.after = page.names[-1]
            self._ask_all(page)
        else:
            self.reply(page, TablesListed(page.message.request, tuple(listed), page.more))
