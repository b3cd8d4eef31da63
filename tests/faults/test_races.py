"""Two snapshots of one log at once, each in a process of its own: one archive that holds the log once, as its manifests
say, on a disk and on an object store. And the repair of what two could leave behind before."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

from sexton import cli
from sexton.archive.create import create_whole
from sexton.archive.folder import filesystem
from sexton.archive.lineages import list_lineages
from sexton.archive.manifest import Lineage
from sexton.archive.repair import repair
from sexton.archive.verify import verify
from sexton.archive.writer import write_segment
from sexton.settings import environment
from tests.archived import segment_range
from tests.faults.racing import grown
from tests.faults.stores import s3_server, serving
from tests.kafka.fake_cluster import FakeCluster
from tests.tiers import later

pytestmark = pytest.mark.thorough

POINTS = ("snapshot.compared", "segment.before", "segment.half", "segment.after", "manifest.half", "origin.half")


@pytest.fixture(scope="module")
def query() -> Iterator[str]:
    with s3_server() as query:
        yield query


def store(kind: str, tmp_path: Path, query: str, name: str) -> str:
    """A URI where an archive can be made."""
    if kind == "disk":
        return str(tmp_path / "archive")
    uri = f"s3://key:secret@{name}/keep?{query}"
    filesystem(uri)[0].create_dir(name)
    return uri


def start(uri: str, folder: Path, point: str, hidden: int) -> "subprocess.Popen[str]":
    folder.mkdir()
    command = [sys.executable, "-m", "tests.faults.racing", uri, str(folder), point, str(hidden)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    told: dict[str, Any] = json.loads(out)
    return told


def held(uri: str) -> dict[int, bytes]:
    """What the archive answers with, by log partition; each has one lineage."""
    fs, root = filesystem(uri)
    (topic,) = [name for name in _names(fs, f"{root}/fake") if name != "cluster_metadata"]
    found = {}
    for part, histories in list_lineages(fs, root, cluster_id="fake", topic_id=topic).items():
        (history,) = histories
        assert not history.detached
        data = b""
        for link in history.segments:
            with fs.open_input_stream(link.segment_path) as file:
                data += file.read()
        found[part] = data
    return found


def _names(fs: pafs.FileSystem, folder: str) -> list[str]:
    return [info.base_name for info in fs.get_file_info(pafs.FileSelector(folder))]


@pytest.mark.parametrize(
    "kind, point, hidden",
    later(
        pytest.mark.full,
        [
            *(("disk", point, 3) for point in POINTS),
            ("disk", "segment.after", 0),
            *(("s3", point, 3) for point in ("segment.before", "segment.after", "manifest.half")),
        ],
        but=[("disk", "segment.half", 3), ("disk", "segment.after", 0), ("s3", "manifest.half", 3)],
    ),
)
def test_two_snapshots_at_once(kind: str, point: str, hidden: int, tmp_path: Path, query: str) -> None:
    """The first stops at a point until the second is done. It has seen `hidden` batches less; then they are there."""
    uri = store(kind, tmp_path, query, f"race-{POINTS.index(point)}")
    first = start(uri, tmp_path / "first", point, hidden)
    until = time.monotonic() + 120
    while not (tmp_path / "first" / "reached").exists():
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    second = end(start(uri, tmp_path / "second", "none", 0))
    (tmp_path / "first" / "go").touch()
    told = end(first)
    assert (told["warnings"], second["warnings"]) == ([], [])
    fs, root = filesystem(uri)
    assert verify(fs, root).findings == []
    assert held(uri) == {log.log_partition: b"".join(log.batches) for log in grown().logs}
    if kind == "disk":
        assert not [path for path in (tmp_path / "archive").rglob("*") if path.name.endswith(".part")]


@pytest.mark.parametrize("where", ["uri", "environment", "environment, with boto3", "profile, with boto3"])
def test_a_login_is_found_where_pyarrow_finds_it(where, tmp_path, monkeypatch):
    """One in the URI is not mixed with that of the environment, which a session token would spoil."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "theirs" if where == "uri" else "ours")
    if "profile" in where:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name)
        (tmp_path / "credentials").write_text("[work]\naws_access_key_id = ours\naws_secret_access_key = s\n")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
        monkeypatch.setenv("AWS_PROFILE", "work")
    if "boto3" not in where:
        monkeypatch.setitem(sys.modules, "boto3", None)
        monkeypatch.delitem(sys.modules, "obstore.auth.boto3", raising=False)
    asked: list[str] = []

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
        asked.append(f"{environ['HTTP_AUTHORIZATION'].partition('/')[0].partition('=')[2]} {token}")
        start_response("200 OK", [("ETag", "1")])
        return []

    with serving(answer) as place:
        login = "ours:secret@" if where == "uri" else ""
        fs, root = filesystem(f"s3://{login}keep/a?endpoint_override={place}&scheme=http&region=us-east-1")
        assert create_whole(fs, f"{root}/file", b"first")
    assert asked == ["ours ours" if "environment" in where else "ours None"]


