"""The public face of motet.testing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from motet import testing


def test_everything_that_is_promised_is_there() -> None:
    assert sorted(testing.__all__) == dir(testing)
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name


def test_nothing_else_is() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Spoon'"):
        testing.Spoon  # noqa: B018


def test_importing_it_imports_none_of_the_tools() -> None:
    program = "import sys, motet.testing; print([m for m in sys.modules if 'motet.testing.' in m])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
