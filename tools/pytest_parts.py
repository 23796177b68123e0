"""What `./dev test` adds to pytest: tiers of tests, parts that stay together, and an account at the end.

Tests marked with a tier (`long`, `foreign`) are left out unless --all is given, an expression is
given with -m, or a test is named by its id. The account says how long each part took, a part being
a folder of tests/, and what was left out. With pytest-xdist the workers leave tests out and tell
the main process how many.

The tests of a file go to one worker, since they may share something costly: a cluster of processes, say. A
part whose files share such a thing, Spark's session, goes to one worker as a whole; without the long tier so
does the one with the largest clusters, of which one at a time is enough for a machine. What takes the longest
goes first, so that all workers end at about the same time, and clusters, which wait more than they work,
run beside Spark, which works. xdist's own ways to say so are `--dist loadfile`, which knows files alone, and
`--dist loadgroup`, which does nothing with pytest 9.2
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

import os
from collections import Counter

import pytest

#: A test with several of these marks counts for the first.
TIERS = ("foreign", "long")
#: Parts that one worker runs as a whole, always or in the quick tier.
TOGETHER = ("spark",)
TOGETHER_IF_QUICK = ("spark", "system")
#: Parts whose tests share nothing, so that each goes to whoever is free: their files are long.
ALONE = ("sim",)
#: Parts that begin before all others, in this order: what is long must not be left for the end.
FIRST = (
    "spark",
    "system",
    "demos",
    "examples",
    "docs",
    "behaviour",
    "sim",
    "verify",
    "client",
    "embedded",
)
LEFT_OUT = "motet_left_out"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --all."""
    group = parser.getgroup("motet")
    group.addoption(
        "--all", action="store_true", help=f"run the tests marked {' or '.join(TIERS)} too"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Starts the account of this run."""
    config.pluginmanager.register(Account(config), "motet_account")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One process more than there are cores: for about a quarter of their time tests wait for others."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:  # xdist's own way to say how many
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (cores or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Hands out file by file, but some parts as a whole or test by test; not if --dist says otherwise."""
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    together = TOGETHER if asks_for_tiers(config) else TOGETHER_IF_QUICK

    class FilesOrParts(LoadScopeScheduling):  # type: ignore[misc]
        """What has the same scope goes to the same worker, in the order in which it was collected."""

        def _split_scope(self, nodeid: str) -> str:
            part = part_of(nodeid)
            if part in together:
                return part
            return nodeid if part in ALONE else nodeid.partition("::")[0]

    config.option.loadscopereorder = False  # otherwise the scope with the most tests goes first
    return FilesOrParts(config, log)


def part_of(node_id: str) -> str:
    """The folder of tests/ that a test is in, or `tests` if it is in none."""
    folders = node_id.partition("::")[0].split("/")[:-1]
    return folders[1] if len(folders) > 1 else "tests"


def turn_of(item: pytest.Item) -> int:
    """When the part of a test begins; all parts that are not named begin last, as they were collected."""
    part = part_of(item.nodeid)
    return FIRST.index(part) if part in FIRST else len(FIRST)


def tier_of(item: pytest.Item) -> str | None:
    """The tier a test is marked with."""
    return next((tier for tier in TIERS if item.get_closest_marker(tier)), None)


def asks_for_tiers(config: pytest.Config) -> bool:
    """Whether whoever started the run has already said which tests to run."""
    by_id = any("::" in argument for argument in config.args)
    return bool(config.option.all or config.option.markexpr or by_id)


class Account:
    """Tests, seconds and omissions of one run; in an xdist worker, of that worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.left_out: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Takes out the tests that are in a tier; last, so that -k has had its say. Orders the others."""
        if hasattr(self.config, "workerinput"):
            items.sort(key=turn_of)
        if asks_for_tiers(self.config):
            return
        left_out = [item for item in items if tier_of(item)]
        self.left_out = Counter(tier for item in left_out if (tier := tier_of(item)))
        items[:] = [item for item in items if not tier_of(item)]
        if left_out:
            self.config.hook.pytest_deselected(items=left_out)

    def pytest_sessionfinish(self) -> None:
        """In an xdist worker: reports to the main process."""
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[LEFT_OUT] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """In the main process: takes the report. Every worker collects the same tests, so one says it all."""
        report = getattr(node, "workeroutput", {}).get(LEFT_OUT, {})
        self.left_out |= Counter(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up time; a test has three reports, of which the setup's always comes."""
        part = part_of(report.nodeid)
        self.tests[part] += report.when == "setup"
        self.seconds[part] = self.seconds.get(part, 0.0) + report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the account."""
        if self.seconds:
            terminalreporter.section("parts (seconds added up over all processes)")
        for part, seconds in sorted(self.seconds.items()):
            terminalreporter.write_line(f"{part:<20}{self.tests[part]:>6} tests {seconds:>8.1f} s")
        for tier in TIERS:
            if count := self.left_out[tier]:
                terminalreporter.write_line(
                    f"not run: {count} marked {tier}{self.meaning(tier)}; to run them: ./dev test -m {tier}"
                )
        if self.left_out:
            terminalreporter.write_line("run everything: ./dev test --all")

    def meaning(self, tier: str) -> str:
        """What the project's settings say of a mark, in brackets."""
        for line in self.config.getini("markers"):
            mark, _, text = line.partition(":")
            if mark == tier:
                return f" ({text.partition(';')[0].strip()})"
        return ""
