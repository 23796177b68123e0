"""The tables of docs/designs are kept true, and the links of the documentation resolve.

A page has one line `Status: planned | partly built | built` and one table with a row per section of its
source text (docs/designs/sections.toml). The rules, by the words the checker prints:

- every section has exactly one row, in order, and no row names an unknown section;
- `where` and `shown by` are both a dash or both filled in;
- what they name exists: a file, a test function found by parsing its file, or a golden script;
- a planned page names nothing yet, a partly built one something, a built one has no dash left.

The second half of this file breaks each rule once, on made-up pages, so that the checker is known to fail.
"""

import ast
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DESIGNS = ROOT / "docs" / "designs"
COLUMNS = ("section", "what it says", "where", "shown by", "what we do differently, and why")
STATUSES = ("planned", "partly built", "built")


class Row(NamedTuple):
    section: str
    says: str
    where: tuple[str, ...]  # empty when the cell is a dash
    shown_by: tuple[str, ...]
    differently: str


class Page(NamedTuple):
    statuses: list[str]
    tables: int
    rows: list[Row]
    malformed: list[str]


def cells_of(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", inner)]


def names_in(cell: str) -> tuple[str, ...]:
    if cell == "-":
        return ()
    return tuple(name.strip().strip("`") for name in cell.split("<br>"))


def parse_page(text: str) -> Page:
    statuses = re.findall(r"^Status: (.*)$", text, flags=re.MULTILINE)
    tables, rows, malformed = 0, list[Row](), list[str]()
    for line in text.splitlines():
        if not line.startswith("|") or set(line) <= set("|-: "):
            continue
        cells = cells_of(line)
        if tuple(cells) == COLUMNS:
            tables += 1
        elif len(cells) != len(COLUMNS) or not all(cells):
            malformed.append(line)
        else:
            section, says, where, shown_by, differently = cells
            rows.append(Row(section, says, names_in(where), names_in(shown_by), differently))
    return Page(statuses, tables, rows, malformed)


def has_test(file: Path, names: list[str]) -> bool:
    """Whether `names`, classes and then a test function, are found inside each other in the file."""
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for name in names[:-1]:
        inside = [
            node.body for node in body if isinstance(node, ast.ClassDef) and node.name == name
        ]
        body = inside[0] if inside else []
    functions = [n.name for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return names[-1].startswith("test") and names[-1] in functions


def is_file_of(root: Path, name: str) -> bool:
    file = (root / name).resolve()
    return file.is_file() and file.is_relative_to(root.resolve())


def problem_with_where(name: str, root: Path) -> str | None:
    return None if is_file_of(root, name) else f"no such file: {name}"


def problem_with_test(name: str, root: Path) -> str | None:
    file, *names = name.split("::")
    if not file.startswith("tests/") or not is_file_of(root, file):
        return f"no such test file: {name}"
    if file.startswith("tests/scenarios/") and file.endswith(".txt") and not names:
        return None
    if not names or not file.endswith(".py"):
        return f"names no test: {name}"
    return None if has_test(root / file, names) else f"no such test: {name}"


def problems_of_rows(rows: list[Row], sections: list[str]) -> list[str]:
    titles = [row.section for row in rows]
    problems = [f"section without a row: {title}" for title in sections if title not in titles]
    problems += [f"unknown section: {title}" for title in titles if title not in sections]
    problems += [
        f"duplicated row: {title}" for i, title in enumerate(titles) if title in titles[:i]
    ]
    if not problems and titles != sections:
        problems.append("rows are not in the order of the text")
    return problems


def problems_of_cells(row: Row, root: Path) -> list[str]:
    found = [problem_with_where(name, root) for name in row.where]
    found += [problem_with_test(name, root) for name in row.shown_by]
    if bool(row.where) != bool(row.shown_by):
        found.append("only one of 'where' and 'shown by' is filled in")
    return [f"{row.section}: {problem}" for problem in found if problem]


def problems_of_status(page: Page) -> list[str]:
    if len(page.statuses) != 1 or page.statuses[0] not in STATUSES:
        return [f"one line 'Status: {' | '.join(STATUSES)}' is needed, found {page.statuses}"]
    filled = [row for row in page.rows if row.where or row.shown_by]
    match page.statuses[0]:
        case "planned":
            return [f"{row.section}: filled in on a planned page" for row in filled]
        case "partly built":
            return [] if filled else ["partly built, yet no row says where"]
        case _:
            dashes = [row for row in page.rows if not (row.where and row.shown_by)]
            return [f"{row.section}: a dash on a built page" for row in dashes]


def problems_of_page(text: str, sections: list[str], root: Path) -> list[str]:
    page = parse_page(text)
    problems = [f"malformed row: {line}" for line in page.malformed]
    if page.tables != 1:
        problems.append(f"one table is needed, found {page.tables}")
    problems += problems_of_rows(page.rows, sections) + problems_of_status(page)
    return problems + [problem for row in page.rows for problem in problems_of_cells(row, root)]


def sections_by_page() -> dict[str, list[str]]:
    with (DESIGNS / "sections.toml").open("rb") as file:
        return {name: page["sections"] for name, page in tomllib.load(file).items()}


@pytest.mark.parametrize("name", sections_by_page())
def test_a_design_page_is_true(name: str) -> None:
    text = (DESIGNS / f"{name}.md").read_text(encoding="utf-8")
    assert problems_of_page(text, sections_by_page()[name], ROOT) == []


def test_every_page_has_its_sections_recorded_once() -> None:
    pages = {path.stem for path in DESIGNS.glob("*.md")} - {"README"}
    assert pages == set(sections_by_page())
    for name, sections in sections_by_page().items():
        assert len(sections) == len(set(sections)), name


def test_the_index_names_every_page_with_its_status() -> None:
    index = (DESIGNS / "README.md").read_text(encoding="utf-8")
    for name in sections_by_page():
        (status,) = parse_page((DESIGNS / f"{name}.md").read_text(encoding="utf-8")).statuses
        (line,) = [line for line in index.splitlines() if f"]({name}.md)" in line]
        assert cells_of(line)[-1] == status, name


# The checker, shown to fail.

HEAD = "# Page\n\nStatus: {status}\n\n| " + " | ".join(COLUMNS) + " |\n|---|---|---|---|---|\n"
SECTIONS = ["One", "Two"]
BUILT = "`src/clock.py` | `tests/test_clock.py::test_ticks`"


def page_of(*rows: tuple[str, str], status: str = "partly built") -> str:
    lines = [f"| {section} | it says so | {cells} | nothing |\n" for section, cells in rows]
    return HEAD.format(status=status) + "".join(lines)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for folder in ("src", "tests/scenarios/clock"):
        (root / folder).mkdir(parents=True)
    for empty in ("src/clock.py", "tests/scenarios/clock/tick.txt", "../outside.py"):
        (root / empty).touch()
    (root / "tests/test_clock.py").write_text(
        "def test_ticks(): ...\n"
        "def ticks(): ...\n"
        "class TestClock:\n    async def test_adjusts(self): ...\n"
    )
    return root


@pytest.mark.parametrize(
    "shown_by",
    [
        "`tests/test_clock.py::test_ticks`",
        "`tests/test_clock.py::TestClock::test_adjusts`",
        "`tests/scenarios/clock/tick.txt`",
        "`tests/test_clock.py::test_ticks`<br>`tests/scenarios/clock/tick.txt`",
    ],
)
def test_a_true_page_passes(root: Path, shown_by: str) -> None:
    cells = f"`src/clock.py` | {shown_by}"
    assert problems_of_page(page_of(("One", cells), ("Two", "- | -")), SECTIONS, root) == []
    whole = page_of(("One", cells), ("Two", BUILT), status="built")
    assert problems_of_page(whole, SECTIONS, root) == []
    planned = page_of(("One", "- | -"), ("Two", "- | -"), status="planned")
    assert problems_of_page(planned, SECTIONS, root) == []


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (page_of(("One", BUILT)), "section without a row: Two"),
        (page_of(("One", BUILT), ("Two", "- | -"), ("Three", "- | -")), "unknown section: Three"),
        (page_of(("One", BUILT), ("Two", "- | -"), ("Two", "- | -")), "duplicated row: Two"),
        (page_of(("Two", "- | -"), ("One", BUILT)), "rows are not in the order of the text"),
        (page_of(("One", BUILT), ("Two", "- | -"), status="built"), "Two: a dash on a built page"),
        (
            page_of(("One", BUILT), ("Two", "- | -"), status="planned"),
            "One: filled in on a planned page",
        ),
        (page_of(("One", "- | -"), ("Two", "- | -")), "partly built, yet no row says where"),
    ],
)
def test_a_page_that_breaks_a_rule_is_named(root: Path, page: str, problem: str) -> None:
    assert problems_of_page(page, SECTIONS, root) == [problem]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (
            "`src/gone.py` | `tests/test_clock.py::test_ticks`",
            "no such file: src/gone.py",
        ),
        (
            "`src/clock.py`<br>`src/gone.py` | `tests/test_clock.py::test_ticks`",
            "no such file: src/gone.py",
        ),
        (
            "`../outside.py` | `tests/test_clock.py::test_ticks`",
            "no such file: ../outside.py",
        ),
        (
            "`src/clock.py` | `tests/test_gone.py::test_ticks`",
            "no such test file: tests/test_gone.py::test_ticks",
        ),
        (
            "`src/clock.py` | `tests/test_clock.py::test_gone`",
            "no such test: tests/test_clock.py::test_gone",
        ),
        (
            "`src/clock.py` | `tests/test_clock.py::TestClock::test_ticks`",
            "no such test: tests/test_clock.py::TestClock::test_ticks",
        ),
        (
            "`src/clock.py` | `tests/test_clock.py::ticks`",
            "no such test: tests/test_clock.py::ticks",
        ),
        ("`src/clock.py` | `tests/test_clock.py`", "names no test: tests/test_clock.py"),
        (
            "`src/clock.py` | `tests/scenarios/clock/gone.txt`",
            "no such test file: tests/scenarios/clock/gone.txt",
        ),
        ("`src/clock.py` | -", "only one of 'where' and 'shown by' is filled in"),
    ],
)
def test_a_row_that_names_what_is_not_there_is_named(root: Path, cells: str, problem: str) -> None:
    page = page_of(("One", BUILT), ("Two", cells))
    assert problems_of_page(page, SECTIONS, root) == [f"Two: {problem}"]


