"""What must hold for every history: the closed form, the account of fates, splits, cuts and compaction."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.coordinator.loading import load
from sexton.log.batch import Record, marker_of, read_batches, read_records
from sexton.records import decode_key
from tests.coordinator.golden import CAP_BYTES
from tests.oracle import oracle_tables
from tests.strategies import ABORT, BASE_MS, NO_PRODUCER, encode_batches, encode_log, histories

quick = settings(max_examples=25, deadline=None)


def _load(data, **options):
    return load([data] if isinstance(data, bytes) else data, cap_bytes=CAP_BYTES, **options)


def _closed_form(data):
    """log_offset of the committed value by key: the highest of plain values, tombstones and values whose producer's
    next marker is COMMIT, unless it is a tombstone."""
    records, markers = [], []
    for batch in read_batches(data):
        for record in read_records(batch, cap_bytes=CAP_BYTES):
            assert isinstance(record, Record)
            if batch.is_control:
                markers.append((record.log_offset, batch.producer_id, marker_of(record)))
            else:
                fields = decode_key(record.key)[1]
                key = (fields["group_id"], fields["topic"], fields["partition"])
                records.append((record.log_offset, key, record.value, batch.producer_id))

    def is_settled(log_offset, value, producer_id):
        if value is None or producer_id == NO_PRODUCER:
            return True
        return next((word for at, by, word in markers if by == producer_id and at > log_offset), None) == "COMMIT"

    winners = {}
    for log_offset, key, value, producer_id in records:
        if is_settled(log_offset, value, producer_id):
            winners[key] = (log_offset, value)
    return {key: log_offset for key, (log_offset, value) in winners.items() if value is not None}


@quick
@given(histories(max_size=25, odd=False, groups=False))
def test_replay_equals_the_closed_form(history):
    data = encode_log(history)
    assert {key: offset.log_offset for key, offset in _load(data).offsets.items()} == _closed_form(data)


@quick
@given(histories())
def test_every_offset_value_has_one_fate(history):
    loaded = _load(encode_log(history))
    fates = loaded.fates(log_partition=0, partition_count=3)
    assert fates.total() == loaded.counters["read_values"]
    tables = oracle_tables(loaded, 0, 3)
    assert fates["live"] == len(tables["committed_offsets"])
    assert fates["unreachable"] == len(tables["unreachable_offsets"])
    assert fates["pending"] == len(tables["pending_offsets"])


@quick
@given(histories(), st.data())
def test_segments_may_end_after_any_batch(history, data):
    batches = encode_batches(history)
    at = data.draw(st.integers(0, len(batches)))
    split = _load([b"".join(batches[:at]), b"".join(batches[at:])])
    assert oracle_tables(split, 0, 3) == oracle_tables(_load(b"".join(batches)), 0, 3)


@quick
@given(histories(), st.integers(-6, 6))
def test_a_cut_reads_the_batches_before_the_first_that_is_too_late(history, step):
    as_of_ms = BASE_MS + step * 60_000
    batches = encode_batches(history)
    stamps = [next(iter(read_batches(batch))).max_timestamp_ms for batch in batches]
    late = next((index for index, stamp in enumerate(stamps) if stamp >= as_of_ms), len(batches))
    cut = _load(b"".join(batches), as_of_ms=as_of_ms)
    before = _load(b"".join(batches[:late]))
    assert oracle_tables(cut, 0, 3) == oracle_tables(before, 0, 3)
    if late < len(batches):
        assert cut.cut == next(iter(read_batches(batches[late]))).base_offset
    else:
        assert cut.cut == cut.next_log_offset


@quick
@given(
    histories(max_size=20, odd=False, groups=False).map(lambda history: _as_coordinators_write(history)), st.booleans()
)
def test_compaction_changes_no_offset(history, drops_tombstones):
    loaded = _load(encode_log(history))
    compacted = _load(encode_log(_compact(history, drops_tombstones=drops_tombstones)))
    assert compacted.offsets == loaded.offsets
    assert {pid: entries for pid, entries in compacted.pending.items() if entries} == {
        pid: entries for pid, entries in loaded.pending.items() if entries
    }


def _as_coordinators_write(history):
    """No idempotent producers and no tombstones in transactions, which the cleaner sees with other eyes."""
    return [
        replace(
            spec,
            transactional=True,
            entries=tuple(entry for entry in spec.entries if entry[1] is not None),
        )
        if spec.producer_id != NO_PRODUCER
        else spec
        for spec in history
    ]


def _placed(history):
    """(batch, its base offset, the log_offsets of its records), as `encode_log` places them."""
    placed, next_offset = [], 0
    for spec in history:
        base_offset = next_offset + spec.gap
        at, offsets = base_offset - 1, []
        for index in range(len(spec.entries)):
            at += 1 + (spec.holes[index] if index < len(spec.holes) else 0)
            offsets.append(at)
        placed.append((spec, base_offset, offsets))
        next_offset = max(at, base_offset) + 1
    return placed


def _without(history, is_kept):
    """`history` without the records and control batches that `is_kept` refuses by log_offset; all others stay put."""
    result, next_offset = [], 0
    for spec, base_offset, offsets in _placed(history):
        gap = base_offset - next_offset
        if spec.control_type is not None or not spec.entries:
            if is_kept(base_offset):
                result.append(replace(spec, gap=gap))
                next_offset = base_offset + 1
            continue
        left = [(at, entry) for at, entry in zip(offsets, spec.entries, strict=True) if is_kept(at)]
        if left:
            places = [base_offset - 1, *(at for at, _ in left)]
            holes = tuple(later - earlier - 1 for earlier, later in pairwise(places))
            result.append(replace(spec, gap=gap, entries=tuple(entry for _, entry in left), holes=holes))
            next_offset = left[-1][0] + 1
    return result


def _compact(history, *, drops_tombstones):
    """What the cleaner leaves of `history`: below the first open transaction, aborted values and all but the newest
    record of a key are gone, then the markers of which no record is left."""
    placed = _placed(history)
    markers = [(base, spec.producer_id, spec.control_type) for spec, base, _ in placed if spec.control_type is not None]
    records = [
        (at, tuple(decode_key(key)[1].values()), value, spec.producer_id)
        for spec, _, offsets in placed
        for at, (key, value) in zip(offsets, spec.entries, strict=True)
    ]
    ends = {
        at: next(((marker_at, kind) for marker_at, by, kind in markers if by == producer_id and marker_at > at), None)
        for at, _, _, producer_id in records
        if producer_id != NO_PRODUCER
    }
    first_unstable = min((at for at, end in ends.items() if end is None), default=math.inf)
    aborted = {at for at, end in ends.items() if end is not None and end[1] == ABORT}
    newest = {key: at for at, key, _, _ in records if at < first_unstable and at not in aborted}
    kept = {
        at
        for at, key, value, _ in records
        if at >= first_unstable or (newest.get(key) == at and not (value is None and drops_tombstones))
    }
    kept |= {at for at, _, kind in markers if at >= first_unstable}
    kept |= {ends[at][0] for at in kept if ends.get(at)}
    return _without(history, kept.__contains__)


@quick
@given(histories(max_size=20))
def test_a_record_that_throws_leaves_no_trace(history):
    loaded = _load(encode_log(history))
    undecodable = {row.log_offset for row in loaded.undecodable}
    thrown = {int(failure.split(":")[0].removeprefix("log_offset ")) for failure in _transitions(loaded)}
    again = _load(encode_log(_without(history, lambda at: at not in thrown)))
    assert not _transitions(again)
    assert {row.log_offset for row in again.undecodable} == undecodable
    tables, expected = oracle_tables(again, 0, 3), oracle_tables(loaded, 0, 3)
    for name in ("committed_offsets", "unreachable_offsets", "pending_offsets", "groups", "members"):
        assert tables[name] == expected[name]


def _transitions(loaded):
    """Failures that are no undecodable records."""
    told = Counter(str(row) for row in loaded.undecodable)
    return list((Counter(loaded.failures) - told).elements())
