"""One statement of SQL, looked at before it runs: whether it only reads, and which tables it names.

DuckDB's own parser does it, so nothing is guessed from the text: ``WITH`` names and tables are told apart,
and a statement that writes is refused even below ``EXPLAIN ANALYZE``, which would run it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb

from motet.errors import BadInput

SYSTEM = "system"
"""The schema of the system's own tables. DuckDB has a catalog of that name, so they need help: see below."""

_READ_ONLY = "SQL reads tables: use SELECT, WITH, SHOW, DESCRIBE or EXPLAIN"


def tables_of(query: str) -> set[str]:
    """The tables it reads, as it writes them; the system's own as ``system.<name>``."""
    return set(_tables_in(_parsed(query), frozenset()))


def functions_of(query: str) -> set[str]:
    """The functions it calls, in small letters."""
    return set(_functions_in(_parsed(query)))


def _parsed(query: str) -> Any:
    """The syntax tree."""
    with duckdb.connect(":memory:") as connection:
        inner = checked_statement(query, connection)
        try:
            found = connection.execute("select json_serialize_sql(?::varchar)", [inner]).fetchone()
        except duckdb.Error as error:
            raise refusal(error) from None
    assert found is not None
    return json.loads(found[0])


def refusal(error: Exception) -> BadInput:
    """What DuckDB has to say about a query."""
    return BadInput(str(error).strip(), hint="correct the query")


def checked_statement(query: str, connection: duckdb.DuckDBPyConnection) -> str:
    """The statement, or what it explains; ``BadInput`` unless it is one that only reads."""
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise refusal(error) from None
    if len(statements) != 1:
        raise BadInput(f"{len(statements)} statements, one is wanted", hint=_READ_ONLY)
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        return checked_statement(_explained(query, connection), connection)
    if kind != duckdb.StatementType.SELECT:
        raise BadInput(f"a statement of the kind {kind.name} is not for here", hint=_READ_ONLY)
    return query


def _explained(query: str, connection: duckdb.DuckDBPyConnection) -> str:
    """What follows ``EXPLAIN`` and its options: the first rest of the text that is a statement."""
    text = query.encode()
    for place, _ in duckdb.tokenize(query)[1:]:
        rest = text[place:].decode()
        try:
            if connection.extract_statements(rest):
                return rest
        except duckdb.Error:
            continue
    raise BadInput("there is nothing to explain", hint=_READ_ONLY)


def _tables_in(node: Any, named: frozenset[str]) -> Iterator[str]:
    """The tables below a node of the syntax tree; ``named`` are the names that ``WITH`` has given."""
    if isinstance(node, list):
        for each in node:
            yield from _tables_in(each, named)
    if not isinstance(node, dict):
        return
    if node.get("type") == "BASE_TABLE":
        yield from _table_in(node, named)
    if node.get("type") == "RECURSIVE_CTE_NODE":
        named |= {_folded(node["cte_name"])}
    for entry in (node.get("cte_map") or {}).get("map", ()):
        yield from _tables_in(entry["value"], named)
        named |= {_folded(entry["key"])}
    for name, each in node.items():
        if name != "cte_map":
            yield from _tables_in(each, named)


def _functions_in(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from _functions_in(each)
    elif isinstance(node, dict):
        if isinstance(name := node.get("function_name"), str):
            yield name.lower()
        for each in node.values():
            yield from _functions_in(each)


def _table_in(node: dict[str, Any], named: frozenset[str]) -> Iterable[str]:
    schema, table = node.get("schema_name", ""), node["table_name"]
    if schema.lower() == SYSTEM:
        return [f"{SYSTEM}.{table}"]
    if schema.lower() == "main" or (not schema and _folded(table) not in named):
        return [table]
    return []


def _folded(name: str) -> str:
    return name.lower()


def with_system_tables(query: str, names: Iterable[str]) -> str:
    """The query with ``system.tables`` and its like, of these names, each written as one quoted name.

    Otherwise DuckDB would look for them in a catalog of its own.
    """
    text = query.encode()
    starts = [place for place, kind in duckdb.tokenize(query) if kind != duckdb.token_type.comment]
    known = {name.lower() for name in names}
    made, done = b"", 0
    for first, dot, last, end in _fours([*starts, len(text), len(text), len(text)]):
        words = [_word(text[first:dot]), _word(text[dot:last]), _word(text[last:end])]
        if first >= done and words[1] == "." and "".join(words) in known:
            kept = text[last:end].rstrip()
            made += text[done:first] + b'"' + "".join(words).encode() + b'"'
            done = last + len(kept)
    return (made + text[done:]).decode()


def _fours(places: list[int]) -> Iterator[tuple[int, int, int, int]]:
    return zip(places, places[1:], places[2:], places[3:], strict=False)


def _word(token: bytes) -> str:
    return token.decode().strip().strip('"').lower()
