"""A broker's disk cut into pieces for the archive: no byte of the log is left out, whatever it is."""

from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.archive.broker_disk import DiskLog, disk_logs, import_slices, read_slice
from sexton.topics import OFFSETS_TOPIC
from tests.log.samples import batches_of, new_log

LOCAL = pafs.LocalFileSystem()
LOG = new_log(10)
BATCHES = [bytes(batch.data) for batch in batches_of(LOG)]
BASES = [batch.base_offset for batch in batches_of(LOG)]
END = batches_of(LOG)[-1].last_offset + 1
JUNK = b"\xff" * 100
HALF = END.to_bytes(8, "big") + BATCHES[-1][8:50]


def disk(folder: Path, files: dict[int, bytes], *, log_start: int = 0, epochs: str = "") -> DiskLog:
    """One log partition of files by base offset."""
    home = folder / f"{OFFSETS_TOPIC}-0"
    home.mkdir(parents=True)
    for base_offset, data in files.items():
        (home / f"{base_offset:020d}.log").write_bytes(data)
    (folder / "log-start-offset-checkpoint").write_text(f"0\n1\n{OFFSETS_TOPIC} 0 {log_start}\n")
    if epochs:
        (home / "leader-epoch-checkpoint").write_text(epochs)
    return disk_logs(LOCAL, str(folder))[0]


def pieces(log: DiskLog, *, start: int = 0, target_bytes: int = 1) -> list[tuple[int, int, bytes]]:
    found = import_slices(LOCAL, log, start, target_bytes=target_bytes)
    return [(one.first_log_offset, one.next_log_offset, read_slice(LOCAL, one)) for one in found]


@pytest.mark.parametrize("target_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("at", range(len(BATCHES) + 1))
def test_bytes_that_are_no_batch_are_in_one_piece(tmp_path: Path, at: int, target_bytes: int) -> None:
    whole = b"".join([*BATCHES[:at], JUNK, *BATCHES[at:]])
    log = disk(tmp_path, {10: whole, END: HALF})
    found = pieces(log, target_bytes=target_bytes)
    assert b"".join(data for *_, data in found) == whole
    assert [first for first, *_ in found] == [10, *(after for _, after, _ in found[:-1])]
    assert found[-1][1] == log.end == END


@pytest.mark.parametrize("at", range(1, len(BATCHES)))
def test_they_are_taken_where_the_archive_ends_before_them(tmp_path: Path, at: int) -> None:
    """A snapshot had what comes before: it cannot have had them."""
    log = disk(tmp_path, {10: b"".join([*BATCHES[:at], JUNK, *BATCHES[at:]]), END: b""})
    assert pieces(log, start=BASES[at])[0][2] == JUNK + BATCHES[at]


def test_a_file_without_a_batch_is_a_piece(tmp_path: Path) -> None:
    log = disk(tmp_path, {0: JUNK, 10: LOG, END: JUNK, END + 9: b"", END + 20: bytes(50)})
    assert pieces(log, target_bytes=1 << 20) == [
        (0, 10, JUNK),
        (10, END, LOG),
        (END, END + 9, JUNK),
        (END + 9, END + 20, b""),
    ]
    assert pieces(log, start=END + 5)[0] == (END + 5, END + 9, JUNK)
    assert not log.has_bad_tail


@pytest.mark.parametrize("log_start, start", [(0, END), (END + 5, END + 5)])
def test_a_last_file_without_a_batch_has_a_log_offset_to_be_archived_at(tmp_path, log_start, start):
    log = disk(tmp_path, {10: LOG, END: JUNK}, log_start=log_start)
    assert pieces(log, target_bytes=1 << 20)[-1] == (start, start + 1, JUNK)
    assert (log.end, log.has_bad_tail) == (start + 1, True)
    assert pieces(log, start=start + 1) == []


@pytest.mark.parametrize("tail", [b"", bytes(100), HALF], ids=["empty", "zeros", "half a batch"])
def test_a_torn_tail_is_no_log(tmp_path: Path, tail: bytes) -> None:
    log = disk(tmp_path, {10: LOG, END: tail})
    assert pieces(log, target_bytes=1 << 20) == [(10, END, LOG)]
    assert (log.end, log.has_bad_tail) == (END, False)


@pytest.mark.parametrize(
    "whole, is_bad",
    [(LOG + JUNK, True), (LOG + HALF, False), (BATCHES[0] + JUNK + b"".join(BATCHES[1:]), False)],
    ids=["bad", "torn", "before batches"],
)
def test_bad_bytes_behind_the_last_batch_are_told(tmp_path: Path, whole: bytes, is_bad: bool) -> None:
    log = disk(tmp_path, {10: whole})
    assert (log.end, log.has_bad_tail) == (END, is_bad)


def test_an_epoch_that_began_in_a_bad_last_file_began_at_its_end(tmp_path: Path) -> None:
    """Else the archive of it, which knows the epoch before, would end above where this log left that one."""
    log = disk(tmp_path, {10: LOG, END: JUNK}, epochs=f"0\n3\n0 0\n1 10\n4 {END}\n")
    assert log.end_of_epoch(1) == (1, END + 1)
    assert log.end_of_epoch(4) == (4, END + 1)
