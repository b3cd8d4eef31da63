"""The broker's own log cleaner, let loose on histories: what it leaves is loaded and asked about like any log.

Kafka: LogCleaner, Cleaner. It cleans what lies below the active segment and the first open transaction. Tombstones and
markers go in the second pass, once their delete horizon has passed.
"""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.campaign.broker.answers import Answers
from tests.campaign.broker.judge import Judge, Verdict, until
from tests.campaign.broker.logs import Logs
from tests.campaign.packs import Pack

PASSES = 3
SIMPLE_GROUP_GONE = "of a simple group without offsets, which is gone"
EXPECTED_CHANGES = {SIMPLE_GROUP_GONE}
"""All that cleaning may change: a group that only offsets had made is no more when nothing of them is left."""
CLEAN = {
    "offsets.retention.check.interval.ms": "86400000",
    "log.cleaner.enable": "true",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "1",
    "log.cleaner.backoff.ms": "200",
}
SIMPLE_GROUP = ("classic", "Empty", "")
_QUIET_S = 3


@dataclass(frozen=True)
class CleanedPack(Pack):
    """A pack of which the cleaner has left these bytes."""

    left: bytes

    @property
    def log(self) -> bytes:  # type: ignore[override]
        return self.left


@dataclass(frozen=True)
class Cleaning:
    """What came of it: Sexton and the broker before and after, how many bytes went, what the broker answers otherwise
    than before, by what that is."""

    before: Verdict
    after: Verdict
    bytes_before: int
    bytes_after: int
    changes: Counter[str]

    def __str__(self) -> str:
        changed = ", ".join(f"{count} {what}" for what, count in sorted(self.changes.items()))
        return (
            f"before: {self.before}\nafter: {self.after}\n{self.bytes_before} bytes, {self.bytes_after} left; "
            f"answers that changed: {changed or 'none'}"
        )


def judge_cleaned(judge: Judge, logs: Logs, rng: Random) -> Cleaning:
    """Judge the histories, let the broker clean their logs, and judge what it has left."""
    before = judge.judge(lambda _: logs, sweeps=False)
    segments = {number: _segments(one, rng) for number, one in logs.packs.items()}
    judge.write(segments)
    (judge.folder / "data" / ".kafka_cleanshutdown").unlink()  # its recovery finds aborted transactions
    for _ in range(PASSES):
        (judge.folder / "data" / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        with judge.running(CLEAN):
            wait_until_quiet(judge)
    cleaned = replace(
        logs, packs={number: CleanedPack(one.placed, judge.log_of(number)) for number, one in logs.packs.items()}
    )
    after = judge.judge(lambda _: cleaned)
    return Cleaning(
        before, after, sum(len(one.log) for one in logs.packs.values()),
        sum(len(one.log) for one in cleaned.packs.values()), _changes(before.told, after.told),
    )  # fmt: skip


def _segments(whole: Pack, rng: Random) -> dict[int, bytes]:
    """The pack in several segments, by base offset."""
    starts = sorted({0, *(rng.randrange(len(whole.placed)) for _ in range(3)), len(whole.placed) - 1})
    return {
        0 if start == 0 else whole.placed[start].base_offset: b"".join(whole.batches[start:end])
        for start, end in zip(starts, [*starts[1:], len(whole.placed)], strict=True)
    }


def wait_until_quiet(judge: Judge) -> None:
    """Until the cleaner has nothing more to do: no log has changed for a while."""
    sizes: Mapping[Any, int] = {}
    since = time.monotonic()

    def is_quiet() -> bool:
        nonlocal sizes, since
        now = {}
        for path in judge.folder.glob("data/__consumer_offsets-*/*.log*"):
            with suppress(FileNotFoundError):  # the cleaner swaps and deletes segments
                now[path] = path.stat().st_size
        if now != sizes:
            sizes, since = now, time.monotonic()
        is_done = (judge.folder / "data" / "cleaner-offset-checkpoint").exists()
        return is_done and time.monotonic() - since > _QUIET_S

    until(is_quiet)


def _changes(before: Answers, after: Answers) -> Counter[str]:
    """What differs, by question, but for EXPECTED_CHANGES."""
    found = Counter[str]()
    for (group_id, question), answer in before.items():
        now = after.get((group_id, question))
        if answer != now:
            was_bare = before[group_id, "listed"] == SIMPLE_GROUP and not before[group_id, "fetch"][1]
            is_gone = was_bare and after[group_id, "listed"] is None
            found[SIMPLE_GROUP_GONE if is_gone else question] += 1
    return found
