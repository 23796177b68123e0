"""Makes every golden script ``tests/scenarios/<part>/*.txt`` a test, and gives pytest ``--rewrite``.

It also sees to it that the hundreds of processes that tests start are there soon: what they compile is kept.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from motet.errors import BadScenario, StepRaised
from motet.testing.scenario import run_scenario

# A slow machine is no failure: nothing here is judged by how long it takes.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")

# Without a place for what is compiled, each Python that a test starts would compile all of ours anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Every Java of these tests lives for seconds: what compiles thoroughly would never be paid back.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

SCENARIOS = Path(__file__).parent / "scenarios"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what happens into the golden scripts"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".txt" or SCENARIOS not in file_path.parents:
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


class ScenarioFile(pytest.File):
    """A golden script."""

    def collect(self) -> Iterator[pytest.Item]:
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class ScenarioDiffers(Exception):
    """What happened is not what the script says."""


class ScenarioItem(pytest.Item):
    """The one test in a golden script."""

    def runtest(self) -> None:
        rewrite = bool(self.config.getoption("--rewrite"))
        result = run_scenario(self.path, rewrite=rewrite)
        if not result.passed and not rewrite:
            raise ScenarioDiffers(result.diff())

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        error = excinfo.value
        if isinstance(error, ScenarioDiffers):
            return f"{error}\n\nif this is right: pytest --rewrite {self.path}"
        if isinstance(error, StepRaised):
            return f"{''.join(traceback.format_exception(error.__cause__))}\n{error}"
        return (
            str(error) if isinstance(error, BadScenario) else super().repr_failure(excinfo, style)
        )

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.parent.name}/{self.name}"
