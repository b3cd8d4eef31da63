"""Sweeps of real brokers: every offset that one took is told as expired, or as one that a request could have taken."""

from collections import Counter
from dataclasses import replace

import pytest

from sexton.coordinator.changes.model import Change, ChangeEvidence, TopicsAt
from sexton.coordinator.changes.replay import changes
from sexton.coordinator.loading import load
from sexton.coordinator.profiles import of_broker
from sexton.tables.change_causes import ChangeKind
from tests.coordinator.golden import CAP_BYTES, GOLDEN, RELEASES, lines, segments

RETENTION_MS = 60_000
WITH_SWEEPS = [name for name in RELEASES if (GOLDEN / name / "sweeps.jsonl").exists()]


def known_of(recording: str, stopped_at_ms: int) -> ChangeEvidence:
    """Between the stop of the broker and its last sweep nobody made or deleted a topic."""
    ids = {topic["topic"]: topic["id"] for topic in lines(GOLDEN / recording / "topics.jsonl")}
    before = TopicsAt(taken_at_ms=stopped_at_ms, ids=ids)
    return ChangeEvidence(retentions_ms=(RETENTION_MS,), before=before, after=replace(before, taken_at_ms=1 << 60))


def swept(recording: str) -> list[tuple[int, Change]]:
    """What disappeared while the broker ran with its short retention, by log partition."""
    profile = of_broker(RELEASES[recording])
    before = dict(segments(GOLDEN / recording / "before"))
    rows = []
    for log_partition, chunks in segments(GOLDEN / recording / "swept"):
        loaded = load(before[log_partition], cap_bytes=CAP_BYTES, profile=profile)
        known = known_of(recording, loaded.max_timestamp_ms)
        size = sum(map(len, before[log_partition]))
        found = changes(loaded, [b"".join(chunks)[size:]], known=known, cap_bytes=CAP_BYTES)
        rows += [(log_partition, row) for row in found if row.kind is not ChangeKind.SET]
    return rows


def written(recording: str) -> Counter[tuple[int, str, str, int]]:
    return Counter(
        (batch["log_partition"], key["group"], key["topic"], key["partition"])
        for batch in lines(GOLDEN / recording / "sweeps.jsonl")
        for record_type, key in batch["tombstones"]
        if record_type in (0, 1)
    )


@pytest.mark.parametrize("recording", WITH_SWEEPS)
def test_every_sweep_is_one(recording: str) -> None:
    rows = swept(recording)
    assert Counter((log_partition, *row.key) for log_partition, row in rows) == written(recording)
    assert all(ChangeKind.EXPIRED in (row.candidates or (row.kind,)) for _, row in rows)


DECIDED = {
    "kafka-4.4.0": 149, "kafka-4.3.1-plain": 133, "kafka-4.3.1-lz4": 145, "kafka-4.3.1-partial": 109,
    "kafka-4.2.2": 51, "kafka-4.1.2": 97, "kafka-4.0.0": 532, "kafka-3.9.1": 29, "kafka-3.5.2": 16,
}  # fmt: skip
"""Offsets that nothing but a sweep can have taken. The others went with all of their group, alone or with others that
did: one request to delete groups looks the same. Brokers without topic ids might have deleted the topics, too."""


@pytest.mark.parametrize("recording", WITH_SWEEPS)
def test_what_is_decided(recording: str) -> None:
    rows = [row for _, row in swept(recording)]
    assert sum(row.kind is ChangeKind.EXPIRED for row in rows) == DECIDED.get(recording, 0)
    for row in rows:
        assert row.kind is ChangeKind.EXPIRED or len(row.candidates or ()) > 1
        assert row.timestamp_ms is not None
        is_unknown = "since when the group was empty" in (row.evidence or "")  # 2.3 to 2.6 forget it (KAFKA-10401)
        assert row.due_at_ms is None if is_unknown else (row.due_at_ms or 0) <= row.timestamp_ms


@pytest.mark.parametrize("recording", WITH_SWEEPS)
def test_what_clients_deleted_while_the_log_was_made(recording: str) -> None:
    """Nothing of it was due: the workload took minutes and the retention was a week."""
    profile = of_broker(RELEASES[recording])
    kinds: Counter[str] = Counter()
    for _, chunks in segments(GOLDEN / recording / "before"):
        loaded = load([], cap_bytes=CAP_BYTES, profile=profile)
        known = ChangeEvidence(retentions_ms=(7 * 86_400_000,))
        found = changes(loaded, chunks, known=known, cap_bytes=CAP_BYTES)
        kinds.update("/".join(row.candidates or (row.kind,)) for row in found if row.kind is not ChangeKind.SET)
    assert not [kind for kind in kinds if "expired" in kind], kinds
