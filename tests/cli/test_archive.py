"""`sexton archive`: what it prints, for people and for machines, and its exit codes."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sexton.runs.processes import SerialEngine
from tests.faults.snapshots import START_MS, Archivist, disk_of, topics_of
from tests.faults.spoiled_folds import seal
from tests.kafka.fake_cluster import FakeCluster
from tests.pipeline.archive_runs import instant, publish, three_minutes
from tests.pipeline.archive_runs import run as replay

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "archive")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An archive with a gap in log partition 0."""
    cluster = FakeCluster(1)
    archivist = Archivist(cluster, tmp_path / "archive")
    for log in cluster.logs:
        log.append(10)
    archivist.snapshot()
    cluster.logs[0].append(10)
    cluster.logs[0].delete_below(cluster.logs[0].end - 1)
    archivist.snapshot()
    return tmp_path / "archive"


def test_ls(run: Run, kept: Path) -> None:
    code, out, err = run("ls", "--archive", kept)
    assert code == 0
    first, *spans = out.partition("topic ")[0].splitlines()
    assert first.startswith("cluster fake: 2 snapshots, 3 segments, ")
    assert [span.split()[0] for span in spans] == ["none"] * 3, "of what was, of the gap, of what is to come"
    _, *rows = (line.split() for line in out.partition("LOG-PARTITION")[2].splitlines())
    assert [[row[0], row[1][:6], *row[2:6]] for row in rows] == [
        ["0", "000000", "first", "0", "21", "1"],
        ["0", "000001", "gap", "38", "39", "1"],
        ["1", "000000", "first", "0", "25", "1"],
    ]
    assert "are missing before 000001-" in err


def test_ls_for_machines(run: Run, kept: Path) -> None:
    code, out, err = run("ls", "--archive", kept, "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    (cluster,) = told["clusters"]
    assert (cluster["cluster_id"], cluster["snapshots"], cluster["broker_version"]) == ("fake", 2, "4.3")
    gap = next(line for line in cluster["lineages"] if line["reason"] == "gap")
    first = next(line for line in cluster["lineages"] if line["log_partition"] == 0 and line["reason"] == "first")
    assert gap["missing"] == [first["end"], gap["start"]]
    assert gap["previous"] == first["lineage"]
    assert first["first_timestamp_ms"] < first["last_timestamp_ms"]
    assert (first["last_taken_at_ms"], cluster["first_snapshot_ms"]) == (START_MS + 3_600_000,) * 2
    assert {span["coverage"]["value"] for span in cluster["coverage"]} >= {"none"}


def test_verify_reads_the_checkpoints(run: Run, tmp_path: Path) -> None:
    archive = three_minutes(tmp_path / "archive")
    with SerialEngine(quiet=True) as engine:
        place = publish(tmp_path / "r1", replay(engine, tmp_path / "r1", archive, instant(1)), archive)
    code, out, _ = run("verify", "--archive", archive.root)
    assert code == 0
    assert "and 1 checkpoint in" in out
    (place / "1" / "keys.parquet").write_bytes(b"PAR1")
    seal(place)
    code, out, err = run("verify", "--archive", archive.root)
    assert code == 3
    assert out.startswith(f"corrupt  {place}: 1/keys.parquet: cannot be read as Parquet")
    assert err.endswith(": 1 finding\n")
    told = json.loads(run("verify", "--archive", archive.root, "--json")[1])
    assert (told["exit_code"], told["checkpoints"], len(told["findings"])) == (3, 1, 1)


def test_nothing_there(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("ls", "--archive", tmp_path / "none")
    assert code == 0
    assert "is empty" in out
    assert json.loads(run("ls", "--archive", tmp_path / "none", "--json")[1])["clusters"] == []
    assert run("verify", "--archive", tmp_path / "none")[0] == 0


def test_verify(run: Run, printed: Callable[..., str], kept: Path) -> None:
    out = printed("verify", "--archive", kept)
    assert out.startswith("3 of 3 segments read (")
    assert out.endswith(": 0 findings\n")
    segment = next(kept.rglob("*.log"))
    data = bytearray(segment.read_bytes())
    data[12] ^= 1
    segment.write_bytes(data)
    code, out, err = run("verify", "--archive", kept)
    assert code == 3
    assert f"corrupt  {segment}: SHA-256 is" in out
    assert err.startswith("error: ")
    code, out, err = run("verify", "--archive", kept, "--json")
    told = json.loads(out)
    assert (code, told["exit_code"], err) == (3, 3, "")
    assert [finding["kind"] for finding in told["findings"]] == ["corrupt"]


def test_verify_of_damaged_input(run: Run, tmp_path: Path) -> None:
    cluster = FakeCluster(1)
    for log in cluster.logs:
        log.append(3)
    batch = bytearray(cluster.logs[0].batches[1])
    batch[-1] ^= 1
    cluster.logs[0].batches[1] = bytes(batch)
    Archivist(cluster, tmp_path).snapshot()
    code, out, _ = run("verify", "--archive", tmp_path)
    assert code == 5
    assert "damaged" in out


@pytest.mark.parametrize("subset", ["0/3", "4/3", "1", "a/b", "1/3/5", "-1/3"])
def test_no_such_subset(refused: Callable[..., str], kept: Path, subset: str) -> None:
    assert "--subset: not a part" in refused(2, "verify", "--archive", kept, "--subset", subset)


def test_subset(run: Run, kept: Path) -> None:
    read = [json.loads(run("verify", "--archive", kept, "--subset", f"{n}/2", "--json")[1])["read"] for n in (1, 2)]
    assert sum(read) == 3


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_no_such_cluster(refused: Callable[..., str], kept: Path, command: str) -> None:
    assert "no cluster other (there is fake)" in refused(2, command, "--archive", kept, "--cluster-id", "other")


def test_import(run: Run, printed: Callable[..., str], refused: Callable[..., str], tmp_path: Path) -> None:
    cluster = FakeCluster(1)
    for log in cluster.logs:
        log.append(10)
    disk_of(cluster, tmp_path / "disk")
    options = ["--archive", tmp_path / "archive", "--topics", topics_of(cluster, tmp_path)]
    out = printed("import", tmp_path / "disk", *options, "--taken-at", "2027-01-15T08:00:00Z")
    assert "from 2 log partitions of cluster fake" in out
    code, out, _ = run("import", tmp_path / "disk", *options, "--json")
    assert (code, json.loads(out)["segments"]) == (0, 0)
    cluster.logs[0].elect(cut_at=3)
    cluster.logs[0].append(20)
    disk_of(cluster, tmp_path / "disk")
    assert "not the same log: log partition 0" in refused(6, "import", tmp_path / "disk", *options[:2])
    assert run("import", tmp_path / "disk", *options[:2], "--new-lineage")[0] == 0


@pytest.mark.parametrize(
    "argv, said",
    [
        ([], "DIR"),
        (["absent"], "no such folder"),
        (["absent", "--topics", "none"], "none: no such file"),
        (["absent", "--taken-at", "soon"], "--taken-at: not an instant"),
    ],
)
def test_import_refuses(refused: Callable[..., str], argv: list[str], said: str) -> None:
    assert said in refused(2, "import", *argv)
