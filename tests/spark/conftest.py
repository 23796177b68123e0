"""The one Spark session of a run: every test in this folder shares it, and `./dev test` runs all of them in
one process (tools/pytest_parts.py sees to that).

Spark and Arrow are imported when the first of these tests begins, not when they are collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A session that starts soon matters more here than one that is quick after minutes, and hundreds of plans,
#: each of which runs once over a few rows, more than each of them. With Spark's own settings run the
#: processes of tests/examples, tests/demos and test_pipeline_command.py.
QUICK_START = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two threads, in UTC, with pushdown, as ``local_session`` makes it."""
    from motet.pipeline.session import local_session

    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "JAVA_HOME",
            "PYSPARK_PYTHON",
            "PYSPARK_DRIVER_PYTHON",
            "SPARK_HOME",
            "SPARK_LOCAL_IP",
        ):
            patch.delenv(name, raising=False)  # and put back as it was
        session = local_session("motet tests", master="local[2]", config=QUICK_START)
        yield session
        session.stop()
