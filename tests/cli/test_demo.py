"""`motet demo` refuses what it could not finish before it begins; tests/system/test_demo.py runs it whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.cli import app as root


def test_a_report_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        root.main(["demo", "--json", str(tmp_path / "nowhere" / "report.json")])
    printed = capsys.readouterr()
    assert (exited.value.code, printed.out) == (1, "")
    assert printed.err.startswith("BAD_INPUT there is no folder ")
