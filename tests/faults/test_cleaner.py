"""A log that is compacted between snapshots and in the middle of one: the archive gives the offsets of the whole log.

The cleaner takes tombstones and markers once delete.retention.ms has passed; an archive that nobody added to for that
long begins anew, and one that was in time lacks nothing.
"""

from pathlib import Path
from random import Random

import pytest

from sexton.kernels.results import finish
from sexton.pipeline import fetch_log
from tests.campaign import checks
from tests.campaign.closed_form import closed_form
from tests.campaign.compaction import compact
from tests.campaign.histories import history
from tests.campaign.packs import Pack, Placed, pack
from tests.faults.snapshots import Archivist, archived
from tests.kafka.fake_cluster import FakeCluster
from tests.kernels.compare import fold_bytes

pytestmark = pytest.mark.thorough

HISTORIES_A_LOG = 4
DAY_MS = 86_400_000


class InTime(Random):
    """Draws of a cleaner that takes neither tombstones nor markers, which it decides by `random()`."""

    def random(self) -> float:
        return 0.9

    def getrandbits(self, bits: int) -> int:  # what `choice` draws by
        return super().getrandbits(bits)


class CleanedLog:
    """A log of random histories behind a cluster: written batch by batch, cleaned whenever it is told."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        histories = [history(seed, index) for index in range(self.rng.randint(1, HISTORIES_A_LOG))]
        self.whole = pack(histories, self.rng)
        self.cluster = FakeCluster(seed, log_partitions=1)
        self.cluster.response_bytes = 1 + len(self.whole.log) // 10
        self._written: list[Placed] = []

    @property
    def left(self) -> int:
        return len(self.whole.placed) - len(self._written)

    def write(self, count: int) -> None:
        begin = len(self._written)
        self._written = list(self.whole.placed[: begin + count])
        for batch in self.whole.batches[begin : begin + count]:
            self.cluster.logs[0].append_raw(batch)

    def clean(self, cleaner: Random) -> None:
        """The log as the cleaner leaves it; the last batch of the active segment always stays."""
        if len(self._written) > 1:
            cleaned = compact(Pack(self._written[:-1]), cleaner)
            self.cluster.logs[0].batches = [*cleaned.batches, self.whole.batches[len(self._written) - 1]]


def run_one(seed: int, archive: Path) -> int:
    """Snapshots at random places of one log that is cleaned between and within them; returns how often it was."""
    log, cleanings = CleanedLog(seed), 0
    archivist = Archivist(log.cluster, archive)
    rng = log.rng
    while log.left:
        log.write(rng.randint(1, max(1, len(log.whole.placed) // 3)))
        slept = bool(archivist.taken) and rng.random() < 0.2
        archivist.now_ms += 2 * DAY_MS if slept else 0
        cleaner: Random = rng if slept or not archivist.taken else InTime(rng.getrandbits(32))
        if rng.random() < 0.7:
            log.clean(cleaner)
            cleanings += 1
        left = rng.randint(8, 16)

        def in_the_middle(request: object) -> None:
            nonlocal left, cleanings
            left -= 1
            if left == 0:
                log.clean(InTime(rng.getrandbits(32)))
                cleanings += 1

        log.cluster.before_request = in_the_middle
        archivist.snapshot()
        log.cluster.before_request = lambda request: None
    (newest,) = archivist.newest().values()
    tables = finish(fold_bytes(archived(newest)), log_partition=0, partition_count=None)
    told, expected = checks._told_by_tables(tables), closed_form(log.whole.placed, checks.NEWEST)
    assert (told.committed, told.pending) == (expected.committed, expected.pending), seed
    return cleanings


def test_offsets_outlive_compaction(full, seed, tmp_path, tell, monkeypatch):
    monkeypatch.setattr(fetch_log, "SEGMENT_BYTES", 2_000)
    monkeypatch.setattr(fetch_log, "LOG_OFFSETS_A_TASK", 50)
    count = 1000 if full else 40
    cleanings = sum(run_one(seed + number, tmp_path / str(number)) for number in range(count))
    assert cleanings > count
    tell(f"{count} histories, cleaned {cleanings} times: no offset differs")
