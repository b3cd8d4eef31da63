"""A real broker's sweeps to the millisecond, live (recordings of it and of older ones: tests/golden/sweep-instants)."""

from pathlib import Path

import pytest

from sexton.coordinator.loading import load
from sexton.coordinator.profiles import NEWEST
from sexton.java import JavaHome
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests import plain_sweep
from tests.coordinator.golden import CAP_BYTES
from tests.coordinator.sweep_instants import COMMIT, EXPIRE, RETENTION_MS, Sweep, sweeps_of
from tests.integration.sweep_instants import SETTINGS, Recorded, record

pytestmark = pytest.mark.thorough

ATTEMPTS = 5


def separating(recorded: Recorded, kind: str) -> list[tuple[int, Sweep]]:
    """Sweeps of offsets of that kind, with their place among `recorded`, whose newest was due at their very stamp."""
    return [
        (place, sweep)
        for place, (ladder, log) in enumerate(recorded)
        if ladder.kind == kind
        for sweep in sweeps_of(log, ladder)
        if sweep.newest_due_ms == sweep.stamp_ms
    ]


def seen(folder: Path, java: JavaHome, kafka_jars: list[Path]) -> Recorded:
    """Sweeps of which one of each kind separates, if a machine that is busy lets a broker be quick enough at last."""
    for attempt in range(ATTEMPTS):
        broker = EmbeddedBroker(folder / str(attempt), port=free_port(), java=java, jars=kafka_jars, settings=SETTINGS)
        recorded = record(broker, sweep_s=20, is_enough=is_enough)
        if is_enough(recorded):
            break
    return recorded


def is_enough(recorded: Recorded) -> bool:
    return all(separating(recorded, kind) for kind in (EXPIRE, COMMIT))


@pytest.mark.full
def test_a_sweep_takes_what_is_due_in_the_millisecond_of_its_instant(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path]
) -> None:
    """And nothing that is due later: Sexton's verdicts at the instant of that sweep are the broker's."""
    recorded = seen(tmp_path, java, kafka_jars)
    for ladder, log in recorded:
        assert all(sweep.newest_due_ms <= sweep.stamp_ms for sweep in sweeps_of(log, ladder))
    for kind in (EXPIRE, COMMIT):
        place, sweep = separating(recorded, kind)[0]
        ladder = recorded[place][0]
        loaded = load([ladder.segment()], cap_bytes=CAP_BYTES, profile=NEWEST)
        planned = plain_sweep.sweep(loaded, retention_ms=RETENTION_MS, now_ms=sweep.stamp_ms)
        due_ms = [ladder.first_due_ms + tombstone.partition for tombstone in planned if tombstone.partition is not None]
        assert sorted(due_ms) == [*range(ladder.first_due_ms, sweep.newest_due_ms + 1)]
