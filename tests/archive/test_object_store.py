"""The archive on an object store, over the real protocol: everything that works on a disk works there."""

import json
from pathlib import Path

import pytest

from sexton import cli
from sexton.archive.folder import filesystem
from sexton.archive.verify import CORRUPT, verify
from sexton.kafka.client import ClientConfig
from sexton.pipeline import import_log, snapshot_log
from sexton.pipeline.import_log import ImportRequest
from sexton.pipeline.snapshot_log import SnapshotRequest
from tests.archived import list_archived
from tests.faults.snapshots import START_MS, InlineEngine, disk_of, topics_of
from tests.faults.stores import objects
from tests.kafka.fake_cluster import FakeCluster


@pytest.fixture
def uri(query: str, request: pytest.FixtureRequest) -> str:
    """A bucket of its own; the credentials are in the URI, as a user may write them."""
    bucket = request.node.name.replace("_", "-").lower()[:60].strip("-")
    uri = f"s3://key:canary-secret@{bucket}/keep?{query}"
    fs, path = filesystem(uri)
    fs.create_dir(path.partition("/")[0])
    return uri


def grown(seed: int = 1) -> FakeCluster:
    cluster = FakeCluster(seed)
    for log in cluster.logs:
        log.append(20)
        log.elect()
        log.append(5)
    return cluster


def take(cluster: FakeCluster, uri: str, *, now_ms: int = START_MS) -> snapshot_log.TakenSnapshot:
    request = SnapshotRequest(config=ClientConfig(bootstrap_servers="fake:1"), archive=uri)
    engine = InlineEngine(cluster.rng)
    return snapshot_log.run(engine, request, now_ms=lambda: now_ms, connect=cluster.connect)  # type: ignore[arg-type]


def test_damage(uri: str) -> None:
    take(grown(), uri)
    fs, root = filesystem(uri)
    segment = list_archived(fs, root)[0][0]
    with fs.open_input_stream(segment.path) as file:
        data = bytearray(file.read())
    data[12] ^= 1
    with fs.open_output_stream(segment.path) as file:
        file.write(bytes(data))
    (finding,) = verify(fs, root).findings
    assert (finding.kind, finding.where) == (CORRUPT, segment.path)


def test_import_from_a_store_into_a_store(uri: str, tmp_path: Path) -> None:
    cluster = grown(2)
    disk_of(cluster, tmp_path / "disk")
    fs, root = filesystem(uri)
    for path in sorted((tmp_path / "disk").rglob("*")):
        if path.is_file():
            with fs.open_output_stream(f"{root}/backup/{path.relative_to(tmp_path / 'disk')}") as file:
                file.write(path.read_bytes())
    backup = uri.replace("/keep?", "/keep/backup?")
    archive = uri.replace("/keep?", "/keep/archive?")
    request = ImportRequest(
        source=backup, archive=archive, taken_at_ms=START_MS, topics_file=topics_of(cluster, tmp_path)
    )
    taken = import_log.run(request)
    assert taken.cluster_id == "fake"
    assert taken.batches == sum(len(log.batches) for log in cluster.logs)
    before = objects(fs, root)
    assert import_log.run(request).segments == 0
    assert objects(fs, root) == before


def test_the_command_line_tells_no_secret(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    take(grown(3), uri)
    for command in (["ls"], ["ls", "--json"], ["verify"], ["verify", "--subset", "1/3", "--json"]):
        assert cli.main(["archive", *command, "--archive", uri]) == 0
        told = capsys.readouterr()
        assert told.out
        assert "canary" not in told.out + told.err
    assert cli.main(["archive", "ls", "--archive", uri, "--json"]) == 0
    (cluster,) = json.loads(capsys.readouterr().out)["clusters"]
    assert (cluster["cluster_id"], len(cluster["lineages"])) == ("fake", 2)
