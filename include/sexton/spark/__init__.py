"""Data sources for Spark: `consumer_offsets`, the records of the log, and `consumer_groups`, the groups at an instant.

    spark.read.format("consumer_offsets").load("/var/lib/kafka/data").where("group_id = 'billing'")
    spark.read.format("consumer_groups").option("as_of", "2026-11-21T00:00:00Z").load("s3://keep/offsets")

The path is an archive or a broker's disk, read by the executors' Python, which needs this package. Over Spark Connect
the server's executors read it. Spark finds a format as the class `DefaultSource` of the package `pyspark_<format>`.
"""

from importlib import import_module

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType


class FoundByName(DataSource):
    """A data source that is imported only when used, because Spark imports all `pyspark_*` packages to find formats."""

    module = class_name = ""

    def schema(self) -> StructType | str:
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._source().reader(schema)

    def _source(self) -> DataSource:
        source: DataSource = getattr(import_module(self.module), self.class_name)(self.options)
        return source
