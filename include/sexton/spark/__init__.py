"""Data sources for Spark: `consumer_offsets`, the records of the log, and `consumer_groups`, the groups at an instant.

    import sexton.spark  # registers both with the session that is active

    spark.read.format("consumer_offsets").load("/var/lib/kafka/data").where("group_id = 'billing'")
    spark.read.format("consumer_groups").option("as_of", "2026-11-21T00:00:00Z").load("s3://keep/offsets")

The path is an archive or a broker's disk, read by the executors' Python, which needs this package. Over Spark Connect
the server's executors read it.
"""

from pyspark.sql import SparkSession

from sexton.spark.groups import ConsumerGroups
from sexton.spark.records import ConsumerOffsets

__all__ = ["ConsumerGroups", "ConsumerOffsets", "register"]


def register(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    for source in (ConsumerOffsets, ConsumerGroups):
        spark.dataSource.register(source)


if (active := SparkSession.getActiveSession()) is not None:
    register(active)
