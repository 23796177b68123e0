"""The text format of golden scripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadScenario
from motet.testing.script import Script, parse_command, parse_script, render_output

EXAMPLE = """\
# what happens here

part clock
start wall=1000
# a comment between commands
tick n=2
----
(1000,1)
(1000,2)

# and then
stop now "for good"
----
ok
"""


def text_of(script: Script) -> str:
    blocks = "".join(block.lead_text + block.output_text for block in script.blocks)
    return blocks + script.tail_text


def test_a_script_is_blocks_of_commands_and_output() -> None:
    script = parse_script(EXAMPLE, "example.txt")
    first, second = script.blocks
    assert script.part == "clock"
    assert [command.verb for command in first.commands] == ["start", "tick"]
    assert first.commands[0].options == {"wall": "1000"}
    assert first.expected == ("(1000,1)", "(1000,2)")
    assert [command.words for command in second.commands] == [("now", "for good")]
    assert second.expected == ("ok",)


def test_a_command_knows_where_it_stands() -> None:
    script = parse_script(EXAMPLE, "folder/example.txt")
    assert [c.where for b in script.blocks for c in b.commands] == [
        "folder/example.txt:4",
        "folder/example.txt:6",
        "folder/example.txt:12",
    ]


def test_without_a_part_line_a_script_names_no_part() -> None:
    assert parse_script("tick\n----\nok\n", "x").part is None


def test_a_block_without_separator_has_no_expectation_yet() -> None:
    script = parse_script("tick\n\ntock\n----\nok\n", "x")
    assert [block.expected for block in script.blocks] == [None, ("ok",)]


def test_empty_output_is_not_missing_output() -> None:
    assert parse_script("tick\n----\n", "x").blocks[0].expected == ()


def test_a_hash_in_output_is_output() -> None:
    assert parse_script("tick\n----\n# 5\n", "x").blocks[0].expected == ("# 5",)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_output_with_blank_lines_stands_between_doubled_separators(ending: str) -> None:
    lines = ["tick", "----", "----", "one", "", "two", "----", "----", "", "tock", "----", "ok"]
    text = ending.join(lines) + ending
    script = parse_script(text, "x")
    assert [block.expected for block in script.blocks] == [("one", "", "two"), ("ok",)]
    assert text_of(script) == text


def test_words_are_quoted_as_in_a_shell_and_options_are_named() -> None:
    command = parse_command("  adjust '(5, 1)' n1 hold-sync=on note='a b=c' (7,2)", "x:1")
    assert command.verb == "adjust"
    assert command.words == ("(5, 1)", "n1", "(7,2)")
    assert command.options == {"hold-sync": "on", "note": "a b=c"}
    assert command.text == "adjust '(5, 1)' n1 hold-sync=on note='a b=c' (7,2)"


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "bad.txt", "no commands"),
        ("# only words\n", "bad.txt", "no commands"),
        ("tick\n----\nok\n\n----\nok\n", "bad.txt:5", "without a command"),
        ("part\ntick\n----\nok\n", "bad.txt:1", "part NAME"),
        ("part a b\ntick\n----\nok\n", "bad.txt:1", "part NAME"),
        ("tick 'open\n----\nok\n", "bad.txt:1", "quot"),
        ("tick n=1 n=2\n----\nok\n", "bad.txt:1", "twice"),
        ("# x\ntick\n----\n----\none\n\ntwo\n", "bad.txt:3", "never closed"),
        ("tick\n----\n----\none\n----\n----\ntock\n", "bad.txt:7", "blank line"),
    ],
)
def test_what_does_not_parse_says_where(text: str, where: str, why: str) -> None:
    with pytest.raises(BadScenario) as caught:
        parse_script(text, "bad.txt")
    assert caught.value.what.startswith(f"{where}: ")
    assert why in str(caught.value)


def test_a_separator_cannot_be_output() -> None:
    with pytest.raises(BadScenario):
        render_output(["one", "----"])


output_lines = st.lists(
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), max_size=8)
    .map(str.rstrip)
    .filter(lambda line: line != "----")
)


@given(output_lines.filter(bool), st.text(alphabet="#- \n", max_size=5))
def test_any_output_comes_back_from_the_text(lines: list[str], tail: str) -> None:
    text = "tick\n" + render_output(lines) + "\n# " + tail.replace("\n", "\n#")
    script = parse_script(text, "x")
    assert script.blocks[0].expected == tuple(lines)
    assert text_of(script) == text


@given(st.text(alphabet="a#- \n=\r'", max_size=40))
def test_a_script_that_parses_is_kept_to_the_byte(text: str) -> None:
    try:
        script = parse_script(text, "x")
    except BadScenario:
        return
    assert text_of(script) == text
