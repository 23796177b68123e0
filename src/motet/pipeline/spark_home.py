"""A home for Spark whose Python workers read pyspark from where it is installed.

The package brings a second copy of itself, an archive that Spark puts first on the path of its Python
processes. What comes out of an archive is compiled anew in every process: seconds at every start. A home
that has Spark's programs and libraries but not the archive lets them find the installed package, which is the
same.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from motet.pipeline.user_cache import cache_folders, make_private

NEEDED = ("bin", "jars")


def spark_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The home, made if it is not there; None to leave things as they are."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None or environment.get("SPARK_HOME"):
        return None  # a Spark of somebody's own has what it needs
    installed = Path(package.origin).parent
    name = f"spark-{hashlib.sha256(os.fsencode(installed)).hexdigest()[:8]}"
    for folder in cache_folders(environment):
        try:
            make_private(folder)
            return _linked(folder / name, installed)
        except OSError:
            continue
    return None


def _linked(home: Path, installed: Path) -> Path:
    home.mkdir(exist_ok=True)
    for name in NEEDED:
        link, target = home / name, installed / name
        if not link.is_symlink():
            with contextlib.suppress(FileExistsError):  # another process has been quicker
                link.symlink_to(target)
        if not link.samefile(target):
            raise FileExistsError(f"{link} is something else")
    return home
