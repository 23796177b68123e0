"""An embedded database for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import motet


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        yield database
