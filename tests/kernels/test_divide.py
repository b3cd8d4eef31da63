"""A log partition whose records are divided by group id before they are folded is the log partition as a whole."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.coordinator.profile import Profile
from sexton.kernels import divide
from sexton.kernels.divide import Divider, fold_bucket
from sexton.kernels.fold import PartialFold, merge_all, read_only
from sexton.kernels.results import finish
from tests.campaign.histories import histories
from tests.kernels.compare import CAP_BYTES, PROFILES, fold_bytes, slice_of
from tests.kernels.test_buckets import BOUNDS, finished, in_order
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log

JAVA = [profile for profile in PROFILES if profile.is_java]
SOME = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def divided(
    log: bytes, borders: Sequence[int], bounds: Sequence[str], folder: Path, *, profile: Profile, as_of_ms: int | None
) -> list[PartialFold]:
    """The fold of each bucket, of a log that several tasks divide, cut at `borders`."""
    parts = []
    for index, (start, end) in enumerate(pairwise([0, *sorted(borders), len(log)])):
        part = Divider(PartialFold.empty(profile=profile, is_prefix=index == 0), cap_bytes=CAP_BYTES, as_of_ms=as_of_ms)
        part.divide_into(bounds, folder)
        part.fold_slice(read_only(log), slice_of(log, start, end))
        parts.append((part.buckets, part.finish()))
        if parts[-1][1].cut is not None:
            break
    rest = merge_all([rest for _, rest in parts])
    return [
        fold_bucket([buckets[number] for buckets, _ in parts], rest, is_first=number == 0)
        for number in range(len(bounds) + 1)
    ]


@SOME
@given(
    history=histories(),
    borders=st.lists(st.integers(0, 4_000), max_size=3),
    bounds=BOUNDS,
    profile=st.sampled_from(JAVA),
    as_of_ms=st.sampled_from([None, BASE_MS + 1_000]),
    room=st.sampled_from([(1 << 17, 1 << 24), (8, 4_000), (8, 8)]),
)
def test_buckets_together_are_the_whole(history, borders, bounds, profile, as_of_ms, room, tmp_path, monkeypatch):
    """Also where a bucket takes no more than one record in memory, and where damage lies between records."""
    monkeypatch.setattr(divide, "_ROWS", room[0])
    monkeypatch.setattr(divide, "_BYTES", room[1])
    log = encode_log(history)
    whole = fold_bytes(log, profile=profile, as_of_ms=as_of_ms)
    borders = [at for at in borders if at <= len(log)]
    buckets = divided(log, borders, bounds, tmp_path, profile=profile, as_of_ms=as_of_ms)
    assert finished(buckets) == in_order(finish(whole, log_partition=0, partition_count=50))
    assert {(one.cut, one.end, one.first_log_offset) for one in buckets} == {
        (whole.cut, whole.end, whole.first_log_offset)
    }


@pytest.mark.parametrize("borders", [[], [200]], ids=["one task", "two"])
def test_a_marker_reaches_every_bucket_and_a_transaction_is_told_from_its_first_record_on(
    borders: list[int], tmp_path: Path
) -> None:
    def transaction(*names: str, producer_id: int = 7) -> BatchSpec:
        return BatchSpec(entries=tuple(map(commit, names)), producer_id=producer_id, transactional=True)

    end = BatchSpec(control=(1,), producer_id=7, transactional=True)
    last = [transaction("x", "a", "c"), transaction("b", producer_id=8)]
    history = [transaction("a", "x", "b"), transaction("y"), end, *last]
    log = encode_log(history)
    whole = in_order(finish(fold_bytes(log), log_partition=0, partition_count=50))
    assert [len(whole[name]) for name in ("unreachable_offsets", "pending_offsets", "open_transactions")] == [4, 4, 2]
    buckets = divided(log, borders, ["b", "x"], tmp_path, profile=JAVA[-1], as_of_ms=None)
    assert finished(buckets) == whole
