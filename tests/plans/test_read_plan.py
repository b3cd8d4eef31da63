"""Plans as files: what a run leaves and the archive keeps, and that nothing in them can be changed unseen."""

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs

from sexton.archive.inventory import inventory
from sexton.archive.lineages import topics_of
from sexton.archive.verify import verify
from sexton.errors import Refused, UsageError
from sexton.log.batch import Batch, encode_batch, read_batches, read_records
from sexton.log.codec import CODECS
from sexton.plans.check_content import check_content
from sexton.plans.plan import Plan
from sexton.plans.read_plan import own_plan, plan_folder, read_plan
from sexton.plans.write_plan import keep_plan
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from tests.archived import CLUSTER, TOPIC, Archive
from tests.log_builder import sealed
from tests.pipeline.archive_runs import instant
from tests.plans.plan_runs import archive_of_commits, planned, plans_of

LOCAL = pafs.LocalFileSystem()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, small: Engine) -> tuple[Archive, RunFolder, Plan]:
    """An archive that keeps the plan of a run."""
    folder = tmp_path_factory.mktemp("plans")
    archive = archive_of_commits(folder / "archive")
    planned(small, folder / "run", archive, page=lambda _: b"<html></html>\n")
    run = RunFolder(folder / "run")
    keep_plan(run, own_plan(run).record, archive.root)
    return archive, run, own_plan(run)


def read(root: Path | str, plan_id: str) -> Plan:
    return read_plan(LOCAL, str(root), None, plan_id)


@dataclass
class Copy:
    """A copy of an archive with the kept plan, which may be damaged."""

    root: Path
    plan_id: str

    @property
    def folder(self) -> Path:
        return Path(plan_folder(str(self.root), CLUSTER, self.plan_id))

    def read(self) -> Plan:
        return read(self.root, self.plan_id)


@pytest.fixture
def copy(made: tuple[Archive, RunFolder, Plan], tmp_path: Path) -> Copy:
    shutil.copytree(made[0].folder, tmp_path / "archive")
    return Copy(tmp_path / "archive", made[2].record.plan_id)


def test_what_is_read_is_what_was_planned(made: tuple[Archive, RunFolder, Plan]) -> None:
    archive, run, own = made
    kept = read(archive.root, own.record.plan_id)
    assert (kept.record, kept.sha256) == (own.record, own.sha256)
    assert kept.tombstones.equals(own.tombstones)
    of_c, of_a = [("c", "t", 1), ("c", "u", 1), ("c", None, 2)], [("a", "t", 1), ("a", "t", 1), ("a", None, 2)]
    rows = [(row["group_id"], row["topic"], row["record_type"]) for row in kept.tombstones.to_pylist()]
    assert rows == [*of_c, ("f", "t", 1), *of_a]
    assert kept.record.counts == {
        "tombstones": 7, "offsets": 5, "group_records": 2, "groups_losing": 3, "groups_deleted": 2, "groups_total": 3,
        "held_expiring": 0,
    }  # fmt: skip
    assert [(one.cause, one.offsets, one.groups, one.deleted_groups) for one in kept.record.losses] == [
        ("broker_retention", 5, 3, 2)
    ]
    assert kept.sha256 == hashlib.sha256((run.local / "plan" / "plan.json").read_bytes()).hexdigest()


def test_undo_has_every_value_in_full(made: tuple[Archive, RunFolder, Plan]) -> None:
    first, second = made[2].undo.to_pylist()[:2]
    assert first | {"commit_timestamp_ms": None} == {
        "group_id": "c", "topic": "t", "partition": 0, "committed_offset": 5, "leader_epoch": 3, "metadata": "метка",
        "commit_timestamp_ms": None, "expire_timestamp_ms": None, "topic_id": None, "log_partition": 0, "log_offset": 0,
    }  # fmt: skip
    assert (second["expire_timestamp_ms"], second["leader_epoch"]) == (first["commit_timestamp_ms"] + 1, None)


