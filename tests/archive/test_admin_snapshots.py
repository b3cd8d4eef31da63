"""Admin snapshots in the archive: written once, read for an instant, refused when they are not what was written."""

from pathlib import Path

import pytest

from sexton.archive.admin_snapshots import COVERED_MS, AdminSnapshots
from sexton.archive.verify import verify
from sexton.errors import UsageError
from sexton.failpoints import FAILPOINTS
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import CLUSTER, Archive
from tests.fork import killed

START_MS = 1_790_000_000_000
KEY = ("g", "t", 0)


def test_written_and_read(archive: Archive) -> None:
    snapshot = write_snapshot(archive, START_MS, {"g": {}, "h": {"state": "Stable"}}, {KEY: 5})
    assert AdminSnapshots(archive.fs, archive.root, CLUSTER).manifest(START_MS) == snapshot
    assert snapshot.rows == {"groups": 2, "members": 0, "offsets": 1}
    groups = (
        AdminSnapshots(archive.fs, archive.root, CLUSTER).read_table(snapshot, "groups").select(["group_id", "state"])
    )
    assert groups.to_pylist() == [{"group_id": "g", "state": "Empty"}, {"group_id": "h", "state": "Stable"}]
    assert verify(archive.fs, archive.root).findings == []


def test_two_snapshots_at_one_instant(archive: Archive) -> None:
    write_snapshot(archive, START_MS, {}, {KEY: 1})
    second = write_snapshot(archive, START_MS, {}, {KEY: 2})
    assert AdminSnapshots(archive.fs, archive.root, CLUSTER).instants == [START_MS, START_MS + 1]
    assert second.metadata.taken_at_ms == START_MS + 1
    offsets = AdminSnapshots(archive.fs, archive.root, CLUSTER).read_table(second, "offsets")
    assert offsets["committed_offset"].to_pylist() == [2]


def test_the_snapshot_that_answers_for_an_instant(archive: Archive) -> None:
    for at_ms in (START_MS, START_MS + COVERED_MS * 3):
        write_snapshot(archive, at_ms, {}, {})

    def found(as_of_ms: int | None) -> int | None:
        snapshot = AdminSnapshots(archive.fs, archive.root, CLUSTER).at(as_of_ms)
        return None if snapshot is None else snapshot.taken_at_ms

    assert found(None) == START_MS + COVERED_MS * 3
    assert found(START_MS) == found(START_MS - COVERED_MS) == START_MS
    assert found(START_MS + 1) is found(START_MS - COVERED_MS - 1) is None


@pytest.mark.parametrize("name", ["groups", "members", "offsets"])
def test_a_file_that_is_not_what_was_written(archive: Archive, name: str) -> None:
    snapshot = write_snapshot(archive, START_MS, {"g": {}}, {KEY: 5})
    (file,) = Path(archive.root).rglob(f"{name}.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(UsageError, match=r"SHA-256 is not the one in its manifest"):
        AdminSnapshots(archive.fs, archive.root, CLUSTER).read_table(snapshot, name)
    assert [each.where for each in verify(archive.fs, archive.root).findings] == [str(file)]
    file.unlink()
    (finding,) = verify(archive.fs, archive.root).findings
    assert finding.what == "the manifest exists, but this file is missing"


@pytest.mark.parametrize("name", sorted(name for name in FAILPOINTS if name.startswith("admin_snapshot")))
@pytest.mark.parametrize("times", [1, 3])
def test_a_snapshot_killed_anywhere(archive: Archive, name: str, times: int) -> None:
    """Killed, it does not exist, or is whole; the next one is whole, and nothing of the dead one is found wrong."""
    is_killed = killed(lambda: write_snapshot(archive, START_MS, {"g": {}}, {KEY: 5}), f"{name}:{times}")
    assert is_killed == (times == 1 or "manifest" not in name)
    is_whole = not is_killed or name == "admin_snapshot_manifest.after"
    assert AdminSnapshots(archive.fs, archive.root, CLUSTER).instants == ([START_MS] if is_whole else [])
    write_snapshot(archive, START_MS, {"g": {}}, {KEY: 5})
    instants = AdminSnapshots(archive.fs, archive.root, CLUSTER).instants
    snapshot = AdminSnapshots(archive.fs, archive.root, CLUSTER).manifest(instants[-1])
    assert AdminSnapshots(archive.fs, archive.root, CLUSTER).read_table(snapshot, "offsets").num_rows == 1
    assert verify(archive.fs, archive.root).findings == []
