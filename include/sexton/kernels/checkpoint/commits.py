"""Reads how often each group has committed from the files of a checkpoint, without restoring the fold."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.archive.folder import Folder
from sexton.kernels import layout as L

_RECORDS = ("data_records", "control_records")
_NONE = pa.table({"group_id": pa.array([], pa.string()), "commits": pa.array([], pa.int64())})


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """The number of records of a log partition up to the end of a fold, and that of offset values by group_id."""

    by_group: pa.Table
    records: int
    end: int


def read_commits(folders: Sequence[Folder]) -> Commits:
    """The counts of the fold whose buckets are in `folders`; zeros without folders."""
    if not folders:
        return Commits(by_group=_NONE, records=0, end=0)
    some = [_of_bucket(folder) for folder in folders]
    by_group = pa.concat_tables([each.by_group for each in some])
    return Commits(by_group=by_group, records=sum(each.records for each in some), end=some[0].end)


def _of_bucket(folder: Folder) -> Commits:
    names = folder.files()
    if "counters.parquet" not in names:
        return Commits(by_group=_NONE, records=0, end=0)
    rows = pq.ParquetFile(folder.open("counters.parquet")).read()
    number = dict(zip(rows["name"].to_pylist(), rows["number"].to_pylist(), strict=True))
    by_group = _NONE
    if "groups.parquet" in names:
        found = pq.ParquetFile(folder.open("groups.parquet")).read(columns=["group_id", "commits"])
        found = found.filter(pc.greater(found["commits"], 0))
        by_group = pa.table({"group_id": pc.cast(found["group_id"], pa.string()), "commits": found["commits"]})
    cut = number.get("cut")
    return Commits(
        by_group=by_group,
        records=sum(number[name] for name in _RECORDS),
        end=max(number[f"batch_counter_{L.READ_NEXT}"], 0) if cut is None else cut,
    )
