"""Whole recordings of real brokers: what their sweeps wrote. What they answered is in api/test_recordings.py."""

from collections import Counter

import pytest

from sexton.coordinator.expiry import verdict
from sexton.log.batch import read_batches, read_records
from tests.coordinator.golden import CAP_BYTES, GOLDEN, RELEASES, load_recording, segments, sweeps
from tests.plain_sweep import sweep

RETENTION_MS = 60_000


@pytest.mark.parametrize("recording", RELEASES)
def test_nothing_fails_to_load(recording):
    assert not any(loaded.failures for loaded in load_recording(recording).values())


def test_the_sweep_of_0_9():
    """It left no offset, and wrote what is planned; the log tells that, and nothing else does."""
    before, swept = load_recording("kafka-0.9.0.1"), load_recording("kafka-0.9.0.1", swept=True)
    assert not any(loaded.offsets for loaded in swept.values())
    for log_partition, chunks in segments(GOLDEN / "kafka-0.9.0.1" / "swept"):
        state = before[log_partition]
        records = (
            record
            for data in chunks
            for batch in read_batches(data)
            for record in read_records(batch, cap_bytes=CAP_BYTES)
        )
        written = [(record.key, record.value) for record in records if record.log_offset >= state.next_log_offset]
        last_ms = max(offset.expire_timestamp_ms for offset in state.offsets.values())  # 0.9 stores one with each
        planned = sweep(state, retention_ms=RETENTION_MS, now_ms=last_ms + 1)
        assert sorted(written) == sorted((item.key, None) for item in planned)


SWEEPS = [(recording, number) for recording in RELEASES for number, _ in enumerate(sweeps(recording))]


@pytest.mark.parametrize("recording, number", SWEEPS)
def test_sweeps(recording, number):
    at_ms, batches = list(sweeps(recording))[number]
    loaded = load_recording(recording, swept=True, as_of_ms=at_ms)
    planned = {
        log_partition: sweep(state, retention_ms=RETENTION_MS, now_ms=at_ms) for log_partition, state in loaded.items()
    }
    swept = Counter()
    for batch in batches:
        for record_type, key in batch["tombstones"]:
            group_id = key.get("group", key.get("groupId"))
            place = map(key.get, ("topic", "partition", "memberId"))
            swept[batch["log_partition"], record_type, group_id, *place] += 1
    late = _late_groups(loaded, at_ms, {batch["log_partition"]: batch["at_ms"] for batch in batches})
    wanted = Counter({item: count for item, count in swept.items() if item[2] not in late})
    assert wanted.total() > 0
    assert wanted == Counter(
        (log_partition, item.record_type, item.group_id, item.topic, item.partition, item.member_id)
        for log_partition, items in planned.items()
        for item in items
        if item.group_id not in late
    )


def _late_groups(loaded, at_ms, end_ms):
    """Groups of which an offset fell due between the sweep's first instant and that of its own log partition."""
    late = set()
    for log_partition, state in loaded.items():
        for (group_id, topic, _), offset in state.offsets.items():
            if group_id in state.groups.by_id:
                group, at = state.groups.by_id[group_id], {"retention_ms": RETENTION_MS, "now_ms": at_ms}
                due = verdict(offset, topic, group, is_pending=False, **at, profile=state.profile).expires_at_ms
                if due is not None and at_ms < due <= end_ms.get(log_partition, at_ms):
                    late.add(group_id)
    return late
