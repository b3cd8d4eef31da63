"""The columns of measure_lag equal the rows of the plain rules, in worlds in which everything happens."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sexton.archive.time_points import Key, TimePoint, write_lookup
from sexton.lag import measure_lag
from sexton.lag.measure_lag import measure
from tests import plain_lag
from tests.archived import CLUSTER, Archive
from tests.lag_tables import instant_of
from tests.plain_lag import Committed, LogRange, World

START_MS, SPAN_MS = 1_790_000_000_000, 3_600_000
END = 30
IDS = {"a": "id-a", "b": None, "c": "id-c"}
KEYS: list[Key] = [(topic, number) for topic in IDS for number in range(3)]


def some_point(rng: Random, as_of_ms: int) -> TimePoint:
    """Anything that a lookup may have been answered, also answers that contradict each other."""
    offset, at_ms = rng.randrange(END), START_MS + rng.randrange(SPAN_MS)
    source = rng.choice(("list_offsets", "list_offsets", "log_end", "log_start", "last_stable", "epoch_end"))
    point = TimePoint(offset=offset, timestamp_ms=as_of_ms, source=source)  # type: ignore[arg-type]
    if source == "list_offsets":
        started = rng.choice((0, 0, None, rng.randrange(END)))
        asked_ms = rng.choice((at_ms, at_ms - rng.randrange(9_000)))
        return replace(
            point, timestamp_ms=rng.choice((None, at_ms, at_ms, at_ms)), asked_ms=asked_ms,
            log_start_offset=started,
        )  # fmt: skip
    if source == "epoch_end":
        return replace(point, leader_epoch=rng.randrange(4), offset=rng.randrange(-1, END))
    return replace(point, timestamp_ms=at_ms) if source == "log_end" else point


def some_settings(rng: Random) -> dict[str, str]:
    kinds = {
        "message.timestamp.type": ("LogAppendTime", "CreateTime"),
        "retention.ms": ("-1", "60000", str((1 << 63) - 1)),
        "cleanup.policy": ("delete", "compact", "compact,delete"),
    }
    return {name: rng.choice(values) for name, values in kinds.items() if rng.random() < 0.8}


def some_offset(rng: Random, number: int) -> Committed:
    return Committed(
        group_id=f"g{number}", topic=rng.choice([*IDS, "a", "gone"]), partition=rng.randrange(4),
        committed_offset=rng.choice((rng.randrange(END + 4), rng.randrange(END), (1 << 63) - 1)),
        topic_id=rng.choice((None, None, "id-a", "id-c")), leader_epoch=rng.choice((None, rng.randrange(5))),
        pending_producer_ids=tuple(range(rng.choice((0, 0, 2)))),
    )  # fmt: skip


def a_world(rng: Random, folder: Path) -> tuple[Archive, World, list[Committed]]:
    archive, points = Archive(folder), {key: list[TimePoint]() for key in KEYS}
    as_of_ms, ends = START_MS + rng.randrange(SPAN_MS), dict.fromkeys(KEYS, 0)
    topics: dict[str, dict[str, str]] = {}
    snapshots = sorted({START_MS + rng.randrange(SPAN_MS) for _ in range(rng.randrange(5))})
    last = next((at_ms for at_ms in snapshots if at_ms >= as_of_ms), SPAN_MS + START_MS)
    for at_ms in snapshots:
        ends = {key: min(END, end + rng.randrange(9)) for key, end in ends.items()}
        archive.topics = [
            {"topic": topic, "id": IDS[topic], "partitions": [[0, ends[topic, number]] for number in range(3)]}
            for topic in IDS
        ]
        archive.snapshot(at_ms)
        if at_ms <= last:
            for key, end in ends.items():
                points[key].append(TimePoint(offset=end, timestamp_ms=at_ms, source="snapshot"))
    for asked_at_ms in sorted(START_MS + rng.randrange(SPAN_MS) for _ in range(rng.randrange(4))):
        of_ms = rng.choice((as_of_ms, asked_at_ms - 5))
        seen = {key: [some_point(rng, of_ms) for _ in range(rng.randrange(6))] for key in KEYS}
        settings = {topic: some_settings(rng) for topic in IDS}
        settings = {topic: each for topic, each in settings.items() if each}
        write_lookup(
            archive.fs, archive.root, cluster_id=CLUSTER, as_of_ms=of_ms, asked_at_ms=asked_at_ms, rounds=1,
            topic_ids={**IDS, "c": rng.choice(("id-c", None))}, points=seen, topics=settings,
        )  # fmt: skip
        topics = topics if topics else settings  # of one lookup only, see below
        for key, some in seen.items():
            points[key] += some
        if topics:
            break
    partitions = {
        key: LogRange(
            topic_id=IDS[key[0]],
            log_start_offset=rng.choice((-1, 0, 3)),
            log_end_offset=rng.choice((-1, ends[key], END)),
        )
        for key in KEYS
    }
    world = World(
        as_of_ms=as_of_ms, partitions=partitions, points=points, topics=topics, sees_all_topics=rng.random() < 0.5,
        slack_ms=rng.choice((0, 1_000)),
    )  # fmt: skip
    return archive, world, [some_offset(rng, number) for number in range(rng.randrange(60))]


@pytest.mark.parametrize("seed", range(4))
def test_columns_equal_rows(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_lag, "ROWS_AT_ONCE", 20)
    rng, seen = Random(seed), dict[str, set[Any]]()
    for number in range(60):
        archive, world, committed = a_world(rng, tmp_path / str(number))
        instant = instant_of(
            archive.root, committed, world.partitions, cluster_id=CLUSTER, as_of_ms=world.as_of_ms,
            sees_all_topics=world.sees_all_topics, slack_ms=world.slack_ms,
        )  # fmt: skip
        found = measure(instant).to_pylist()
        assert found == plain_lag.measure(world, committed)
        for row in found:
            for name, value in row.items():
                seen.setdefault(name, set()).add(value if name in ("basis", "would_reset") else value is None)
    assert seen["basis"] == {"log_end", "timestamps", "appends", None}
    assert len(seen["would_reset"]) == 6
    assert all(
        len(values) == 2 for name, values in seen.items() if name in ("held_at", "diverged_at", "loses_at_min_ms")
    )
