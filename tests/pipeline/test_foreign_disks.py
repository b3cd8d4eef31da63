"""Disks that somebody else writes: files that shrink while they are read, names that no log has, nothing but damage."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton import cli
from sexton.archive.lineages import OWN_FOLDERS, topic_folder
from sexton.errors import NoCoverage, UsageError
from sexton.job_params import ReplayRequest
from sexton.log.segment import file_bytes, list_segments
from sexton.pipeline import import_log, replay_groups
from sexton.pipeline.import_log import ImportRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, RunRecord
from sexton.settings import environment
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log

LATER_MS = BASE_MS + 3_600_000
LOCAL = pafs.LocalFileSystem()
SHRINKS = """
import os, sys
from pathlib import Path
from sexton.errors import UsageError
from sexton.pipeline import replay_groups
from sexton.job_params import ReplayRequest
from sexton.runs import fold_log
from sexton.runs.folder import RunFolder
from sexton.runs.engine import Engine
from sexton.runs.processes import SerialEngine
from sexton.log import segment

disk, out = map(Path, sys.argv[1:])
(log,) = disk.rglob("*.log")

def shrunk(fs, piece):
    data = whole(fs, piece)  # a map, or the bytes
    os.truncate(log, 5_000)
    return data

def before(fs, piece):
    os.truncate(log, 5_000)
    return whole(fs, piece)

whole = fold_log.slice_bytes
for instead in (shrunk, before):
    fold_log.slice_bytes = instead
    try:
        with SerialEngine(quiet=True) as engine:
            record = replay_groups.run(
                engine, RunFolder(out), ReplayRequest(run_id="r", segments=str(disk), taken_at_ms=%d)
            )
        print(record.counts["committed_offsets"])
    except UsageError as error:
        print(error)
    log.write_bytes(log.with_suffix(".copy").read_bytes())
"""


def disk_in(folder: Path, data: bytes, name: str = f"{0:020d}.log") -> Path:
    home = folder / "__consumer_offsets-0"
    home.mkdir(parents=True, exist_ok=True)
    (home / name).write_bytes(data)
    return folder


def log_of(count: int) -> bytes:
    return encode_log([BatchSpec(entries=(commit(f"group-{number}", number),)) for number in range(count)])


def replay(engine: Engine, out: Path, disk: Path) -> RunRecord:
    request = ReplayRequest(run_id="r", segments=str(disk), taken_at_ms=LATER_MS)
    return replay_groups.run(engine, RunFolder(out), request)


def test_a_file_that_shrinks_while_it_is_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    disk = disk_in(tmp_path / "disk", log_of(1_000))
    (log,) = disk.rglob("*.log")
    log.with_suffix(".copy").write_bytes(log.read_bytes())
    command = [sys.executable, "-c", SHRINKS % LATER_MS, str(disk), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    after, before = done.stdout.splitlines()
    assert after == "1000"  # all of it was read before
    assert before.startswith(f"{log}: the file was truncated while it was read: 5000 of ")


def test_a_file_that_is_gone_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="deleted before it was read"):
        file_bytes(LOCAL, str(tmp_path / "none"), 10)


@pytest.mark.parametrize("name", ["99999999999999999999.log", f"{1 << 63:020d}.log", f"{1 << 62:020d}.log"])
def test_a_name_that_no_log_has_is_passed_over_and_told(small: Engine, tmp_path: Path, name: str) -> None:
    disk = disk_in(disk_in(tmp_path / "disk", log_of(3)), b"bytes", name)
    assert [segment.base_offset for segment in list_segments(LOCAL, str(disk))[0]] == [0]
    record = replay(small, tmp_path / "out", disk)
    assert record.counts["committed_offsets"] == 3
    told = f"skipped, no log_offset is that high: {disk / '__consumer_offsets-0' / name}"
    assert told in record.warnings
    request = ImportRequest(source=str(disk), archive=str(tmp_path / "archive"), taken_at_ms=LATER_MS)
    assert told in import_log.run(request).warnings


@pytest.mark.parametrize("topic_id", [*sorted(OWN_FOLDERS), "Ledger", "a/b", "..", "a b", "", "x" * 200])
def test_a_topic_id_that_names_a_folder_of_the_archive_is_refused(tmp_path, topic_id, capsys):
    disk, archive = disk_in(tmp_path / "disk", log_of(3)), tmp_path / "archive"
    assert cli.main(["archive", "import", str(disk), "--archive", str(archive), "--topic-id", topic_id]) == 2
    assert "topic id" in capsys.readouterr().err
    assert not archive.exists()


def test_a_disk_that_tells_such_a_topic_id_is_refused(tmp_path: Path) -> None:
    disk = disk_in(tmp_path / "disk", log_of(3))
    (disk / "__consumer_offsets-0" / "partition.metadata").write_text("version: 0\ntopic_id: ledger\n")
    with pytest.raises(UsageError, match="that the archive reserves"):
        import_log.run(ImportRequest(source=str(disk), archive=str(tmp_path / "archive"), taken_at_ms=LATER_MS))
    assert topic_folder("root", "cluster", "0IBF2EAIS8C0KzSJMwF2vg").endswith("/0IBF2EAIS8C0KzSJMwF2vg")


@pytest.mark.parametrize(
    "data, told",
    [
        (b"this is no segment of Kafka's. " * 100, "log partition 0: "),
        (log_of(1)[:-7], "bytes of half a batch"),
    ],
    ids=["garbage", "half a batch"],
)
def test_a_wholly_damaged_log_says_what_is_damaged(small: Engine, tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(NoCoverage, match="no record of it could be read") as raised:
        replay(small, tmp_path / "out", disk_in(tmp_path / "disk", data))
    assert told in str(raised.value)
    with pytest.raises(NoCoverage, match="no record was written"):
        replay(small, tmp_path / "empty", disk_in(tmp_path / "nothing", b""))