def test_the_same_interval_gives_the_same_bytes(
    made: tuple[Archive, RunFolder, Plan], small: Engine, tmp_path: Path
) -> None:
    archive, run, _ = made
    planned(small, tmp_path / "again", archive, page=lambda _: b"<html></html>\n", is_full=True)

    def files(root: Path) -> dict[str, bytes]:
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    assert files(tmp_path / "again" / "plan") == files(run.local / "plan")
    assert files(Path(made[2].folder)) == files(Path(plan_folder(archive.root, CLUSTER, made[2].record.plan_id)))


def test_keeping_again_changes_nothing_and_another_telling_replaces(
    copy: Copy, made: tuple[Archive, RunFolder, Plan], tmp_path: Path
) -> None:
    shutil.copytree(made[1].local, tmp_path / "run")
    run, archive = RunFolder(tmp_path / "run"), str(copy.root)
    stamps = {path: path.stat().st_mtime_ns for path in copy.folder.rglob("*")}
    keep_plan(run, own_plan(run).record, archive)
    assert {path: path.stat().st_mtime_ns for path in copy.folder.rglob("*")} == stamps
    newer = made[2].record.model_copy(update={"code_version": "9.9.9"})
    run.write(newer.to_json(), "plan", "plan.json")
    with pytest.raises(Refused, match="another plan"):
        keep_plan(run, made[2].record, archive)
    keep_plan(run, newer, archive)
    kept = read(archive, copy.plan_id)
    assert kept.record == newer
    assert kept.sha256 != made[2].sha256
    assert kept.record.plan_id == made[2].record.plan_id


def test_every_byte_counts(copy: Copy) -> None:
    """Whatever byte of whatever file is another, the plan is refused, and the error names the file.

    One bit of plan.json may leave a plan that agrees with itself (a warning's letter): then its SHA-256 is another.
    """
    approved = copy.read().sha256
    for file in sorted(path for path in copy.folder.rglob("*") if path.is_file()):
        whole = file.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 60)):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            if file.name == "plan.json":
                assert sha256_or_refused(copy) != approved
                continue
            with pytest.raises(Refused, match="SHA-256") as refused:
                copy.read()
            assert refused.value.where == str(file)
        file.write_bytes(whole)
    assert copy.read().sha256 == approved


def sha256_or_refused(copy: Copy) -> str | None:
    try:
        return copy.read().sha256
    except Refused:
        return None


