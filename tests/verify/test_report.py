"""An exploration as a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from motet.verify.explore import Budget, Exploration, explore
from motet.verify.models import model_named
from motet.verify.report import html_report


class Tags(HTMLParser):
    """Checks that what is opened is closed, and gathers the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def read(result: Exploration, **options: Any) -> str:
    tags = Tags()
    tags.feed(html_report(result, headline="What <it> is.", **options))
    assert tags.open == []
    return tags.text


def test_a_counterexample_is_there_step_by_step() -> None:
    model = model_named("zero-copy", {}, variant="send-then-delete")
    text = read(explore(model), variant="send-then-delete")
    assert "violated: PartHasItsData, in 10 states" in text
    assert "What <it> is." in text
    assert (
        text.index("Upload(r0)") < text.index("FetchReceive(r1)") < text.index("DeleteObjects(r0)")
    )
    assert text.count("the whole state") == 10


def test_a_counterexample_that_begins_later_says_after_what() -> None:
    model = model_named("shard-log-changes", {}, variant="leaving-counts")
    text = read(explore(model), script=model.script)
    assert f"It begins after {len(model.script)} steps" in text
    assert text.index("PrepareChange(n0, e2)") < text.index("BecomeLeader(n3, <1>)")


def test_a_behaviour_that_goes_on_for_ever_says_where_it_comes_back() -> None:
    model = model_named("zero-copy-exclusive", {}, variant="lasting-lock")
    assert read(explore(model)).count("back to here, for ever") == 1


def test_a_page_without_a_trace_says_what_was_seen() -> None:
    text = read(explore(model_named("zero-copy-exclusive", {"replicas": 2})))
    assert "ok: every state was seen" in text
    assert "OneCopy" in text
    assert "the whole state" not in text
    budget = Budget(states=10)
    unknown = explore(model_named("log-trimming", {}), budget=budget)
    assert "unknown: the budget of 10 states is used up" in read(unknown)
