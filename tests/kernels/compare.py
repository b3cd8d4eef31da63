"""Folds bytes with the kernels as a run of chunks would, and holds every row against the plain replay."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.loading import Loaded
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST, profile_of
from sexton.kernels.fold import PartialFold, fold_task
from sexton.kernels.results import finish
from sexton.log.segment import FoldTask, Segment, SegmentSlice, plan_fold_tasks
from sexton.verdicts.expiry import held_offsets, plan, sweep_block
from tests.fates import load
from tests.oracle import oracle_tables
from tests.verdicts.whole_judge import judge

CAP_BYTES = 1 << 20
PROFILES = [
    *(
        profile_of(f"group_coordinator:{release}")
        for release in ("4.0.0", "4.0.2", "4.1.0", "4.1.2", "4.2.0", "4.2.1", "4.3.1", "4.4")
    ),
    *(
        profile_of(f"group_metadata_manager:{release}")
        for release in ("0.10", "0.11.0.2", "2.0.1", "2.1.0", "2.3.0", "2.4", "2.8", "3.9")
    ),
    *(profile_of(f"offset_manager:{release}") for release in ("0.8.2", "0.9", "0.10.0")),
]
"""Of every kind of rules one."""
UNORDERED = {"undecodable_records"}


def slice_of(data: bytes, start: int = 0, end: int | None = None) -> SegmentSlice:
    return SegmentSlice(path="", size_bytes=len(data), start_byte=start, end_byte=len(data) if end is None else end)


def fold_bytes(
    data: bytes, *, as_of_ms: int | None = None, taken_at_ms: int | None = None, profile: Profile = NEWEST
) -> PartialFold:
    """The fold of a log of one segment, in one chunk."""
    task = FoldTask(log_partition=0, index=0, slices=(slice_of(data),), is_last=True)
    return fold_task(
        [data], task=task, cap_bytes=CAP_BYTES, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms, profile=profile
    )


def fold_slices(
    data: bytes,
    borders: Sequence[int],
    *,
    as_of_ms: int | None = None,
    taken_at_ms: int | None = None,
    profile: Profile = NEWEST,
) -> list[PartialFold]:
    """The folds of a segment cut at `borders`, which need not be those of batches."""
    places = [0, *sorted(borders), len(data)]
    return [
        fold_task(
            [data],
            task=FoldTask(log_partition=0, index=index, slices=(slice_of(data, start, end),), is_last=False),
            cap_bytes=CAP_BYTES,
            as_of_ms=as_of_ms,
            taken_at_ms=taken_at_ms,
            profile=profile,
        )
        for index, (start, end) in enumerate(pairwise(places))
    ]


def fold_segments(datas: Sequence[bytes], *, target_bytes: int) -> list[PartialFold]:
    """The folds of whole segments, cut into chunks as a run cuts them."""
    segments = [
        Segment(log_partition=0, path=str(number), size_bytes=len(data), base_offset=0)
        for number, data in enumerate(datas)
    ]
    return [
        fold_task(
            [datas[int(span.path)] for span in task.slices],
            task=task,
            cap_bytes=CAP_BYTES,
            as_of_ms=None,
            taken_at_ms=None,
        )
        for task in plan_fold_tasks(segments, target_bytes=target_bytes)
    ]


def tables_of(fold: PartialFold, *, partition_count: int | None = None) -> dict[str, list[dict[str, Any]]]:
    return {
        name: table.to_pylist()
        for name, table in finish(fold, log_partition=0, partition_count=partition_count).items()
    }


def planned(tables: Mapping[str, pa.Table], *, retention_ms: int, now_ms: int, profile: Profile) -> pa.Table:
    """What a sweep at that instant writes to a log partition of these tables: nothing where it fails."""
    rules: dict[str, Any] = {"retention_ms": retention_ms, "now_ms": now_ms, "profile": profile}
    offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
    state = offsets, tables["groups"], tables["pending_offsets"]
    expires = pc.equal(judge(*state, **rules)["broker_verdict"], "expire")
    rows = plan(offsets, expires, tables["groups"], tables["group_tombstones"], profile=profile)
    rows = rows.drop_columns(["target_row"])  # which the rules do not know
    block = sweep_block(*state, **rules)
    return rows if block is None or not block.is_on(now_ms) else rows.slice(0, 0)


def loaded(data: bytes, **options: Any) -> Loaded:
    return load([data], cap_bytes=CAP_BYTES, **options)


def assert_equal(fold: PartialFold, plain: Loaded, *, partition_count: int | None = None) -> None:
    """Every row of every table, the cut and the counters."""
    got = tables_of(fold, partition_count=partition_count)
    want = oracle_tables(plain, 0, partition_count)
    for name, rows in want.items():
        told = _shared(got[name], rows)
        if name in UNORDERED:
            told, rows = sorted(told, key=repr), sorted(rows, key=repr)
        assert told == rows, name
    assert fold.end == plain.cut
    assert fold.next_log_offset == plain.next_log_offset
    assert fold.unknown_types == dict(plain.unknown_types)
    assert fold.counters["future_batches"] == plain.counters["future_batches"]
    assert fold.max_timestamp_ms == plain.max_timestamp_ms
    profile = got["load_profile"][0]
    fates = ("live", "superseded", "tombstoned", "aborted", "pending", "cancelled", "unreachable", "undecodable")
    assert profile["read_values"] == sum(profile[fate] for fate in fates)


def _shared(got: list[dict[str, Any]], want: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`got` in the columns of `want`, in their order; a column that is missing shows as a missing key."""
    names = list(want[0]) if want else []
    return [{name: row[name] for name in names} if names else row for row in got]
