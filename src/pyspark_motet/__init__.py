"""How Spark finds the data source ``motet`` by itself.

On the first use of a Python data source Spark imports every top-level package whose name begins with
``pyspark_`` and registers its ``DefaultSource``. If one of them raises, Spark goes without all of them. So
this package imports next to nothing and never fails; what is missing is told to whoever uses the source.
"""

from typing import cast

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # without Spark nobody looks for a source
    DataSource = object  # type: ignore[assignment, misc]

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The name of the source; whoever makes one gets a ``motet.pipeline.source.MotetSource``."""

    def __new__(cls, options: dict[str, str]) -> "DefaultSource":
        try:
            from motet.pipeline.source import MotetSource
        except ImportError as error:
            from motet.errors import MissingLibrary

            raise MissingLibrary(
                f"the data source motet is not all there: {error}",
                hint="run `pip install 'motet[spark]'` with the Python of Spark's workers",
            ) from error
        return cast("DefaultSource", MotetSource(options))

    @classmethod
    def name(cls) -> str:
        """What goes into ``spark.read.format(...)``."""
        return "motet"
