"""The tables of rules, and the short way past them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.vsr.test_sessions import ANN, CONFIG, Asked, Table, register

from motet.core.vsr.header import NO_CHECKSUM, NOOP, OPERATION_MIN, REGISTER
from motet.core.vsr.sessions import FORM_RULES, SESSION_RULES, Decision


@given(
    st.sampled_from([0, 1, 2]),
    st.integers(0, 4),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([REGISTER, NOOP, OPERATION_MIN]),
    st.sampled_from([b"", b"body", bytes(101)]),
)
def test_the_short_way_accepts_what_no_row_of_the_tables_fits(
    session: int, request: int, names_last_reply: bool, release: int, operation: int, body: bytes
) -> None:
    table = Table()
    table.commit(register(ANN))
    table.commit(table.next_request(ANN))
    parent = table.of(ANN).reply_checksum if names_last_reply else NO_CHECKSUM
    asked = Asked(ANN, session, request, parent, release, operation, body)
    rows = [decision for decision, fits in FORM_RULES if fits(asked, CONFIG)]
    rows += [decision for decision, fits in SESSION_RULES if fits(asked, table.of(ANN))]
    assert table.decide(asked) is next(iter(rows), Decision.ACCEPT)
    assert table.decide(asked, is_preparing=True) is next(iter(rows), Decision.WAIT)
