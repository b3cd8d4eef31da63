"""A folder, on a disk and in an object store: the same files, whole or not there."""

import hashlib
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from sexton.archive.folder import Folder, filesystem
from sexton.errors import UsageError


@pytest.fixture(params=["disk", "store"])
def folder(request: pytest.FixtureRequest, query: str, tmp_path: Path) -> Folder:
    if request.param == "disk":
        return Folder(tmp_path / "runs", "a", "b")
    bucket = request.node.name.replace("_", "-").replace("[", "-").replace("]", "").lower()[:60]
    uri = f"s3://key:canary@{bucket}/runs?{query}"
    filesystem(uri)[0].create_dir(bucket)
    return Folder(uri, "a", "b")


def test_what_is_written_is_there(folder: Folder) -> None:
    folder.write(b"1", "x", "y.json")
    folder.write(pa.py_buffer(b"22"), "z")
    folder.write(b"333", "z")
    assert folder.sizes() == {"x/y.json": 1, "z": 3}
    assert folder.sub("x").files() == ["y.json"]
    assert (folder.read("z"), folder.sub("x").read("y.json")) == (b"333", b"1")
    assert folder.open("z").read() == b"333"
    assert [folder.exists("z"), folder.exists("x"), folder.exists("none")] == [True, False, False]


def test_it_travels_by_its_name(folder: Folder) -> None:
    folder.write(b"1", "z")
    there = pickle.loads(pickle.dumps(folder))
    assert there == folder
    assert there.read("z") == b"1"
    assert Folder(folder.uri).read("z") == b"1"
    assert "canary" not in str(folder)


def test_what_is_removed_is_gone(folder: Folder) -> None:
    for name in ("x/1", "x/2", "z"):
        folder.write(b"", name)
    folder.remove("x")
    assert folder.files() == ["z"]
    for name in ("z", "none"):
        folder.remove(name)
    assert folder.files() == []
    folder.sub("never").remove()
    assert folder.sub("never").files() == []


def test_what_is_not_there(folder: Folder) -> None:
    with pytest.raises(UsageError, match="no such file"):
        folder.read("none")
    with pytest.raises(FileNotFoundError):
        folder.open("none")


def test_half_a_file_is_none(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(b"1", "z")
    (tmp_path / ".z.0a0b0c0d.part").write_bytes(b"1")
    assert folder.files() == ["z"]


def test_what_is_private(tmp_path: Path) -> None:
    Folder(tmp_path).write(b"1", "z", is_private=True)
    Folder(tmp_path).write(b"2", "z", is_private=True)
    assert (tmp_path / "z").stat().st_mode & 0o777 == 0o600


def test_hashed_files_alone_are_read(folder: Folder) -> None:
    for name in ("good", "changed", "other"):
        folder.write(b"1", name)
    sha256 = hashlib.sha256(b"1").hexdigest()
    hashed = folder.hashed(dict.fromkeys(("good", "changed", "gone"), sha256))
    folder.write(b"2", "changed")
    assert hashed.files() == ["good", "changed", "gone"]
    assert hashed.open("good").read() == b"1"
    with pytest.raises(UsageError, match=r"changed: its SHA-256 differs"):
        hashed.open("changed")
    with pytest.raises(UsageError, match="gone: no such file"):
        hashed.open("gone")


def test_only_a_disk_is_local(tmp_path: Path, query: str) -> None:
    assert Folder(tmp_path, "a").local == tmp_path / "a"
    with pytest.raises(UsageError, match="not on a disk"):
        _ = Folder(f"s3://key:canary@bucket/a?{query}").local