@pytest.mark.parametrize(
    "uri, path",
    [
        ("gs://anonymous@keep/a?endpoint_override={place}&scheme=http", "/keep/a%2Fa%20b"),
        ("abfs://one@{place}/keep/a?enable_tls=false&sig=s%2Fx", "/one/keep/a/a%20b?enable_tls=false&sig=s%2Fx"),
    ],
    ids=["gcs", "azure"],
)
def test_gcs_and_azure_create_under_a_condition(uri: str, path: str) -> None:
    """Of a stand-in that knows PUT and its conditions: what is asked of the true ones."""
    asked: list[str] = []

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        asked.append(environ["RAW_URI"])
        asks = (environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH"), environ.get("HTTP_IF_NONE_MATCH"))
        is_new_only = asks in (("0", None), (None, "*"))
        is_taken = environ["REQUEST_METHOD"] != "PUT" or not is_new_only or len(asked) > 1
        headers = [("ETag", "1"), ("x-goog-generation", "1")]
        start_response("412 Precondition Failed" if is_taken else "201 Created", headers)
        return []

    with serving(answer) as place:
        fs, root = filesystem(uri.format(place=place))
        assert create_whole(fs, f"{root}/a b", b"first")
        assert not create_whole(fs, f"{root}/a b", b"second")
    assert asked == [path, path]


@pytest.mark.parametrize("kind", ["disk", "s3"])
def test_a_file_is_made_once(kind: str, tmp_path: Path, query: str) -> None:
    fs, root = filesystem(store(kind, tmp_path, query, "once"))
    assert create_whole(fs, f"{root}/a/file", b"first")
    assert not create_whole(fs, f"{root}/a/file", b"second")
    with fs.open_input_stream(f"{root}/a/file") as file:
        assert file.read() == b"first"
    assert _names(fs, f"{root}/a") == ["file"]


def test_where_no_file_can_be_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.archive.create._OPEN_FILES", tmp_path / "none")
    fs, path = pafs.LocalFileSystem(), str(tmp_path / "file")
    assert create_whole(fs, path, b"first")
    assert not create_whole(fs, path, b"second")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"first")]


# --- what a dead writer has left, and the repair

LINEAGE = Lineage(ordinal=0, start_log_offset=0)
PLACE = {"cluster_id": "fake", "topic_id": "topic", "log_partition": 0, "lineage": LINEAGE}
TOLD = {"taken_at_ms": 1, "high_watermark": 1_000, "last_stable_offset": 1_000}


@pytest.fixture
def cluster() -> FakeCluster:
    return grown()


def archived(folder: Path, batches: list[bytes], stop: int) -> Path:
    """Archive batches from 0 on; where the segment is."""
    write_segment(
        pafs.LocalFileSystem(),
        str(folder),
        batches,
        segment_range(**PLACE, **TOLD, first_log_offset=0, end_log_offset=stop),
    )
    return folder / "fake" / "topic" / "0" / LINEAGE.name / f"{0:020d}.log"