def test_a_page_of_the_wrong_shape_is_named(root: Path) -> None:
    good = page_of(("One", BUILT), ("Two", "- | -"))
    for broken, problem in (
        (good.replace("| it says so ", "", 1), "malformed row"),
        (good.replace("| it says so ", "| ", 1), "malformed row"),
        (good.replace("Status: partly built", ""), "one line 'Status"),
        (good.replace("partly built", "nearly done"), "one line 'Status"),
        (good + HEAD.format(status="built").split("\n\n")[-1], "one table is needed, found 2"),
    ):
        problems = problems_of_page(broken, SECTIONS, root)
        assert any(found.startswith(problem) for found in problems), (problem, problems)


# Links.

FENCE = re.compile(r"^(```|~~~).*?^\1", flags=re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def anchors_of(text: str) -> set[str]:
    """The anchors a hosting site makes from headings; a repeated heading gets a number."""
    seen: dict[str, int] = {}
    anchors = set()
    for title in re.findall(r"^#{1,6} +(.*?) *$", FENCE.sub("", text), flags=re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return anchors


def problem_with_link(link: str, file: Path, root: Path) -> str | None:
    path, _, anchor = link.partition("#")
    target = (file.parent / path).resolve() if path else file
    if not target.exists() or not target.is_relative_to(root.resolve()):
        return f"nothing at {link}"
    if not anchor or anchor in anchors_of(target.read_text(encoding="utf-8")):
        return None
    return f"no heading for {link}"


def broken_links(file: Path, root: Path) -> list[str]:
    prose = CODE.sub("", FENCE.sub("", file.read_text(encoding="utf-8")))
    links = [link for link in LINK.findall(prose) if not re.match(r"[a-z]+:", link)]
    problems = [problem_with_link(link, file, root) for link in links]
    return [f"{file.relative_to(root)}: {problem}" for problem in problems if problem]


def test_links_between_documents_resolve() -> None:
    documents = sorted((ROOT / "docs").rglob("*.md")) + sorted(ROOT.glob("*.md"))
    assert [problem for file in documents for problem in broken_links(file, ROOT)] == []


def test_a_broken_link_is_named(tmp_path: Path) -> None:
    there = tmp_path / "there.md"
    there.write_text("# Two words, here\n\n## Again\n\n## Again\n")
    file = tmp_path / "page.md"
    file.write_text(
        "# Own\n[a](there.md) [b](there.md#two-words-here) [c](there.md#again-1) [d](#own)\n"
        "[e](https://example.org/x) `see [f](code.md)`\n```\n[g](fence.md)\n```\n"
    )
    assert broken_links(file, tmp_path) == []
    file.write_text("[a](gone.md) [b](there.md#gone) [c](../page.md) [d](#own)\n")
    assert broken_links(file, tmp_path) == [
        "page.md: nothing at gone.md",
        "page.md: no heading for there.md#gone",
        "page.md: nothing at ../page.md",
        "page.md: no heading for #own",
    ]