def forge(folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table of a plan and have plan.json name the hash of what was made of it."""
    pq.write_table(change(pq.read_table(folder / name)), folder / name)
    tell(folder, files={name: hashlib.sha256((folder / name).read_bytes()).hexdigest()})


def tell(folder: Path, **changes: Any) -> None:
    told = json.loads((folder / "plan.json").read_text())
    for name, value in changes.items():
        told[name] = {**told[name], **value} if isinstance(value, dict) else value
    (folder / "plan.json").write_text(json.dumps(told))


def with_column(name: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    def changed(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        return table.set_column(
            at, table.schema.field(name), pa.array(change(table[name].to_pylist()), table[name].type)
        )

    return changed


def with_bytes(table: pa.Table, name: str, value: bytes) -> pa.Table:
    """The table with a column of strings of these bytes."""
    at, column = table.column_names.index(name), pa.array([value] * table.num_rows, pa.binary()).view(pa.string())
    return table.set_column(at, table.schema.field(name), column)


NO_CUT = "by log partition|without a cut"


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("tombstones/0.parquet", with_column("group_id", lambda v: ["z", *v[1:]]), "a key is not that of its row"),
        ("tombstones/0.parquet", with_column("key", lambda v: [v[1], *v[1:]]), "a key is not that of its row"),
        ("tombstones/0.parquet", with_column("cause", lambda v: ["rule:x", *v[1:]]), "those of plan"),
        ("tombstones/0.parquet", lambda t: t.slice(1), "by log partition and position"),
        ("tombstones/0.parquet", lambda t: t.slice(0, t.num_rows - 1), "those of plan"),
        ("tombstones/0.parquet", lambda t: pa.concat_tables([t.slice(2), t.slice(0, 2)]), "by log partition"),
        ("tombstones/0.parquet", with_column("log_partition", lambda v: [*v[:-1], 2]), NO_CUT),
        ("tombstones/0.parquet", with_column("position", lambda v: [None, *v[1:]]), "has no log position"),
        ("tombstones/0.parquet", with_column("topic", lambda v: [None, *v[1:]]), "no valid key"),
        ("tombstones/0.parquet", with_column("target_log_offset", lambda v: [9, *v[1:]]), "does not match the planned"),
        ("tombstones/0.parquet", lambda t: t.drop_columns(["cause"]), "not the columns and types of a plan"),
        ("tombstones/0.parquet", lambda t: with_bytes(t, "group_id", b"\xff"), "not a table: .*UTF8"),
        ("undo/0.parquet", with_column("committed_offset", lambda v: [9, *v[1:]]), "does not match the planned"),
        ("undo/0.parquet", lambda t: t.filter(pc.not_equal(t["group_id"], "c")), "does not match the planned"),
        ("undo/0.parquet", lambda t: t.slice(0, 0), "does not match the planned"),
    ],
)
def test_a_forger_who_hashes_anew_is_refused(
    copy: Copy, name: str, change: Callable[[pa.Table], pa.Table], complaint: str
) -> None:
    forge(copy.folder, name, change)
    with pytest.raises(Refused, match=complaint) as refused:
        copy.read()
    assert refused.value.where is not None
    assert str(copy.folder) in refused.value.where


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"as_of_ms": 1}, "those of plan"),
        ({"profile": "group_coordinator:4.0"}, "those of plan"),
        ({"profile": "none"}, "those of plan"),
        ({"policy_sha256": "0" * 64}, "those of plan"),
        ({"plan_id": "0" * 64}, "those of plan"),
        ({"cluster_id": "other"}, "those of plan"),
        ({"counts": {"offsets": 4}}, "it counts"),
        ({"extra": 1}, "not a plan"),
        ({"as_of_ms": "1"}, "not a plan"),
        ({"format": 1}, "not a plan"),
        ({"files": {"../../../x": "0" * 64}}, "names a file that no plan has"),
        ({"files": {"/etc/passwd": "0" * 64}}, "names a file that no plan has"),
        ({"files": {"batches/../plan.html": "0" * 64}}, "names a file that no plan has"),
        ({"files": {"batches/2.log": "0" * 64}}, "no such file"),
    ],
)
def test_a_plan_json_that_lies(copy: Copy, changes: dict[str, Any], complaint: str) -> None:
    tell(copy.folder, **changes)
    with pytest.raises(Refused, match=complaint):
        copy.read()


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000])
def test_a_plan_json_that_is_none(copy: Copy, data: bytes) -> None:
    (copy.folder / "plan.json").write_bytes(data)
    with pytest.raises(Refused, match="not a plan"):
        copy.read()


def test_batches_are_those_of_the_rows(copy: Copy) -> None:
    file = copy.folder / "batches" / "0.log"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    tell(copy.folder, files={"batches/0.log": hashlib.sha256(file.read_bytes()).hexdigest()})
    with pytest.raises(Refused, match="not the batches of"):
        copy.read()
    file.unlink()
    told = json.loads((copy.folder / "plan.json").read_text())
    del told["files"]["batches/0.log"]
    (copy.folder / "plan.json").write_text(json.dumps(told))
    with pytest.raises(Refused, match="rows of others"):
        copy.read()


@pytest.mark.parametrize("name", ["undo/0.parquet", "batches/0.log", "plan.json"])
def test_no_link_is_followed(copy: Copy, tmp_path: Path, name: str) -> None:
    (copy.folder / name).rename(tmp_path / "elsewhere")
    (copy.folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="a link leads"):
        copy.read()


def test_nor_is_a_linked_folder_but_an_archive_may_be_one(copy: Copy, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(copy.root)
    assert read(f"{tmp_path}/linked/", copy.plan_id).record.plan_id == copy.plan_id
    copy.folder.rename(tmp_path / "elsewhere")
    copy.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="a link leads"):
        copy.read()


def test_a_plan_of_another_name(copy: Copy) -> None:
    copy.folder.rename(copy.folder.with_name("0" * 64))
    with pytest.raises(Refused, match=f"this is plan {copy.plan_id}"):
        read(copy.root, "0" * 64)


@pytest.mark.parametrize("plan_id", ["0" * 64, "..", "", "A" * 64])
def test_what_is_not_there(copy: Copy, plan_id: str) -> None:
    with pytest.raises(UsageError, match="no plan"):
        read(copy.root, plan_id)


def test_the_archive_lists_and_verifies_as_before(copy: Copy) -> None:
    root = str(copy.root)
    for name in ("ledger", "restores"):
        (copy.folder.parents[1] / name / copy.plan_id).mkdir(parents=True)
    assert topics_of(LOCAL, root, CLUSTER) == [TOPIC]
    assert plans_of(root, CLUSTER) == [copy.plan_id]
    (cluster,) = inventory(LOCAL, root, settle_ms=0)
    assert {line.topic_id for line in cluster.lineages} == {TOPIC}
    assert verify(LOCAL, root).findings == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_written_in_the_codec_of_the_broker(small: Engine, tmp_path: Path, codec: str) -> None:
    """Bytes that another compressor made of the same records are those of the plan; other records are not."""
    archive = archive_of_commits(tmp_path / "archive")
    archive.settings = {"offsets.topic.compression.codec": str(CODECS.index(codec))}
    archive.snapshot(instant(4) - 1_000)
    archive.snapshot(instant(4) + 2_000)
    run = RunFolder(tmp_path / "run")
    planned(small, run.local, archive, at=4)
    plan = own_plan(run)
    assert (plan.record.codec, plan.record.record_format) == (codec, 2)
    files = {
        f"batches/{one.log_partition}.log": run.read("batches", f"{one.log_partition}.log")
        for one in plan.record.batches
    }
    batches = [batch for data in files.values() for batch in read_batches(data)]
    assert {batch.codec for batch in batches} == {CODECS.index(codec)}
    check_content(plan, files)

    repacked = {name: repack(data, level=1) for name, data in files.items()}
    assert (repacked == files) == (codec != "gzip")
    check_content(plan, repacked)
    changed = {name: repack(data, change=True) for name, data in files.items()}
    with pytest.raises(Refused, match="not the batches of the plan's rows"):
        check_content(plan, changed)
    uncompressed = plan.record.model_copy(update={"codec": "none"})
    with pytest.raises(Refused, match="not the batches of the plan's rows"):
        check_content(replace(plan, record=uncompressed), files)


def repack(data: bytes, *, level: int | None = None, change: bool = False) -> bytes:
    """The batches of a plan again: gzip by another level of its compressor, or with the last key changed."""
    made = []
    for batch in read_batches(data):
        assert isinstance(batch, Batch)
        records = [(one.key, one.value) for one in read_records(batch, cap_bytes=1 << 20)]
        if change:
            records[-1] = ((records[-1][0] or b"")[:-1] + b"!", None)
        told = {
            "base_offset": batch.base_offset,
            "timestamp_ms": batch.max_timestamp_ms,
            "base_sequence": batch.base_sequence,
        }
        plain = encode_batch(records, **told)
        if batch.codec == 1 and level is not None:
            deflater = zlib.compressobj(level, wbits=31)
            body = deflater.compress(plain[61:]) + deflater.flush()
            made.append(sealed(plain[:21] + b"\0\1" + plain[23:61] + body))
        else:
            made.append(encode_batch(records, codec=batch.codec, **told))
    return b"".join(made)


def test_a_codec_that_is_asked_for_takes_the_place_of_the_recorded_one(small: Engine, tmp_path: Path) -> None:
    archive = archive_of_commits(tmp_path / "archive")
    archive.settings = {"offsets.topic.compression.codec": "1"}
    archive.snapshot(instant(4) - 1_000)
    archive.snapshot(instant(4) + 2_000)
    for codec, name in ((None, "gzip"), (0, "none"), (3, "lz4")):
        planned(small, tmp_path / name, archive, at=4, codec=codec)
        assert own_plan(RunFolder(tmp_path / name)).record.codec == name
