"""`motet inspect` on journals, whole and hurt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from motet import Clock
from motet.core.clock.reservation import encode_bound
from motet.format.journal import encode_record


def inspect(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "motet", "inspect", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_journal_is_described_record_by_record(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    file.write_bytes(b"".join(encode_record(7, n, 1, b"body") for n in range(3)))
    done = inspect(str(file))
    assert done.returncode == 0
    assert len([line for line in done.stdout.splitlines() if "body of 4 bytes" in line]) == 3
    lines = json.loads(inspect(str(file), "--output", "json").stdout)["lines"]
    assert "\n".join(lines) + "\n" == done.stdout


def test_damage_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    data = bytearray(b"".join(encode_record(7, n, 1, b"body") for n in range(3)))
    data[60] ^= 1
    file.write_bytes(bytes(data))
    whole = b"".join(encode_record(7, n, 1, b"body") for n in range(3))
    (tmp_path / "whole").write_bytes(whole)
    assert inspect(str(file)).stdout != inspect(str(tmp_path / "whole")).stdout
    assert "damaged" in inspect(str(file)).stdout


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    done = inspect(str(tmp_path / "nothing"))
    assert done.returncode == 1
    assert done.stderr.startswith("BAD_INPUT ")


def test_a_clock_bound_is_read_and_its_damage_named(tmp_path: Path) -> None:
    file = tmp_path / "clock-bound"
    file.write_bytes(encode_bound(Clock(1800000000000, 5)))
    assert inspect(str(file)).stdout == "durable bound of a clock: (1800000000000,5)\n"
    file.write_bytes(file.read_bytes()[:-1])
    assert inspect(str(file)).stdout.startswith("damaged durable bound of a clock: ")


def test_the_file_of_a_part_is_described(tmp_path: Path) -> None:
    rows = b"PAR1" + bytes(20) + b"PAR1"
    file = tmp_path / "part.parquet"
    file.write_bytes(rows)
    assert "footer of" in inspect(str(file)).stdout
    file.write_bytes(rows[:-1] + b"?")
    assert "cut off" in inspect(str(file)).stdout
