"""Random histories on three replicas: 0 alarms while each compacts on its own, every hazard found once one was away.

What a replica answers is taken from the plain replay, which shares nothing with the comparison.
"""

import itertools
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from sexton.coordinator.loading import Loaded, load
from sexton.log.batch import encode_batch
from sexton.replicas.archived import ARCHIVE
from tests.campaign.compaction import compact
from tests.campaign.histories import history, is_old
from tests.campaign.packs import Pack, Placed, pack
from tests.log_builder import BASE_MS
from tests.replicas.disks import compared, log_of, write_replica

SEED = 20_261_123
CLEAN, AWAY = {False: 60, True: 200}, {False: 60, True: 100}
CAP_BYTES = 1 << 24
_FILLER = b"\0\1\0\6filler\0\1t\0\0\0\0"


def clean_packs(seed: int, *, together: tuple[int, ...] = (1, 2, 3)) -> Iterator[tuple[Pack, Random]]:
    """Logs of a few histories that brokers and clients may write, and that a coordinator can load."""
    number = 0
    while True:
        rng = Random(f"{seed}/{number}/replicas")
        found = [one for one in (history(seed, 16 * number + k) for k in range(16)) if one.is_clean]
        found = [one for one in found if not is_old(one.index) and loaded(pack([one], rng).log).load_failure is None]
        number += 1
        if found:
            yield pack(found[: rng.choice(together)], rng), rng


def loaded(data: bytes) -> Loaded:
    return load([data], cap_bytes=CAP_BYTES)


def removes(batch: Placed) -> bool:
    """Whether it is a marker, or has a tombstone."""
    return batch.block.control is not None or any(entry.value is None for entry in batch.block.entries)


def end_of(whole: Pack) -> int:
    """The end of a log with its active segment, which no cleaner touches."""
    return active_of(whole) + 1


def active_of(whole: Pack) -> int:
    return whole.placed[-1].last + 1


def test_replicas_that_compact_on_their_own_are_the_same(full: bool, tmp_path: Path) -> None:
    packs, compared_count = clean_packs(SEED), 0
    while compared_count < CLEAN[full]:
        whole, rng = next(packs)
        root, end = tmp_path / "log", end_of(whole)
        reach = rng.choice([batch.base_offset for batch in whole.placed]) if rng.random() < 0.3 else end
        left = {name: compact(whole, rng, stop=reach) for name in "ABC"}
        if any(loaded(cleaned.log).load_failure for cleaned in left.values()):
            continue  # groups are drawn at random: some sequences that no broker writes do not survive a cleaning
        for name, cleaned in left.items():
            if name == "C" and reach < end:  # it follows, and has not got further yet
                before = [batch for batch in cleaned.placed if batch.base_offset < reach]
                write_replica(root / name, {**split(before, rng), reach: b""}, high_watermark=reach)
            else:
                write_replica(root / name, split(cleaned.placed, rng, active_of(whole)), high_watermark=end)
        found = compared(root)
        assert found.alarms.num_rows == 0, (found.alarms.to_pylist(), blocks(whole))
        assert found.notes == []
        assert set(found.state["status"].to_pylist()) <= ({"same"} if reach == end else {"same", "behind"})
        compared_count += 1
        shutil.rmtree(root)


def test_a_replica_that_was_away_is_named_with_every_key(full: bool, tmp_path: Path) -> None:
    packs, hazards, kinds, dated = clean_packs(SEED + 1, together=(4, 8)), 0, set[str](), 0
    for number in range(AWAY[full]):
        whole, rng = next(packs)
        root = tmp_path / "log"
        cleaned = compact(whole, rng, is_thorough=True)
        away_from = rng.choice([batch.base_offset for batch in whole.placed if removes(batch)] or [end_of(whole)])
        before = compact(whole, rng, stop=away_from) if rng.random() < 0.5 else whole
        returned = [
            *(batch for batch in before.placed if batch.base_offset < away_from),
            *(batch for batch in cleaned.placed if batch.base_offset >= away_from),
        ]
        for name, batches in (("A", cleaned.placed), ("B", cleaned.placed), ("C", returned)):
            write_replica(root / name, split(batches, rng, active_of(whole)), high_watermark=end_of(whole))
        write_replica(root / ARCHIVE, split(whole.placed, rng))
        right, wrong = loaded(cleaned.log), loaded(Pack(returned).log)
        if wrong.load_failure is None:
            expected = unlike(right, wrong)
            hazards += len(expected)
            for archived in (None, log_of(root / ARCHIVE, ARCHIVE)):
                found = compared(root, archived=archived)
                rows = [row for row in found.differences.to_pylist() if row["topic"] is not None]
                named = {(row["group_id"], row["topic"], row["partition"]) for row in rows}
                assert named == expected, (number, blocks(whole))
                assert {tuple(row["wrong_replicas"]) for row in rows} <= {("C",)}, (number, rows)
                kinds |= {kind for row in rows for kind in row["kinds"]}
                if archived is not None:
                    written = {at for batch in whole.placed for at in batch.at}
                    assert all(row["since_log_offset"] in written for row in rows), (number, rows)
                    dated += len(named)
        else:
            found = compared(root)
            assert {row["kind"] for row in found.differences.to_pylist()} <= {"unloadable"}
            assert found.state.filter([True] * 3)["loads"].to_pylist() == [True, True, False]
        shutil.rmtree(root)
    assert hazards > AWAY[full] / 4
    assert dated == hazards
    assert {"resurrected", "aborted_to_committed", "committed_hidden", "stuck"} <= kinds


def unlike(right: Loaded, wrong: Loaded) -> set[tuple[str, str, int]]:
    """Keys that one serves otherwise, or has pending otherwise."""
    keys = {*right.offsets, *wrong.offsets, *right.state.pending_keys(), *wrong.state.pending_keys()}

    def answer(state: Loaded, key: tuple[str, str, int]) -> object:
        held = [producer for producer, pending in state.pending.items() if key in pending]
        return state.offsets.get(key), sorted(held)

    return {key for key in keys if answer(right, key) != answer(wrong, key)}


def split(batches: Sequence[Placed], rng: Random, active: int | None = None) -> dict[int, bytes]:
    """The batches in up to three segments, and the active one."""
    starts = sorted({0, *(rng.randrange(len(batches) + 1) for _ in range(rng.randrange(3)))} - {len(batches)})
    found = {}
    for begin, end in itertools.pairwise([*starts, len(batches)]):
        base_offset = 0 if begin == 0 else batches[begin].base_offset
        found[base_offset] = Pack(batches[begin:end]).log
    if active is not None:
        found[active] = encode_batch([(_FILLER, None)], base_offset=active, timestamp_ms=BASE_MS)
    return {0: b"", **found}


def blocks(whole: Pack) -> list[str]:
    histories = {batch.history.index: batch.history for batch in whole.placed}
    return [str(block) for one in histories.values() for block in one.blocks]
