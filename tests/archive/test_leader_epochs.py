"""From where on the present leader has written a log partition, by the epochs of archived batches and of snapshots."""

from dataclasses import replace
from pathlib import Path

import pytest

from sexton.archive.cluster_metadata import metadata_at, write_metadata
from sexton.archive.leader_epochs import led_from
from sexton.log.batch import encode_batch
from tests.archived import CLUSTER, TOPIC, Archive

HOUR_MS, START_MS = 3_600_000, 1_790_000_000_000


def batch(log_offset: int, leader_epoch: int) -> bytes:
    return encode_batch([(b"\0\1", b"")], base_offset=log_offset, timestamp_ms=START_MS, leader_epoch=leader_epoch)


class Led(Archive):
    """As Archive; a snapshot finds the log partition led in an epoch."""

    epoch, leader = 0, 7

    def _facts(self, taken_at_ms: int):  # type: ignore[no-untyped-def]
        facts = super()._facts(taken_at_ms)
        logs = {
            part: replace(one, leader_epoch=self.epoch, leader=self.leader)
            for part, one in facts.log_partitions.items()
        }
        return replace(facts, log_partitions=logs)

    def led_in(self, epoch: int, hours: int, *batches: bytes) -> None:
        self.epoch = epoch
        self.snapshot(START_MS + hours * HOUR_MS, {0: b"".join(batches)} if batches else {})


@pytest.fixture
def archive(tmp_path: Path) -> Led:
    """Epoch 4 wrote offsets 0 to 2, epoch 5 from 3 on; epoch 6 was seen at the fourth snapshot, and wrote nothing."""
    made = Led(tmp_path)
    made.led_in(4, 0, batch(0, 4), batch(1, 4))
    made.led_in(5, 1, batch(2, 4), batch(3, 5))
    made.led_in(5, 2, batch(4, 5))
    made.led_in(6, 3)
    return made


def start(archive: Led, hours: float, *, back_to: int = 0, log_partition: int = 0, topic_id: str = TOPIC) -> int | None:
    place = {"cluster_id": CLUSTER, "topic_id": topic_id, "log_partition": log_partition, "back_to": back_to}
    found = led_from(archive.fs, archive.root, as_of_ms=START_MS + int(hours * HOUR_MS), **place)
    assert found is None or found[0] == archive.leader
    return None if found is None else found[1]


@pytest.mark.parametrize(("hours", "log_offset"), [(-0.5, 0), (0.5, 3), (1.5, 3), (2.5, 5), (9, 5)])
def test_by_the_snapshot_that_settles_the_instant(archive: Led, hours: float, log_offset: int) -> None:
    assert start(archive, hours) == log_offset


def test_no_further_back_than_is_asked(archive: Led) -> None:
    assert start(archive, 1.5, back_to=4) == 4
    assert start(archive, 1.5, back_to=9) == 5


def test_what_nobody_recorded(archive: Led) -> None:
    assert start(archive, 1.5, log_partition=1) is None
    assert start(archive, 1.5, topic_id="another") is None
    recorded = metadata_at(archive.fs, archive.root, CLUSTER, START_MS + 3 * HOUR_MS)
    unknown = {part: replace(one, leader_epoch=-1) for part, one in recorded.log_partitions.items()}
    write_metadata(
        archive.fs, archive.root, replace(recorded, taken_at_ms=START_MS + 4 * HOUR_MS, log_partitions=unknown)
    )
    assert start(archive, 3.5) is None
