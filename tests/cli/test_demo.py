"""`motet demo` refuses what it could not finish before it begins; tests/{system,demos} run it whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.cli import app as root
from motet.cli.demo import DEMOS


def test_a_report_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        root.main(["demo", "--json", str(tmp_path / "nowhere" / "report.json")])
    printed = capsys.readouterr()
    assert (exited.value.code, printed.out) == (1, "")
    assert printed.err.startswith("BAD_INPUT there is no folder ")


@pytest.mark.parametrize("name", ["clock", "storm", "consensus", "proof", "log"])
@pytest.mark.parametrize("option", ["--keep", "--no-spark"])
def test_an_option_of_the_shop_is_refused_for_the_others(
    name: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        root.main(["demo", name, option])
    assert exited.value.code == 1
    assert capsys.readouterr().err.startswith("BAD_INPUT --keep and --no-spark mean nothing for ")


def test_the_help_page_names_every_demo(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        root.main(["demo", "--help"])
    printed = capsys.readouterr().out
    assert exited.value.code == 0
    assert all(name in printed for name in DEMOS)


@pytest.mark.parametrize("is_ok", [True, False])
def test_the_report_is_written_and_a_broken_promise_ends_with_1(
    is_ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[bool, bool]] = []

    def show(_tell: object, *, keep: bool, spark: bool) -> dict[str, object]:
        asked.append((keep, spark))
        return {"lost": int(not is_ok), "ok": is_ok}

    monkeypatch.setattr("motet.demos.shop.show.show", show)
    file = tmp_path / "report.json"
    with pytest.raises(SystemExit) as exited:
        root.main(["demo", "--no-spark", "--json", str(file)])
    assert exited.value.code == int(not is_ok)
    assert json.loads(file.read_text()) == {"lost": int(not is_ok), "ok": is_ok}
    assert asked == [(False, False)]
    assert ("All as promised." in capsys.readouterr().out) is is_ok
