"""Where the topic is, and how many bytes a transaction keeps from the log cleaner."""

import shutil
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.log.batch import encode_batch
from sexton.log.segment import list_segments
from sexton.transactions.reading import StateLog, held_bytes, on_disk
from tests.transactions.logs import BASE_MS, state_log, value

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
    return on_disk(str(folder), taken_at_ms=BASE_MS, cap_bytes=1 << 20, as_of_ms=None, release=(4, 3))


def test_a_disk_without_the_topic_and_one_with_an_empty_partition(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    for part in range(3):
        (tmp_path / f"__transaction_state-{part}").mkdir()
    (tmp_path / "__transaction_state-2" / f"{0:020d}.log").write_bytes(state_log(("a", value()), ("b", value())))
    (tmp_path / "__transaction_state-1" / f"{0:020d}.log").write_bytes(b"")
    found = read(tmp_path)
    assert found is not None
    known = found.load(lambda work, items: map(work, items))
    assert ([one.transactional_id for one in known.ids], known.is_whole) == (["a", "b"], True)
    shutil.rmtree(tmp_path / "__transaction_state-0")
    found = read(tmp_path)
    assert found is not None
    assert not found.load(lambda work, items: map(work, items)).is_whole  # another broker leads it
