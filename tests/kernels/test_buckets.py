"""A log partition folded and finished in buckets of its groups is the log partition as a whole."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.archive.folder import Folder
from sexton.kernels import layout as L
from sexton.kernels.buckets import (
    GroupRange,
    bounds_for,
    bucket_of,
    groups_of,
    pieces_of,
    ranges_of,
    rest_of,
    with_groups,
    without_undecodable,
)
from sexton.kernels.fold import PartialFold, merge_all
from sexton.kernels.results import finish, finish_bucket, join
from tests.campaign.histories import histories
from tests.kernels.compare import fold_slices
from tests.log_builder import BatchSpec, commit, encode_log

SOME = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
BOUNDS = st.lists(st.sampled_from(["a", "b", "g", "g1", "h", "é", "z"]), unique=True, max_size=4).map(sorted)
BY_PRODUCER = {"pending_offsets"}
"""In the order of producers first, which several buckets have."""


def in_buckets(folds: Sequence[PartialFold], bounds: list[str]) -> list[PartialFold]:
    """The buckets of the whole, merged from those of its slices."""
    found = []
    for ids in ranges_of(bounds):
        whole = merge_all([bucket_of(fold.copy(), ids) for fold in folds])
        found.append(whole if ids.is_first else without_undecodable(whole))
    return found


def finished(buckets: Sequence[PartialFold]) -> dict[str, list[dict[str, Any]]]:
    some = [
        finish_bucket(fold, log_partition=0, partition_count=50, is_first=number == 0)
        for number, fold in enumerate(buckets)
    ]
    tables = {name: pa.concat_tables([each.tables[name] for each in some]) for name in some[0].tables}
    return in_order({**tables, **join(some, log_partition=0)})


def in_order(tables: dict[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: sorted(table.to_pylist(), key=repr) if name in BY_PRODUCER else table.to_pylist()
        for name, table in tables.items()
    }


@SOME
@given(histories(), st.lists(st.integers(0, 4_000), max_size=3), BOUNDS)
def test_buckets_together_are_the_whole(history: list[BatchSpec], borders: list[int], bounds: list[str]) -> None:
    log = encode_log(history)
    folds = fold_slices(log, [at for at in borders if at <= len(log)])
    whole = merge_all([fold.copy() for fold in folds])
    buckets = in_buckets(folds, bounds)
    assert finished(buckets) == in_order(finish(whole, log_partition=0, partition_count=50))
    assert {(one.cut, one.next_log_offset, one.first_log_offset) for one in buckets} == {
        (whole.cut, whole.next_log_offset, whole.first_log_offset)
    }


@SOME
@given(histories(), st.lists(st.integers(0, 4_000), max_size=3), BOUNDS, st.integers(1, 5))
def test_pieces_of_several_folds_are_joined_one_after_the_other(history, borders, bounds, most_keys):
    """Each to what is there already, after what its fold has of the whole log partition."""
    log = encode_log(history)
    folds = fold_slices(log, [at for at in borders if at <= len(log)])
    whole = merge_all([fold.copy() for fold in folds])
    buckets = []
    for ids in ranges_of(bounds):
        bucket: PartialFold | None = None
        for fold in folds:
            rest = rest_of(fold, is_first=ids.is_first)
            bucket = rest if bucket is None else merge_all([bucket, rest])
            pieces = pieces_of(fold, most_keys=most_keys)
            assert [piece.lower for piece in pieces] == sorted({piece.lower for piece in pieces}, key=str.encode)
            assert sum(piece.keys for piece in pieces) == fold.state.counts[L.KEYS] + fold.state.counts[L.RECORDS]
            restored = (PartialFold.from_bytes(piece.fold.to_bytes(), is_indexed=False) for piece in pieces)
            bucket = with_groups(bucket, (groups_of(piece, ids) for piece in restored))
        assert bucket is not None
        buckets.append(bucket)
    assert finished(buckets) == in_order(finish(whole, log_partition=0, partition_count=50))


@pytest.mark.parametrize("bounds", [[], ["b"], ["b", "d"]])
def test_a_checkpoint_in_buckets_is_read_in_any_others(bounds: list[str], tmp_path: Any) -> None:
    names = ["a", "b", "c", "d", "e"]
    log = encode_log([BatchSpec(entries=tuple(commit(name, 7, partition=n) for n in range(3))) for name in names])
    folds = fold_slices(log, [len(log) // 2])
    written = []
    for number, fold in enumerate(in_buckets(folds, ["c"])):
        fold.write_parquet(Folder(tmp_path, str(number)))
        written.append(PartialFold.read_parquet(Folder(tmp_path, str(number))))
    first = PartialFold.read_parquet(Folder(tmp_path, "0"), without_groups=True)
    assert first.group_ids(limit=None) == []
    buckets = [
        with_groups(rest_of(first, is_first=ids.is_first), [groups_of(each, ids) for each in written])
        for ids in ranges_of(bounds)
    ]
    assert finished(buckets) == in_order(finish(merge_all(folds), log_partition=0, partition_count=50))


def test_ranges() -> None:
    first, middle, last = ranges_of(["b", "d"])
    assert (first.is_first, middle.is_first) == (True, False)
    assert first.overlaps(GroupRange(lower="a", upper="c"))
    assert not first.overlaps(last)
    assert middle.holds(GroupRange(lower="b", upper="c"))
    assert not middle.holds(GroupRange(lower="c"))
    assert GroupRange().holds(last)


def test_bounds_divide_evenly() -> None:
    weights: list[tuple[str | None, int]] = [(name, 10) for name in "abcdefgh"]
    assert bounds_for(weights, most_keys=20) == ["c", "e", "g"]
    assert bounds_for(weights, most_keys=80) == []
    assert bounds_for([("a", 1_000)], most_keys=10) == []
    assert bounds_for([(None, 1_000)], most_keys=10) == []
    assert bounds_for([("a", 30), ("b", 1), ("c", 1)], most_keys=10) == ["b", "c"]
