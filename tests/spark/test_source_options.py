"""The options of the data source: what is wrong is refused by its name, before anything else happens."""

from __future__ import annotations

import pickle

import pytest

from motet.core.clock.hlc import Clock
from motet.errors import BadInput
from motet.pipeline.options import ENDPOINT_VARIABLE, OPTIONS, Use, parse_options

ENDPOINT = "127.0.0.1:7400"


def test_options_become_a_struct() -> None:
    asked = parse_options(
        {
            "Endpoint": ENDPOINT,
            "STREAMS": "orders, stock",
            "columns": "clock,row",
            "after": "(5,1)",
            "up_to": "(6, 0)",
        }
    )
    assert asked.endpoint == ENDPOINT
    assert asked.streams == ("orders", "stock")
    assert asked.columns == ("clock", "row")
    assert (asked.after, asked.up_to) == (Clock(5, 1), Clock(6, 0))
    assert asked.stream_names("read a feed") == ("orders", "stock")


def test_they_travel_to_other_processes() -> None:
    asked = parse_options({"endpoint": ENDPOINT, "table": "sales", "at": "5@a1b2"})
    assert pickle.loads(pickle.dumps(asked)) == asked


@pytest.mark.parametrize("name", ["maxChangesPerBatch", "maxRowsPerBatch"])
def test_both_names_bound_a_batch(name: str) -> None:
    asked = parse_options({"endpoint": ENDPOINT, "streams": "s", name: "17"})
    assert asked.changes_per_batch == 17


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("endpoint", "somewhere"),
        ("endpoint", "a:1,b"),
        ("endpoint", " "),
        ("columns", "a,,b"),
        ("columns", "a,b,a"),
        ("where", " "),
        ("consistency", "strong"),
        ("at", "yesterday"),
        ("at", "5@x"),
        ("at", "2026-11-16T12:00"),
        ("partitionOverwriteMode", "some"),
        ("after", "(1,2"),
        ("up_to", "(1,99999999)"),
        ("startingClock", ""),
        ("maxChangesPerBatch", "0"),
        ("maxChangesPerBatch", "-1"),
        ("maxChangesPerBatch", "1e3"),
        ("maxChangesPerBatch", "９"),
        ("maxRowsPerBatch", "9" * 30),
        ("cursor", ""),
        ("cursor", "x" * 193),
        ("cursor", "pipeline/shop"),
        ("token", ""),
        ("token", "x" * 1000),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_name(option: str, text: str) -> None:
    with pytest.raises(BadInput, match=f"option {option}"):
        parse_options({"endpoint": ENDPOINT, "table": "sales", option: text})


@pytest.mark.parametrize("text", ["", "a,b", " , "])
def test_a_table_is_one_name(text: str) -> None:
    with pytest.raises(BadInput, match="option table"):
        parse_options({"endpoint": ENDPOINT, "table": text})


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [
        ("tabel", "did you mean table"),
        ("stream", "did you mean streams"),
        ("maxchangeperbatch", "did you mean maxChangesPerBatch"),
        ("path", "not a path"),
        ("qwxyz", "the options are endpoint, table"),
    ],
)
def test_an_option_that_does_not_exist_is_refused(option: str, suggestion: str) -> None:
    with pytest.raises(BadInput, match=suggestion) as caught:
        parse_options({"endpoint": ENDPOINT, "table": "t", option: "x"})
    assert repr(option) in str(caught.value)


def test_one_of_table_and_streams_is_given() -> None:
    with pytest.raises(BadInput, match="neither option table nor option streams"):
        parse_options({"endpoint": ENDPOINT})
    with pytest.raises(BadInput, match="both option table and option streams"):
        parse_options({"endpoint": ENDPOINT, "table": "t", "streams": "s"})
    with pytest.raises(BadInput, match="both option maxChangesPerBatch"):
        parse_options(
            {
                "endpoint": ENDPOINT,
                "streams": "s",
                "maxRowsPerBatch": "1",
                "maxChangesPerBatch": "1",
            }
        )


def test_the_endpoint_comes_from_the_option_then_the_registration_then_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENDPOINT_VARIABLE, "env:1")
    assert parse_options({"table": "t"}).endpoint == "env:1"
    assert parse_options({"table": "t"}, "registered:1").endpoint == "registered:1"
    assert parse_options({"table": "t", "endpoint": "o:1"}, "registered:1").endpoint == "o:1"
    monkeypatch.delenv(ENDPOINT_VARIABLE)
    with pytest.raises(BadInput, match="option endpoint is missing"):
        parse_options({"table": "t"})


EXAMPLES = {
    "endpoint": ENDPOINT,
    "columns": "a",
    "where": "a = 1",
    "consistency": "eventual",
    "at": "5@a1b2",
    "after": "(1,1)",
    "up_to": "(1,1)",
    "startingClock": "(1,1)",
    "maxChangesPerBatch": "5",
    "maxRowsPerBatch": "5",
    "cursor": "billing",
    "token": "x",
    "partitionOverwriteMode": "dynamic",
}


@pytest.mark.parametrize("option", EXAMPLES)
@pytest.mark.parametrize("use", ["read a table", "read a feed", "follow a feed", "write a table"])
def test_an_option_that_would_be_ignored_is_refused(option: str, use: Use) -> None:
    subject = {"streams": "s"} if "feed" in use else {"table": "t"}
    asked = parse_options({"endpoint": ENDPOINT, **subject, option: EXAMPLES[option]})
    if use in OPTIONS[option][1]:
        asked.check_use(use)
        return
    with pytest.raises(BadInput, match=f"option {option} does not apply"):
        asked.check_use(use)


def test_every_option_has_an_example() -> None:
    assert {*EXAMPLES, "table", "streams"} == set(OPTIONS)


def test_a_feed_is_no_table_and_a_table_no_feed() -> None:
    table = parse_options({"endpoint": ENDPOINT, "table": "t"})
    feed = parse_options({"endpoint": ENDPOINT, "streams": "s"})
    with pytest.raises(BadInput, match="option streams is missing, to follow a feed"):
        table.stream_names("follow a feed")
    with pytest.raises(BadInput, match="option table is missing, to write a table"):
        feed.table_name("write a table")
