"""A log has one checkpoint: in one pass, in pieces or from a checkpoint on, the same bytes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.archive.folder import Folder
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.errors import DamagedFold
from sexton.kernels import fold as fold_module
from sexton.kernels.canonical import canonical
from sexton.kernels.checkpoint.files import pack, read_parquet, unpack
from sexton.kernels.fold import PartialFold, fold_task, merge_all
from sexton.log.segment import FoldTask
from tests.campaign.histories import histories, history
from tests.campaign.packs import pack as pack_histories
from tests.faults.logs import every_kind
from tests.kernels.compare import (
    CAP_BYTES,
    PROFILES,
    assert_equal,
    fold_bytes,
    fold_slices,
    loaded,
    slice_of,
    tables_of,
)
from tests.log_builder import BatchSpec, commit, encode_batches, encode_log, tombstone

HISTORIES = 400
IN_PIECES = [profile for profile in PROFILES if profile.folds_in_slices]


def packed(fold: PartialFold) -> bytes:
    """What a checkpoint holds, without the cost of its files."""
    return pack(fold._tables(canonical(fold.state)))


def stored(fold: PartialFold, folder: Path) -> dict[str, bytes]:
    """The files of a checkpoint."""
    fold.write_parquet(Folder(folder))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fold_part(
    data: bytes, start: int, end: int, *, index: int, profile: Profile = NEWEST, onto: PartialFold | None = None
) -> PartialFold:
    task = FoldTask(log_partition=0, index=index, slices=(slice_of(data, start, end),), is_last=False)
    return fold_task(
        [data], task=task, cap_bytes=CAP_BYTES, as_of_ms=None, taken_at_ms=None, profile=profile, onto=onto
    )


def full(data: bytes, end: int, profile: Profile) -> PartialFold:
    """The fold of a log up to a byte, with the mark of a cut."""
    return replace(fold_part(data, 0, end, index=0, profile=profile), cut=end)


def by_increments(data: bytes, borders: Sequence[int], profile: Profile, rng: Random) -> bytes:
    """Checkpoints at `borders`, each made of the one before and a delta that is cut in pieces itself; the last one.

    Pieces are folded by themselves and merged, or one onto the other.
    """
    before: bytes | None = None
    for start, end in pairwise([0, *borders]):
        inner = sorted(rng.randrange(start, end + 1) for _ in range(rng.choice((0, 0, 1, 3))))
        folds = [replace(PartialFold.from_bytes(before), cut=None)] if before is not None else []
        for a, b in pairwise([start, *inner, end]):
            onto = folds.pop() if folds and rng.random() < 0.5 else None
            folds.append(fold_part(data, a, b, index=0 if a == 0 and not folds else 1, profile=profile, onto=onto))
        before = packed(replace(merge_all(folds), cut=end))
    assert before is not None
    return before


def test_increments_of_random_histories_equal_their_full_replays(seed: int) -> None:
    for index in range(HISTORIES):
        rng = Random(f"{seed}/{index}")
        log = pack_histories([history(seed, index)], rng)
        starts = [0, *accumulate(map(len, log.batches))]
        borders = sorted(rng.choice(starts) for _ in range(rng.choice((1, 2, 2, 4))))
        profile = rng.choice(IN_PIECES)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fold_module, "PRUNED_FROM_KEYS", rng.choice((0, fold_module.PRUNED_FROM_KEYS)))
            last = by_increments(log.log, [*borders, len(log.log)], profile, rng)
        whole = packed(full(log.log, len(log.log), profile))
        where = f"seed {seed}, history {index}, {profile.text}, cut at {borders}"
        assert last == whole, f"{where}: {_unlike(last, whole)}"


def _unlike(told: bytes, wanted: bytes) -> dict[str, tuple[object, object]]:
    """The tables in which two checkpoints differ."""
    got, want = unpack(told), unpack(wanted)
    return {name: (got[name].to_pylist(), want[name].to_pylist()) for name in want if got[name] != want[name]}


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(log=histories(max_size=16), codec=st.integers(0, 4), random=st.randoms(use_true_random=False))
def test_pieces_leave_no_trace(log, codec, random, tmp_path_factory):
    folder = tmp_path_factory.mktemp("folds")
    data = encode_log(log, codec=codec)
    whole = stored(fold_slices(data, [])[0], folder / "whole")
    borders = [random.randrange(len(data) + 1) for _ in range(random.randrange(6))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_module, "PRUNED_FROM_KEYS", 0)
        assert stored(merge_all(fold_slices(data, borders)), folder / "pieces") == whole
        onto: PartialFold | None = None
        for start, end in pairwise([0, *sorted(borders), len(data)]):
            onto = fold_part(data, start, end, index=0, onto=onto)
        assert onto is not None
        assert stored(onto, folder / "onto") == whole
    again = PartialFold.read_parquet(Folder(folder / "pieces"))
    assert stored(again, folder / "again") == whole
    assert_equal(again, loaded(data))


def test_nothing_is_left_of_what_is_gone(tmp_path: Path) -> None:
    log = [
        BatchSpec(
            entries=(commit("gone", 1, metadata="m"), commit("kept", 2, topic="b"), commit("kept", 3, topic="a"))
        ),
        BatchSpec(entries=(commit("gone", 7),), producer_id=1, transactional=True),
        BatchSpec(producer_id=1, transactional=True, control=(1,)),
        BatchSpec(entries=(tombstone("gone"), tombstone("never"), commit("open", 8)), producer_id=2),
    ]
    fold = fold_slices(encode_log(log), [])[0]
    stored(fold, tmp_path)
    read = read_parquet(Folder(tmp_path))
    assert read["keys"]["topic"].to_pylist() == ["b", "a", "t"]
    assert read["keys"]["log_offset"].to_pylist() == [1, 2, None]
    assert read["keys"]["last_tombstone_log_offset"].null_count == 3
    assert read["producers"]["producer_id"].to_pylist() == [2]
    assert read["groups"]["group_id"].to_pylist() == ["gone", "kept", "never", "open"]
    assert tables_of(PartialFold.read_parquet(Folder(tmp_path))) == tables_of(fold)


def test_records_with_one_log_offset_are_put_in_order_by_their_keys(tmp_path: Path) -> None:
    """Behind a batch with a bad CRC the same log_offsets may come again."""
    first = BatchSpec(entries=tuple(commit(name) for name in "dcb"), crc_ok=False)
    (bad,) = encode_batches([first])
    (good,) = encode_batches([BatchSpec(entries=(commit("a"),))], base_offset=1)
    data = bad + good
    whole = stored(fold_slices(data, [])[0], tmp_path / "whole")
    assert stored(merge_all(fold_slices(data, [len(bad)])), tmp_path / "pieces") == whole
    keys = read_parquet(Folder(tmp_path, "whole"))["keys"]
    assert list(zip(keys["group_id"].to_pylist(), keys["log_offset"].to_pylist(), strict=True)) == [
        ("d", 0), ("a", 1), ("c", 1), ("b", 2)
    ]  # fmt: skip


def test_a_fold_is_read_from_any_bytes_that_hold_it_or_refused() -> None:
    """Names of tables twice, no row of them, and a buffer that is longer than its texts need."""
    data = fold_bytes(every_kind()).to_bytes()
    for rows in (0, 1):
        sink = pa.BufferOutputStream()
        twice = pa.record_batch([pa.array([data] * rows, pa.large_binary())] * 2, names=["", ""])
        with pa.ipc.new_stream(sink, twice.schema) as writer:
            writer.write_batch(twice)
        with pytest.raises(DamagedFold, match="not the tables of a fold"):
            unpack(sink.getvalue().to_pybytes())
    tables = dict(unpack(data))
    topics = tables["keys"]["topic"].combine_chunks()
    _, ends, texts = topics.buffers()
    longer = pa.Array.from_buffers(topics.type, len(topics), [None, pa.py_buffer(ends.to_pybytes() + b"\0"), texts])
    at = tables["keys"].column_names.index("topic")
    tables["keys"] = tables["keys"].set_column(at, tables["keys"].schema.field(at), longer)
    assert PartialFold._restored(tables).to_bytes() == PartialFold.from_bytes(data).to_bytes()
