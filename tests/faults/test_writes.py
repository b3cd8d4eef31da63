"""A store that fails in the middle of a snapshot: full disk, quota, read-only, a slow object store.

The snapshot fails in the open, what was archived before is whole, and run again where the store works it ends in the
same files as one that was never disturbed.
"""

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyarrow import fs as pafs

from sexton.archive.verify import verify
from sexton.pipeline import fetch_log, snapshot_log
from tests.faults.snapshots import LOCAL, START_MS, Story, files
from tests.faults.stores import EachPutFailsOnce, Fault, FaultyHandler, objects, s3_server
from tests.fork import fork

CODES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_log, "SEGMENT_BYTES", 400)
    monkeypatch.setattr(fetch_log, "LOG_OFFSETS_A_TASK", 11)


def story(seed: int, folder: Path, *, disturbed: int, disturb: Callable[[Story], None]) -> Story:
    """Two snapshots of a cluster; `disturb` is called in the place of one, before it is taken after all."""
    made = Story(seed, folder)
    for number in range(2):
        made.chapter(number)
        made.archivist.now_ms = START_MS + number * 3_600_000
        if number == disturbed:
            disturb(made)
        made.snapshot()
    return made


def undisturbed(seed: int, folder: Path, counter: Fault) -> tuple[Story, list[tuple[int, int]]]:
    """The two snapshots with nothing amiss, and every place where it can be: (which snapshot, which of its writes)."""
    calls: list[int] = []

    def count(made: Story) -> None:
        calls.append(counter.calls)
        counter.calls = 0

    made = story(seed, folder, disturbed=1, disturb=count)
    calls.append(counter.calls)
    return made, [(number, at) for number, count in enumerate(calls) for at in range(1, count + 1)]


def test_a_fault_at_every_write(full, seed, tmp_path, tell, monkeypatch):
    fault = Fault()
    faulty = pafs.PyFileSystem(FaultyHandler(fault))
    for module in (snapshot_log, fetch_log):
        monkeypatch.setattr(module, "filesystem", lambda uri: (faulty, uri))
    whole, places = undisturbed(seed, tmp_path / "whole", fault)
    assert len(places) > 60
    rng = Random(seed)
    tried = places if full else rng.sample(places, 25)
    for disturbed, at in tried:

        def disturb(made: Story, at: int = at) -> None:
            before = files(made.archivist.archive)
            fault.at, fault.calls, fault.code = at, 0, rng.choice(CODES)
            with pytest.raises(OSError, match=r"\[Errno|Errno"):
                made.snapshot()
            fault.at = None
            now = files(made.archivist.archive)
            assert before.items() <= now.items()  # nothing that was there is changed
            assert {name for name in now if "/cluster_metadata/" in name and name.endswith(".json")} <= set(before)
            assert verify(LOCAL, str(made.archivist.archive)).findings == []

        again = story(seed, tmp_path / f"{at}-{disturbed}", disturbed=disturbed, disturb=disturb)
        assert files(again.archivist.archive) == files(whole.archivist.archive)
        again.archivist.assert_is_the_log()
    tell(f"faults at {len(tried)} of {len(places)} places")


def test_files_may_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's own refusal, in the middle of a segment."""
    monkeypatch.setattr(fetch_log, "SEGMENT_BYTES", 1 << 20)
    whole = story(3, tmp_path / "whole", disturbed=-1, disturb=lambda made: None)

    def disturb(made: Story) -> None:
        child = fork()
        if child == 0:
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
                made.snapshot()
            except OSError as error:
                os._exit(7 if error.errno == errno.EFBIG else 8)
            finally:
                os._exit(9)
        assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7
        assert verify(LOCAL, str(made.archivist.archive)).findings == []

    again = story(3, tmp_path / "again", disturbed=1, disturb=disturb)
    assert files(again.archivist.archive) == files(whole.archivist.archive)


def test_each_put_of_a_snapshot_fails_once(full, seed, tmp_path, monkeypatch):
    """Refused, or carried out with a lost answer: the snapshot fails, and the archive is whole each time."""
    whole = story(seed, tmp_path / "whole", disturbed=-1, disturb=lambda made: None)
    failures = EachPutFailsOnce(every=1 if full else 3)
    with s3_server(failures) as query:
        store, _ = pafs.FileSystem.from_uri(f"s3://key:secret@archive/?{query}")
        store.create_dir("archive")
        for module in (snapshot_log, fetch_log):
            monkeypatch.setattr(module, "filesystem", lambda uri: (store, f"archive{uri}"))

        def attempt(made: Story) -> None:
            assert verify(store, f"archive{made.archivist.archive}").findings == []
            made.snapshot()

        def disturb(made: Story) -> None:
            failures.until_none_fails(lambda: attempt(made))

        again = story(seed, tmp_path / "again", disturbed=1, disturb=disturb)
        assert objects(store, f"archive{again.archivist.archive}") == files(whole.archivist.archive)
    assert failures.failed > 3
