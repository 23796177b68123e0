"""The README's first screen runs as it stands, on a real Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.docs.test_examples import ROOT, run_page

CHECKPOINT = '"data/spark"'


@pytest.mark.usefixtures("spark")
def test_the_examples_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text("utf-8")
    # The session of the suite was started elsewhere, and what is relative to Spark is relative to there.
    assert text.count(CHECKPOINT) == 1
    run_page("README.md", text.replace(CHECKPOINT, f'"{tmp_path}/spark"'))
    assert SparkSession.getActiveSession() is not None
