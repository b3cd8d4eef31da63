"""Where the topic is, how many partitions it has, and how many bytes a transaction keeps from the log cleaner."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.coordinator.partitioner import partition_of
from sexton.log.batch import encode_batch
from sexton.log.segment import list_segments
from sexton.runs.source import LogSource
from sexton.transactions.audit import audit
from sexton.transactions.reading import StateLog, held_bytes, on_disk
from sexton.transactions.verdicts import KnownStates, TransactionClocks
from tests.transactions.logs import BASE_MS, state_log, value
from tests.transactions.test_verdicts import OPEN

BATCHES = [encode_batch([(b"k", b"v" * 10 * n)] * 3, base_offset=3 * n, timestamp_ms=BASE_MS) for n in range(6)]
SIZES = [len(batch) for batch in BATCHES]


@pytest.mark.parametrize("split", [1, 3, 6])
def test_held_bytes_count_from_the_batch_of_the_first_record(tmp_path: Path, split: int) -> None:
    """Whatever segments the log is in."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for first in range(0, 6, split):
        (folder / f"{3 * first:020d}.log").write_bytes(b"".join(BATCHES[first : first + split]))
    segments = list_segments(pafs.LocalFileSystem(), str(tmp_path))[0]
    places = [0, 1, 3, 8, 9, 17, 18]
    assert held_bytes(pafs.LocalFileSystem(), segments, places) == {place: sum(SIZES[place // 3 :]) for place in places}


def read(folder: Path) -> StateLog | None:
    return on_disk([str(folder)], taken_at_ms=BASE_MS, as_of_ms=None, release=(4, 3))


def disk(root: Path, names: Iterable[str], *, count: int, folders: Iterable[int]) -> StateLog:
    """Some folders of a topic of so many partitions, with ids that all are Empty."""
    homes = {name: partition_of(name, count) for name in names}
    for part in folders:
        folder = root / f"__transaction_state-{part}"
        folder.mkdir(parents=True)
        here = [(name, value()) for name, home in homes.items() if home == part]
        (folder / f"{0:020d}.log").write_bytes(state_log(*here))
    found = read(root)
    assert found is not None
    return found


def load(log: StateLog) -> KnownStates:
    return log.load(lambda work, items: map(work, items))


MANY, FEW = [f"app-{n}" for n in range(300)], ["payments", "orders"]


def test_a_disk_without_the_topic_and_one_without_a_record(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    for part in range(3):
        (tmp_path / f"__transaction_state-{part}").mkdir()
    (tmp_path / "__transaction_state-1" / f"{0:020d}.log").write_bytes(b"")
    found = read(tmp_path)
    assert found is not None
    assert ([*load(found).ids], load(found).partition_count) == ([], None)


COUNTS = {
    "all": (MANY, 50, range(50), 50, True),
    "without the first": (MANY, 50, range(1, 50), 50, False),
    "without the last": (MANY, 50, range(49), 50, False),
    "some": (MANY, 50, [3, 17, 41], 50, False),
    "one of one": (MANY, 1, [0], 1, True),
    "the first ten": (MANY, 50, range(10), None, False),
    "one of fifty": (MANY, 50, [0], None, False),
    "few ids": (FEW, 50, range(50), None, False),
}


@pytest.mark.parametrize(("names", "count", "folders", "proven", "is_whole"), COUNTS.values(), ids=COUNTS)
def test_how_many_partitions_there_are_is_known_where_the_ids_prove_it(
    tmp_path: Path, names: list[str], count: int, folders: Iterable[int], proven: int | None, is_whole: bool
) -> None:
    """Ids of the first ten of fifty partitions are where they would be of ten, too."""
    known = load(disk(tmp_path, names, count=count, folders=folders))
    assert (known.partition_count, known.is_whole) == (proven, is_whole)


def test_a_topic_that_was_given_more_partitions(tmp_path: Path) -> None:
    """What was written before is where no coordinator looks for it now."""
    disk(tmp_path, MANY[:30], count=3, folders=range(3))
    grown = disk(tmp_path, MANY[30:], count=5, folders=range(3, 5))
    assert load(grown).partition_count is None


def test_a_copy_of_the_first_partitions_gives_no_command_that_aborts(tmp_path: Path) -> None:
    log = disk(tmp_path, MANY, count=50, folders=range(10))
    found = audit(
        LogSource(uri=str(tmp_path), segments={}),
        [replace(OPEN, producer_id=77)],
        log,
        TransactionClocks(read_until_ms=BASE_MS + 600_000, slack_ms=0),
        release=(4, 3),
        expiration_ms=1,
        spread=lambda work, items: map(work, items),
    )
    (row,) = found.transactions.to_pylist()
    assert (row["verdict"], row["reason"], row["abort_arguments"]) == ("unknown", "not_read", None)
    assert found.notes == [
        "the number of partitions of __transaction_state is not known, nor proven by the transactional ids that "
        "were read: partitions that were not read may have the ids of more producers"
    ]
