"""Whatever happens to an archive is found: by names, by sizes, by bytes; and told apart from what a broker damaged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.archive.verify import CORRUPT, DAMAGED, verify
from sexton.pipeline import fetch_log
from tests.archive.test_writer import archive, batch
from tests.faults.snapshots import Archivist
from tests.kafka.fake_cluster import FakeCluster

LOCAL = pafs.LocalFileSystem()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of three snapshots, with two lineages of log partition 0."""
    monkeypatch.setattr(fetch_log, "SEGMENT_BYTES", 300)
    cluster = FakeCluster(4)
    archivist = Archivist(cluster, tmp_path)
    for number in range(3):
        for log in cluster.logs:
            log.append(20)
        if number == 1:
            cluster.logs[0].elect(cut_at=5)
        archivist.snapshot()
    assert verify(LOCAL, str(tmp_path)).findings == []
    return tmp_path


def segments(kept: Path, lineage: str = "*", part: str = "1") -> list[Path]:
    return sorted(kept.glob(f"fake/*/{part}/{lineage}/*.log"))


def flip(kept: Path) -> None:
    file = segments(kept)[2]
    data = bytearray(file.read_bytes())
    data[12] ^= 1  # outside of Kafka's CRC
    file.write_bytes(data)


def cut(kept: Path) -> None:
    file = segments(kept)[2]
    file.write_bytes(file.read_bytes()[:-1])


def swap(kept: Path) -> None:
    one, other = segments(kept)[1:3]
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)


def of_another_place(kept: Path) -> None:
    (manifest,) = segments(kept)[0].parent.glob(f"{segments(kept)[0].stem}-*.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "log_partition": 0}))


def unlink_pair(file: Path) -> None:
    for manifest in file.parent.glob(f"{file.stem}-*.json"):
        manifest.unlink()
    file.unlink()


def second_manifest(kept: Path) -> None:
    file = segments(kept)[1]
    (manifest,) = file.parent.glob(f"{file.stem}-*.json")
    first, end, size = manifest.stem.split("-")
    shutil.copy(manifest, manifest.with_name(f"{first}-{int(end) + 1:020d}-{size}.json"))


ROT = {
    "bit": (flip, "SHA-256 is"),
    "cut": (cut, "bytes, its manifest says"),
    "swapped": (swap, "its manifest says"),
    "segment gone": (lambda kept: segments(kept)[2].unlink(), "the manifest exists, but its segment is missing"),
    "pair in the middle gone": (lambda kept: unlink_pair(segments(kept)[1]), "a snapshot had this up to"),
    "last pair gone": (lambda kept: unlink_pair(segments(kept)[-1]), "a snapshot had this up to"),
    "lineage gone": (lambda kept: shutil.rmtree(segments(kept)[0].parent), "it is not here"),
    "old lineage gone": (lambda kept: shutil.rmtree(segments(kept, "000000-*", "0")[0].parent), "one is missing"),
    "end of an old lineage gone": (lambda kept: unlink_pair(segments(kept, "000000-*", "0")[-1]), "it follows 000000-"),
    "manifest of another place": (of_another_place, "the manifest of a segment in fake/"),
    "two manifests": (second_manifest, "several manifests of one segment"),
    "bad manifest": (lambda kept: next(segments(kept)[0].parent.glob("*-*-*.json")).write_text("{"), "not JSON"),
    "bad facts": (lambda kept: max((kept / "fake" / "cluster_metadata").iterdir()).write_text("{"), "not JSON"),
    "bad origin": (lambda kept: next(kept.rglob("000001-*/origin.json")).write_text("[]"), "expected a JSON object"),
}


@pytest.mark.parametrize("spoil, said", ROT.values(), ids=ROT)
def test_rot_is_found(kept: Path, spoil: Callable[[Path], object], said: str) -> None:
    spoil(kept)
    found = verify(LOCAL, str(kept)).findings
    assert {finding.kind for finding in found} == {CORRUPT}
    assert any(said in finding.what for finding in found), found


def test_subsets_share_out_every_byte(kept: Path) -> None:
    whole = verify(LOCAL, str(kept))
    parts = [verify(LOCAL, str(kept), subset=(n, 5)) for n in range(1, 6)]
    assert sum(part.read for part in parts) == whole.read == whole.segments
    assert sum(part.read_bytes for part in parts) == whole.read_bytes
    assert max(part.read for part in parts) < whole.read
    flip(kept)
    assert sum(len(verify(LOCAL, str(kept), subset=(n, 5)).findings) for n in range(1, 6)) == 1
    moved = kept.with_name("moved")
    kept.rename(moved)
    assert [verify(LOCAL, str(moved), subset=(n, 5)).read for n in range(1, 6)] == [part.read for part in parts]


def test_names_are_looked_at_in_every_subset(kept: Path) -> None:
    segments(kept)[2].unlink()
    assert all(verify(LOCAL, str(kept), subset=(n, 5)).findings for n in range(1, 6))


def test_one_cluster(kept: Path) -> None:
    archive(LOCAL, str(kept), 0, 2, batch(0), cluster_id="other")
    next(kept.glob("other/**/*.log")).write_bytes(b"")
    assert verify(LOCAL, str(kept), cluster_id="fake").findings == []
    assert len(verify(LOCAL, str(kept)).findings) == 1


def test_progress_is_told(kept: Path) -> None:
    told: list[tuple[int, int]] = []
    found = verify(LOCAL, str(kept), progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (found.read_bytes, found.read_bytes)
    assert told == sorted(told)


def bad_crc() -> bytes:
    data = bytearray(batch(2))
    data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "chunks, said",
    [
        ([batch(0), bad_crc(), batch(4)], "batches with a wrong CRC: 1"),
        ([batch(0), b"\x07" * 90, batch(4)], "places that hold no batch: 1"),
        ([batch(0), batch(50)], "outside of [0, 10): 1"),
        ([batch(0, epoch=4), batch(2, epoch=3)], "the leader epoch goes back: 1"),
    ],
    ids=["crc", "no batch", "another range", "epoch"],
)
def test_what_the_broker_damaged_is_told_apart(tmp_path: Path, chunks: list[bytes], said: str) -> None:
    archive(LOCAL, str(tmp_path), 0, 10, *chunks)
    (finding,) = verify(LOCAL, str(tmp_path)).findings
    assert finding.kind == DAMAGED
    assert said in finding.what


@pytest.mark.parametrize("part", [(0, 5), (6, 5), (1, 0)])
def test_no_such_part(kept: Path, part: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no such part"):
        verify(LOCAL, str(kept), subset=part)
