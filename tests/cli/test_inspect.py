"""`motet inspect` on journals, whole and hurt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from motet import Clock
from motet.core.clock.reservation import encode_bound
from motet.format.journal import encode_record
from motet.format.manifest import Manifest, content_hash, encode_manifest
from motet.ids import PartId, ShardId, TableId, TableName


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


def test_the_files_of_a_part_are_described(tmp_path: Path) -> None:
    rows = b"PAR1" + bytes(20) + b"PAR1"
    hash_ = content_hash(rows)
    table_id, part_id = TableId("0" * 16), PartId("1" * 16)
    manifest = Manifest(
        TableName("sales"), table_id, part_id, ShardId(0), "merge", ("sku",), 3,
        f"0-{hash_}", len(rows), hash_, "[1]", "[2]", 1_800_000_000_000,
    )  # fmt: skip
    (tmp_path / "manifest").write_bytes(encode_manifest(manifest))
    printed = inspect(str(tmp_path / "manifest")).stdout
    assert printed.startswith("manifest of part 1111111111111111 of table 'sales'\n")
    assert f"0-{hash_}" in printed
    file = tmp_path / f"0-{hash_}"
    file.write_bytes(rows)
    assert "as its name says" in inspect(str(file)).stdout
    file.write_bytes(rows[:-1] + b"?")
    assert "DAMAGED" in inspect(str(file)).stdout
