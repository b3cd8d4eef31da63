"""An archive of six weeks with a snapshot a day, of 150 groups that commit, come to an end, expire and are deleted:
`python -m tests.ui.month FOLDER`. For `sexton history build`, and the picture of what it shows."""

import random
import sys
from itertools import groupby
from pathlib import Path

from sexton.as_text import DAY_MS, HOUR_MS
from tests.archived import Archive, next_offset
from tests.log_builder import BatchSpec, commit, encode_log, group_entry, tombstone

END_MS = 1_795_132_800_000
"""2026-11-20"""
DAYS, GROUPS, RETENTION_MINUTES = 44, 150, 10_080
BEGIN_MS = END_MS - DAYS * DAY_MS
TOPICS = {"orders": 4, "clicks": 2, "returns": 2}
RETURNS_END_MS = END_MS - 12 * DAY_MS
"""When that topic is deleted."""


def month(seed: int = 7) -> list[BatchSpec]:
    """Each hour commits, each sixth a sweep; some groups leave a topic; now and then somebody deletes something."""
    drawn = random.Random(seed)
    groups = {f"app-{number:03d}": drawn.sample([*TOPICS], 2) for number in range(GROUPS)}
    ends_ms = {
        (group_id, topic): BEGIN_MS + drawn.randint(1, 70) * DAY_MS for group_id, own in groups.items() for topic in own
    }
    held: dict[tuple[str, str, int], int] = {}
    log: list[BatchSpec] = []

    def remove(keys: list[tuple[str, str, int]], at_ms: int, *, with_groups: bool = True) -> None:
        gone = [tombstone(*key) for key in keys if held.pop(key)]
        empty = {group_id for group_id, _, _ in keys} - {group_id for group_id, _, _ in held}
        gone += [group_entry(2, group_id, None) for group_id in sorted(empty) if with_groups]
        if gone:
            log.append(BatchSpec(entries=tuple(gone), timestamp_ms=at_ms))

    for hour, at_ms in enumerate(range(BEGIN_MS, END_MS, HOUR_MS)):
        if at_ms == RETURNS_END_MS:
            remove([key for key in sorted(held) if key[1] == "returns"], at_ms, with_groups=False)
            ends_ms |= dict.fromkeys([key for key in ends_ms if key[1] == "returns"], at_ms)
        for (group_id, topic), end_ms in ends_ms.items():
            if at_ms < end_ms and drawn.random() < 0.3:
                held |= dict.fromkeys([(group_id, topic, number) for number in range(TOPICS[topic])], at_ms)
        new = [commit(key[0], hour, *key[1:], commit_timestamp_ms=at_ms) for key, ms in held.items() if ms == at_ms]
        log.append(BatchSpec(entries=tuple(new), timestamp_ms=at_ms))
        if hour % 6 == 5:
            due_ms = at_ms + 600_000 - RETENTION_MINUTES * 60_000
            remove(sorted(key for key, ms in held.items() if ms <= due_ms), at_ms + 600_000)
        if held and drawn.random() < 0.02:
            group_id = drawn.choice(sorted(held))[0]
            ends_ms |= dict.fromkeys([key for key in ends_ms if key[0] == group_id], at_ms)
            remove([key for key in sorted(held) if key[0] == group_id], at_ms + 1_200_000)
        if held and drawn.random() < 0.04:
            remove([drawn.choice(sorted(held))], at_ms + 1_800_000, with_groups=False)
    return log


def archive(folder: Path) -> None:
    made = Archive(folder, settings={"offsets.retention.minutes": str(RETENTION_MINUTES)})
    log_offset = 0
    for day_ms, batches in groupby(month(), lambda batch: batch.timestamp_ms // DAY_MS * DAY_MS):
        data = encode_log(list(batches), base_offset=log_offset)
        log_offset = next_offset(data)
        taken_at_ms = day_ms + DAY_MS + 65_000
        made.topics = [
            {"topic": name, "id": None, "partitions": [[0, 1_000]] * number}
            for name, number in TOPICS.items()
            if name != "returns" or taken_at_ms < RETURNS_END_MS
        ]
        made.snapshot(taken_at_ms, {0: data})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    archive(Path(sys.argv[1]))
