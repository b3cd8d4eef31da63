"""Runs of many instants that are written and published together: a branch, and one commit a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.archive.folder import Folder
from sexton.errors import DataQualityFailure
from sexton.lake.branch import RunKey, ensure_tables, read_branch, write_branch
from sexton.lake.catalog import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(RunKey):
    """As one run of many instants: `as_of_ms` is the last of them, `run_id` the attempt that wrote it."""

    all_instants: tuple[int, ...]

    @classmethod
    def of(cls, runs: Sequence[RunKey]) -> "Batch":
        """The batch of some runs of a cluster, in the order of their instants."""
        last, instants = runs[-1], tuple(run.as_of_ms for run in runs)
        return cls(cluster_id=last.cluster_id, as_of_ms=last.as_of_ms, run_id=last.run_id, all_instants=instants)

    @property
    def instants(self) -> Sequence[int]:
        return self.all_instants


def write_batch(
    spark: "SparkSession",
    lake: Lake,
    batch: Batch,
    folder: Folder,
    files: Mapping[str, Sequence[str]],
    counts: Mapping[int, Mapping[str, int]],
) -> None:
    """As `write_branch`; DataQualityFailure if what was committed is not `counts`, by instant the rows of each table.

    The rows themselves were checked where they lie in files, run by run.
    """
    ensure_tables(spark, lake)
    filled = write_branch(spark, lake, batch, folder, files)
    for name in filled:
        found = read_branch(spark, lake, batch, name).groupBy("as_of_ms").count().toArrow().to_pylist()
        committed = Counter({row["as_of_ms"]: row["count"] for row in found})
        wrong = [at for at in batch.instants if committed[at] != counts[at].get(name, 0)]
        if wrong:
            expected = counts[wrong[0]].get(name, 0)
            raise DataQualityFailure(
                f"{name} has {committed[wrong[0]]} rows at {wrong[0]} and {len(wrong) - 1} more instants are wrong: "
                f"{expected} were checked",
                where=batch.branch,
            )
