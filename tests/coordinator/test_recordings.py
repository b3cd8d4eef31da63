"""Whole recordings of real brokers: what they answered after loading the log, and what their sweeps wrote."""

from collections import Counter

import pytest

from sexton.coordinator.expiry import sweep, verdict
from sexton.log.batch import read_batches, read_records
from tests.coordinator.golden import CAP_BYTES, GOLDEN, RELEASES, lines, load_recording, segments


def _is_from(release, first):
    return [int(part) for part in release.split(".")] >= [int(part) for part in first.split(".")]


WITHOUT_GROUPS = ["kafka-0.9.0.1"]
"""A 0.9 broker was asked for offsets alone, and its sweep for nothing but its log."""
WITH_GROUPS = [name for name in RELEASES if name not in WITHOUT_GROUPS]
WITH_STABLE = [name for name, release in RELEASES.items() if _is_from(release, "2.5")]
"""Before, nobody could ask for stable offsets."""
RETENTION_MS = 60_000
GRACE_MS = 1_000  # a sweep's batches carry append time, up to this much after the instant it judged by


def _answers(recording, field):
    return {
        (group["group"], key.rpartition("-")[0], int(key.rpartition("-")[2])): tuple(value)
        for group in lines(GOLDEN / recording / "loaded.jsonl")
        for key, value in (group.get(field) or {}).items()
    }


def _offsets(recording, **options):
    return {
        key: (offset.committed_offset, offset.leader_epoch, offset.metadata)
        for loaded in load_recording(recording, **options).values()
        for key, offset in loaded.offsets.items()
        if key not in loaded.unreachable()
    }


@pytest.mark.parametrize("recording", RELEASES)
def test_committed_offsets(recording):
    answers = _answers(recording, "offsets")
    assert len(answers) > 200
    assert _offsets(recording) == answers


@pytest.mark.parametrize("recording", WITH_STABLE)
def test_stable_offsets(recording):
    held = set().union(*(loaded.state.pending_keys() for loaded in load_recording(recording).values()))
    assert {key: value for key, value in _offsets(recording).items() if key not in held} == _answers(
        recording, "stable"
    )


@pytest.mark.parametrize(
    "recording, release, differing",
    [("kafka-2.8.2-plain", "4.3.1", 35), ("kafka-3.9.1", "4.0.0", 57), ("kafka-4.0.0", "3.9.1", 110)],
)
def test_by_another_coordinator_s_rules_offsets_differ(recording, release, differing):
    answers, others = _answers(recording, "offsets"), _offsets(recording, release=release)
    assert sum(answers.get(key) != others.get(key) for key in answers.keys() | others.keys()) == differing


@pytest.mark.parametrize("recording", WITH_GROUPS)
def test_groups(recording):
    answers = {
        (group["group"], group["type"] or "Classic", group["state"], group["protocol"] or None)
        for group in lines(GOLDEN / recording / "loaded.jsonl")
    }
    assert answers == {
        (group.group_id, group.group_type, group.state, group.protocol_type)
        for loaded in load_recording(recording).values()
        for group in loaded.groups.by_id.values()
    }


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


def _sweeps(recording):
    """The broker's sweeps, seconds apart: (instant, batches of all log partitions)."""
    left = lines(GOLDEN / recording / "sweeps.jsonl")
    while left:
        at_ms = min(batch["at_ms"] for batch in left)
        yield at_ms, [batch for batch in left if batch["at_ms"] <= at_ms + GRACE_MS]
        left = [batch for batch in left if batch["at_ms"] > at_ms + GRACE_MS]


SWEEPS = [(recording, number) for recording in WITH_GROUPS for number, _ in enumerate(_sweeps(recording))]


@pytest.mark.parametrize("recording, number", SWEEPS)
def test_sweeps(recording, number):
    at_ms, batches = list(_sweeps(recording))[number]
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
