"""Writes and publishes runs of many instants together: one branch, and one commit per table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from sexton.archive.folder import Folder
from sexton.errors import DataQualityFailure
from sexton.lake.branch import RunKey, ensure_tables, read_branch, write_branch
from sexton.lake.catalog import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantBatch(RunKey):
    """Many instants as one run: `as_of_ms` is the last instant, `run_id` the attempt that wrote it."""

    all_instants: tuple[int, ...]

    @classmethod
    def of(cls, runs: Sequence[RunKey]) -> "InstantBatch":
        """The batch of `runs`, which must be of one cluster and in order of their instants."""
        last, instants = runs[-1], tuple(run.as_of_ms for run in runs)
        return cls(cluster_id=last.cluster_id, as_of_ms=last.as_of_ms, run_id=last.run_id, all_instants=instants)

    @property
    def instants(self) -> Sequence[int]:
        return self.all_instants


def write_batch(
    spark: "SparkSession",
    lake: Lake,
    batch: InstantBatch,
    folder: Folder,
    files: Mapping[str, Sequence[str]],
    facts: Mapping[RunKey, Mapping[str, Any]],
) -> None:
    """Like `write_branch`, for many runs; DataQualityFailure if the committed row counts differ from those in `facts`
    (rows of the table `runs`).

    The rows themselves were checked in the run folders, run by run.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    ensure_tables(spark, lake)
    filled = write_branch(spark, lake, batch, folder, files)
    rows = [read_branch(spark, lake, batch, name).select(f.lit(name).alias("name"), "as_of_ms") for name in filled]
    found = reduce(DataFrame.unionAll, rows).groupBy("as_of_ms", "name").count().toArrow().to_pylist()
    committed = {(each["as_of_ms"], each["name"], each["count"]) for each in found}
    counts = ((run.as_of_ms, each["table"], each["rows"]) for run, own in facts.items() for each in own["counts"])
    if wrong := committed ^ {each for each in counts if each[-1]}:
        at_ms, name, _ = min(wrong)
        raise DataQualityFailure(
            f"what was committed is not what was checked: {name} at {at_ms}, and up to {len(wrong) - 1} more",
            where=batch.branch,
        )