def base(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big")


@pytest.mark.parametrize("left", [5, 15, 0], ids=["the beginning", "more", "nothing"])
def test_a_segment_that_a_dead_writer_left_is_taken_over(tmp_path: Path, cluster: FakeCluster, left: int) -> None:
    log, ours = cluster.logs[0].batches, 10
    segment = archived(tmp_path, log[:left], 1_000)
    next(segment.parent.glob("*.json")).unlink()
    archived(tmp_path, log[:ours], base(log[ours]))
    assert verify(pafs.LocalFileSystem(), str(tmp_path)).findings == []
    assert segment.read_bytes() == b"".join(log[: left or ours])
    (manifest,) = segment.parent.glob("*.json")
    assert int(manifest.name.split("-")[1]) == base(log[left or ours])
    kept = [path.read_bytes() for path in segment.parent.glob("aside/*")]
    assert kept == ([] if left else [b""])


def test_a_segment_that_the_log_has_left_is_kept_aside(tmp_path: Path, cluster: FakeCluster) -> None:
    log = cluster.logs[0].batches
    other = cluster.logs[1].batches
    segment = archived(tmp_path, other[:4], base(other[4]))
    next(segment.parent.glob("*.json")).unlink()
    archived(tmp_path, log[:10], base(log[10]))
    assert segment.read_bytes() == b"".join(log[:10])
    assert [path.read_bytes() for path in segment.parent.glob("aside/*")] == [b"".join(other[:4])]
    assert verify(pafs.LocalFileSystem(), str(tmp_path)).findings == []


@pytest.mark.parametrize(
    "held_batches, has_more, becomes",
    [(12, False, 12), (12, True, 10), (6, False, 6), (6, True, 6)],
    ids=["more", "more than fits before the next", "less", "less before the next"],
)
def test_repair_describes_whole_batches(tmp_path, cluster, capsys, held_batches, has_more, becomes):
    log = cluster.logs[0].batches
    segment = archived(tmp_path, log[:10], base(log[10]))
    if has_more:
        told = {**PLACE, **TOLD, "first_log_offset": base(log[10]), "end_log_offset": base(log[15])}
        write_segment(pafs.LocalFileSystem(), str(tmp_path), log[10:15], segment_range(**told))
    before = b"".join(log[:held_batches])
    segment.write_bytes(before)
    assert cli.main(["archive", "verify", "--archive", str(tmp_path)]) == 3
    assert "archive verify --repair" in capsys.readouterr().err
    code = cli.main(["archive", "verify", "--archive", str(tmp_path), "--repair"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "has a manifest of its own now" in out
    assert segment.read_bytes() == b"".join(log[:becomes])
    assert before in {segment.read_bytes(), *(path.read_bytes() for path in segment.parent.glob("aside/*"))}
    assert repair(pafs.LocalFileSystem(), str(tmp_path)) == []


def test_repair_moves_aside_what_is_not_what_was_put_in(tmp_path: Path, cluster: FakeCluster) -> None:
    log = cluster.logs[0].batches
    segment = archived(tmp_path, log[:10], base(log[10]))
    corrupt = bytearray(segment.read_bytes())
    corrupt[15] ^= 1  # the leader epoch, which no CRC covers
    segment.write_bytes(corrupt)
    fs = pafs.LocalFileSystem()
    assert len(repair(fs, str(tmp_path))) == 2
    assert not segment.exists()
    assert bytes(corrupt) in {path.read_bytes() for path in segment.parent.glob("aside/*")}
    archived(tmp_path, log[:10], base(log[10]))  # as the next snapshot does
    assert verify(fs, str(tmp_path)).findings == []


def test_repair_takes_the_manifest_away_that_is_wrong(tmp_path: Path, cluster: FakeCluster) -> None:
    log = cluster.logs[0].batches
    segment = archived(tmp_path, log[:10], base(log[10]))
    (manifest,) = segment.parent.glob("*.json")
    told = json.loads(manifest.read_text())
    wrong = {**told, "next_log_offset": base(log[4]), "size_bytes": 17}
    manifest.with_name(f"{0:020d}-{wrong['next_log_offset']:020d}-17.json").write_text(json.dumps(wrong))
    fs = pafs.LocalFileSystem()
    assert verify(fs, str(tmp_path)).findings
    assert len(repair(fs, str(tmp_path))) == 1
    assert verify(fs, str(tmp_path)).findings == []
    assert manifest.exists()
