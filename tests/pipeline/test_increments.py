"""A run from a checkpoint is the run from the beginning, whenever it runs; and what is not a checkpoint is none."""

import hashlib
import json
import shutil
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pyarrow.parquet as pq
import pytest

from sexton.archive.folder import Folder
from sexton.coordinator.profiles import of_broker, profile_of
from sexton.errors import DamagedFold, DataQualityFailure, NoCoverage, SextonError, UsageError
from sexton.kernels.partial_fold import PartialFold
from sexton.log.batch import Batch, read_batches
from sexton.log.segment import SegmentSlice, slice_bytes
from sexton.maintenance.check_checkpoint import compare_checkpoint
from sexton.runs import fold_log
from sexton.runs.checkpoint import checkpoint_folders
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, files_sha256
from tests.archived import Archive, next_offset
from tests.coordinator.golden import GOLDEN, RELEASES, segments
from tests.log_builder import commit
from tests.pipeline.archive_runs import (
    LATER_MS,
    SETTLE_MS,
    instant,
    minute,
    passed_over,
    publish,
    run,
    tables,
    three_minutes,
    told,
)
from tests.tiers import later


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


def test_an_increment_is_the_full_replay(small: Engine, tmp_path: Path, archive: Archive) -> None:
    before: int | None = None
    for number in (1, 2, 3):
        record = run(small, tmp_path / f"r{number}", archive, instant(number))
        assert record.base_as_of_ms == before
        full = run(small, tmp_path / f"f{number}", archive, instant(number), is_full=True)
        assert full.base_as_of_ms is None
        assert told(full) == told(record)
        assert tables(tmp_path / f"f{number}") == tables(tmp_path / f"r{number}")
        assert record.warnings == full.warnings
        assert passed_over(record) == []
        publish(tmp_path / f"r{number}", record, archive)
        before = instant(number)


def test_only_what_is_new_is_read(small, tmp_path, archive, monkeypatch):
    publish(tmp_path / "r2", run(small, tmp_path / "r2", archive, instant(2)), archive)
    read: list[str] = []

    def note(fs: Any, span: SegmentSlice) -> Any:
        read.append(Path(span.path).name)
        return slice_bytes(fs, span)

    monkeypatch.setattr(fold_log, "slice_bytes", note)
    run(small, tmp_path / "r3", archive, instant(3))
    assert sorted(read) == [f"{1:020d}.log", f"{4:020d}.log"]
    for file in Path(archive.root).rglob("*.log"):
        if int(file.stem) not in (1, 4):
            file.unlink()
    run(small, tmp_path / "again", archive, instant(3))
    with pytest.raises(UsageError, match="its segment is missing"):
        run(small, tmp_path / "full", archive, instant(3), is_full=True)


def test_a_cut_within_a_segment(small: Engine, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    whole = b"".join(minute(n, commit("a", n), commit(f"g{n}", n), first=2 * n - 2) for n in (1, 2, 3, 4))
    archive.snapshot(instant(4) + 2_000, {0: whole})
    for number in (1, 3, 4):
        record = run(small, tmp_path / f"r{number}", archive, instant(number))
        assert record.cuts == {0: 2 * number}
        full = run(small, tmp_path / f"f{number}", archive, instant(number), is_full=True)
        assert told(full) == told(record)
        publish(tmp_path / f"r{number}", record, archive)
    assert record.base_as_of_ms == instant(3)


def test_the_same_interval_is_the_same_whenever_it_runs(small: Engine, tmp_path: Path, archive: Archive) -> None:
    first = run(small, tmp_path / "first", archive, instant(2))
    archive.snapshot(instant(9), {0: minute(2, commit("late"), first=5)})  # stamped long ago
    archive.begin(1, 9, "gap", missing=(2, 9), taken_at_ms=instant(10))
    archive.settings = {"offsets.retention.minutes": "5"}
    archive.snapshot(instant(10), {1: minute(10, commit("c"), first=9)})
    publish(tmp_path / "first", first, archive)
    archive.remake("another")
    archive.begin(0, 0, "recreated", previous_topic_id="topic", taken_at_ms=instant(11))
    archive.snapshot(instant(11), {0: minute(1, commit("other"), first=0)})
    second = run(small, tmp_path / "second", archive, instant(2))
    assert told(second) == told(first)
    assert tables(tmp_path / "second") == tables(tmp_path / "first")
    assert run(small, tmp_path / "newest", archive, None).topic_id == "another"


def test_runs_in_any_order_end_alike(small: Engine, tmp_path: Path, archive: Archive) -> None:
    alone = {number: run(small, tmp_path / f"alone{number}", archive, instant(number)) for number in (1, 2, 3)}
    for number in (3, 1, 2, 3, 2):
        out = tmp_path / f"{number}-{len(list(tmp_path.iterdir()))}"
        record = run(small, out, archive, instant(number))
        assert told(record) == told(alone[number])
        assert tables(out) == tables(tmp_path / f"alone{number}")
        publish(out, record, archive)


def test_a_new_log_partition_and_one_without_news(small: Engine, tmp_path: Path, archive: Archive) -> None:
    publish(tmp_path / "r3", run(small, tmp_path / "r3", archive, instant(3)), archive)
    archive.snapshot(instant(4) + 2_000, {2: minute(4, commit("n"), first=0)})
    record = run(small, tmp_path / "r4", archive, instant(4))
    assert record.base_as_of_ms == instant(3)
    assert record.cuts == {0: 5, 1: 2, 2: 1}
    assert told(run(small, tmp_path / "f4", archive, instant(4), is_full=True)) == told(record)


# --- recordings


def recorded(folder: Path, recording: str, rng: Random) -> tuple[Archive, list[int]]:
    """An archive of a recording as some snapshots would have brought it, and the instants that they settle."""
    logs = {part: b"".join(files) for part, files in segments(GOLDEN / recording / "swept") if b"".join(files)}
    batches = {part: [one for one in read_batches(log) if isinstance(one, Batch)] for part, log in logs.items()}
    stamps = sorted({one.max_timestamp_ms for some in batches.values() for one in some})
    if stamps[-1] < 0:  # record format 0: what was there when the snapshot came
        stamps = [LATER_MS * 2]
    instants = [*sorted(rng.sample(stamps, min(2, len(stamps)))), stamps[-1] + 1]
    archive = Archive(folder, partitions=max(logs) + 1)
    done = dict.fromkeys(logs, 0)
    for as_of_ms in instants:
        new: dict[int, bytes] = {}
        for part, some in batches.items():
            rest = some[done[part] :]
            late = next((n for n, one in enumerate(rest) if one.max_timestamp_ms > as_of_ms), len(rest))
            taken = rest[: min(len(rest), late + rng.choice((0, 0, 3)))] if as_of_ms != instants[-1] else rest
            if taken:
                done[part] += len(taken)
                new[part] = b"".join(bytes(one.data) for one in taken)
                if part not in archive.current:
                    archive.begin(part, taken[0].base_offset, taken_at_ms=as_of_ms + SETTLE_MS)
        archive.snapshot(as_of_ms + SETTLE_MS, new)
    return archive, instants


MILESTONES = ("kafka-0.10.2.2", "kafka-1.1.1", "kafka-2.8.2-plain", "kafka-4.3.1-plain")
"""Recordings between which formats and rules changed."""


@pytest.mark.parametrize("recording", later(pytest.mark.full, RELEASES, but=MILESTONES))
def test_recordings(small: Engine, tmp_path: Path, recording: str) -> None:
    rng = Random(recording)
    archive, instants = recorded(tmp_path / "archive", recording, rng)
    profile = of_broker(RELEASES[recording])
    before = None
    for as_of_ms in instants:
        out = tmp_path / str(as_of_ms)
        try:
            record = run(small, out, archive, as_of_ms, profile=profile.text)
        except NoCoverage:  # nothing was written by then
            continue
        full = run(small, tmp_path / f"{as_of_ms}-full", archive, as_of_ms, profile=profile.text, is_full=True)
        assert record.base_as_of_ms == (before if profile.folds_in_slices else None)
        assert told(full) == told(record)
        assert tables(tmp_path / f"{as_of_ms}-full") == tables(out)
        publish(out, record, archive)
        before = as_of_ms
    assert before == instants[-1]
    checked = compare_checkpoint(small, RunFolder(tmp_path / "check"), archive=archive.root, settle_ms=SETTLE_MS)
    assert (checked.as_of_ms, checked.is_same_file) == (instants[-1], True)


# --- what is believed


@pytest.fixture
def published(small: Engine, tmp_path: Path, archive: Archive) -> Path:
    """The checkpoint of the second minute; that of the first is there, too."""
    for number in (1, 2):
        record = run(small, tmp_path / f"p{number}", archive, instant(number))
        folder = publish(tmp_path / f"p{number}", record, archive)
    return folder


def change(folder: Path, **fields: Any) -> None:
    manifest = folder / "checkpoint.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **fields}))


def without_file(folder: Path) -> None:
    (folder / "0" / "keys.parquet").unlink()


def flip(folder: Path) -> None:
    file = folder / "1" / "keys.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def other_lineage(folder: Path) -> None:
    positions = json.loads((folder / "checkpoint.json").read_text())["positions"]
    positions["1"]["lineage"] = "000004-00000000000000000000"
    change(folder, positions=positions)


def beyond(folder: Path) -> None:
    positions = json.loads((folder / "checkpoint.json").read_text())["positions"]
    positions["0"] |= {"cut": 99, "segment": 99}
    change(folder, positions=positions)


def more_parts(folder: Path) -> None:
    positions = json.loads((folder / "checkpoint.json").read_text())["positions"]
    change(folder, positions={**positions, "7": positions["0"]})


def escape(folder: Path) -> None:
    files = json.loads((folder / "checkpoint.json").read_text())["files"]
    change(folder, files={**files, "../../evil.parquet": "00"})


@pytest.mark.parametrize(
    "spoil, why",
    [
        (lambda folder: (folder / "checkpoint.json").unlink(), "no such file"),
        (lambda folder: (folder / "checkpoint.json").write_text("{"), "not JSON"),
        (lambda folder: (folder / "checkpoint.json").write_text("{}"), "not a checkpoint"),
        (without_file, "keys.parquet"),
        (flip, "SHA-256"),
        (escape, "not a file of a fold"),
        (lambda folder: change(folder, cluster_id="foreign"), "its cluster is foreign"),
        (lambda folder: change(folder, topic_id="foreign"), "its topic id is foreign"),
        (lambda folder: change(folder, profile="group_coordinator:4.1"), "its profile is group_coordinator:4.1"),
        (lambda folder: change(folder, fold_format="0-x"), "its form of folds is 0-x"),
        (lambda folder: change(folder, inflated_cap_bytes=5), "its cap on inflated batches is 5"),
        (other_lineage, "log partition 1 has left lineage 000004"),
        (beyond, "its cut of log partition 0 lies behind"),
        (more_parts, "log partition 7 is not here"),
    ],
    ids=[
        "no manifest", "half a manifest", "empty manifest", "file missing", "bit flipped", "path escapes", "cluster",
        "topic", "profile", "format", "cap", "lineage", "cut beyond", "log partition gone",
    ],
)  # fmt: skip
def test_a_doubtful_checkpoint_is_passed_over(small, tmp_path, archive, published, spoil, why):
    full = run(small, tmp_path / "full", archive, instant(3), is_full=True)
    spoil(published)
    record = run(small, tmp_path / "r3", archive, instant(3))
    assert record.base_as_of_ms == instant(1)
    assert told(record) == told(full)
    (warning,) = passed_over(record)
    assert published.name in warning
    assert why in warning
    assert not list(tmp_path.rglob("evil.parquet"))
    shutil.rmtree(published.parent)
    assert run(small, tmp_path / "none", archive, instant(3)).base_as_of_ms is None


def test_nothing_is_left_of_a_checkpoint_that_was_passed_over(small: Engine, tmp_path: Path) -> None:
    """One that turns out bad half way has tables that the next one has not: an open transaction's, here."""
    archive = Archive(tmp_path / "archive", partitions=2)
    archive.snapshot(
        instant(1) + 2_000, {0: minute(1, commit("a"), first=0), 1: minute(1, commit("c"), commit("d"), first=0)}
    )
    archive.snapshot(instant(2) + 2_000, {0: minute(2, commit("a", 7), first=1, producer_id=5, transactional=True)})
    archive.snapshot(instant(3) + 2_000, {0: minute(3, commit("b", 8), first=2)})
    for number in (1, 2):
        folder = publish(
            tmp_path / f"r{number}", run(small, tmp_path / f"r{number}", archive, instant(number)), archive
        )
    assert any(not (tmp_path / "r1" / "fold" / "0" / file.name).exists() for file in (folder / "0").iterdir())
    flip(folder)
    record = run(small, tmp_path / "r3", archive, instant(3))
    assert record.base_as_of_ms == instant(1)
    full = run(small, tmp_path / "full", archive, instant(3), is_full=True)
    assert told(record) == told(full)
    assert tables(tmp_path / "r3") == tables(tmp_path / "full")


def wrong_index(folder: Path) -> None:
    """A key of a group that is not there, with hashes that are right."""
    file = folder / "0" / "groups.parquet"
    groups = pq.read_table(file, partitioning=None)
    pq.write_table(groups.slice(1), file)
    files = json.loads((folder / "checkpoint.json").read_text())["files"]
    change(folder, files={**files, "0/groups.parquet": hashlib.sha256(file.read_bytes()).hexdigest()})


def test_a_checkpoint_whose_fold_is_none_is_passed_over_by_runs_and_intervals(small, tmp_path, archive, published):
    full = run(small, tmp_path / "full", archive, instant(3), is_full=True, since_ms=instant(2))
    wrong_index(published)
    record = run(small, tmp_path / "r3", archive, instant(3), since_ms=instant(2))
    assert record.base_as_of_ms == instant(1)
    assert told(record) == told(full)
    assert tables(tmp_path / "r3") == tables(tmp_path / "full")
    changes = [pq.read_table(tmp_path / name / "offset_changes").drop_columns(["run_id"]) for name in ("r3", "full")]
    assert changes[0].equals(changes[1])
    warnings = passed_over(record)
    assert len(warnings) == 2  # the run's own, and that of where the interval begins
    assert all(
        f"{published.name} was passed over: 0/keys.parquet: row 0: a duplicate key" in warning for warning in warnings
    )


def test_a_fold_that_a_task_left_broken_is_named() -> None:
    data = PartialFold.empty().to_bytes()[:-200]
    span = fold_log._Span(lower=None, rows=0, piece=0, checksum=crc32(data))
    partial = fold_log._Partial(log_partition=7, index=3, spans=(span,))
    with pytest.raises(DamagedFold, match="of log partition 7, from its part 3 on"):
        fold_log._unpacked(partial, span, data)


def test_a_fold_that_was_made_again_of_other_bytes_is_refused() -> None:
    span = fold_log._Span(lower=None, rows=0, piece=0, checksum=crc32(PartialFold.empty().to_bytes()))
    partial = fold_log._Partial(log_partition=7, index=3, spans=(span,))
    with pytest.raises(DamagedFold, match=r"log partition 7.*changed while the run read it"):
        fold_log._unpacked(partial, span, PartialFold.empty(is_prefix=True).to_bytes())


def test_the_checkpoint_of_a_later_instant_is_none(small: Engine, tmp_path: Path, archive: Archive) -> None:
    publish(tmp_path / "r3", run(small, tmp_path / "r3", archive, instant(3)), archive)
    assert run(small, tmp_path / "r2", archive, instant(2)).base_as_of_ms is None


def test_a_checkpoint_of_the_lineage_before_is_none(small: Engine, tmp_path: Path, archive: Archive) -> None:
    publish(tmp_path / "r3", run(small, tmp_path / "r3", archive, instant(3)), archive)
    archive.begin(0, 0, "truncated", diverged_at=1, taken_at_ms=instant(4) + 2_000)
    archive.snapshot(instant(4) + 2_000, {0: minute(1, commit("a"), first=0) + minute(4, commit("z"), first=1)})
    record = run(small, tmp_path / "r4", archive, instant(4))
    assert record.base_as_of_ms is None
    assert all("has left lineage" in warning for warning in passed_over(record))
    groups = {row["group_id"] for row in tables(tmp_path / "r4")["groups/0.parquet"]}
    assert groups == {"a", "z"}  # nothing of b, which the older one had
    assert run(small, tmp_path / "r2", archive, instant(2)).cuts[0] == 4


def test_older_profiles_are_replayed_in_full(small: Engine, tmp_path: Path, archive: Archive) -> None:
    profile = "group_metadata_manager:2.8"
    assert not profile_of(profile).folds_in_slices
    publish(tmp_path / "r2", run(small, tmp_path / "r2", archive, instant(2), profile=profile), archive)
    record = run(small, tmp_path / "r3", archive, instant(3), profile=profile)
    assert (record.base_as_of_ms, passed_over(record)) == (None, [])


def test_what_is_published_is_what_was_checked(small: Engine, tmp_path: Path, archive: Archive) -> None:
    record = run(small, tmp_path / "r1", archive, instant(1))
    with pytest.raises(SextonError, match="not the one that the run was published with"):
        publish(tmp_path / "r1", record.model_copy(update={"checkpoint_sha256": "00"}), archive)
    folder = publish(tmp_path / "r1", record, archive)
    own = Folder(tmp_path / "r1" / "fold")
    assert files_sha256({name: sha256(own.read(name)).hexdigest() for name in own.files()}) == record.checkpoint_sha256
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    shutil.rmtree(tmp_path / "r1" / "fold")
    assert publish(tmp_path / "r1", record, archive) == folder  # done already
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before


def test_run_ids_have_checkpoints_of_their_own(small: Engine, tmp_path: Path, archive: Archive) -> None:
    record = run(small, tmp_path / "r1", archive, instant(1))
    names = ["scheduled__2026-11-21T06:00:00+00:00.1", "scheduled__2026-11-21T06_00_00_00_00.1", "../../x", "y" * 200]
    folders = {publish(tmp_path / "r1", record.model_copy(update={"run_id": name}), archive) for name in names}
    assert len(folders) == len(names)
    assert {folder.parent for folder in folders} == {Path(archive.root) / "cluster" / "checkpoints" / "topic"}
    known = checkpoint_folders(archive.fs, archive.root, cluster_id="cluster", topic_id="topic")
    assert {at for at, _ in known} == {instant(1)}
    assert len(known) == len(names)


def test_another_attempt_by_the_same_name_has_a_checkpoint_of_its_own(small, tmp_path, archive):
    profiles = ("group_coordinator", "group_coordinator:4.1", "group_coordinator")
    folders = [
        publish(tmp_path / "manual", run(small, tmp_path / "manual", archive, instant(1), profile=profile), archive)
        for profile in profiles
    ]
    assert folders[0] == folders[2] != folders[1]
    for profile in profiles:
        record = run(small, tmp_path / "r2", archive, instant(2), profile=profile)
        assert record.base_as_of_ms == instant(1)


# --- the weekly check


def test_the_check_finds_a_checkpoint_that_is_not_what_the_log_says(small, tmp_path, archive, published):
    out = RunFolder(tmp_path / "check")
    with pytest.raises(NoCoverage, match="no checkpoint is published"):
        compare_checkpoint(small, out, archive=str(tmp_path / "nowhere"))
    checked = compare_checkpoint(small, out, archive=archive.root, settle_ms=SETTLE_MS)
    assert (checked.as_of_ms, checked.run_id, checked.records) == (instant(2), "p2", 5)
    assert compare_checkpoint(small, out, archive=archive.root, as_of_ms=instant(1)).as_of_ms == instant(1)
    with pytest.raises(NoCoverage):
        compare_checkpoint(small, out, archive=archive.root, as_of_ms=instant(3))

    wrong = run(small, tmp_path / "wrong", archive, instant(1))  # a mistake that is written down with its right hash
    shutil.rmtree(published)
    positions = run(small, tmp_path / "p2", archive, instant(2)).positions
    publish(tmp_path / "wrong", wrong.model_copy(update={"as_of_ms": instant(2), "positions": positions}), archive)
    with pytest.raises(DataQualityFailure, match="a full replay differs from it in 0/"):
        compare_checkpoint(small, out, archive=archive.root)


def test_the_check_finds_damage(small: Engine, tmp_path: Path, archive: Archive, published: Path) -> None:
    flip(published)
    with pytest.raises(DataQualityFailure, match="SHA-256"):
        compare_checkpoint(small, RunFolder(tmp_path / "check"), archive=archive.root)


# --- coverage of a run


def test_the_coverage_of_a_run_is_told(small: Engine, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    archive.snapshot(instant(1) + 2_000, {0: minute(1, commit("a"), first=0)})
    archive.snapshot(instant(2) + 2_000, {0: minute(2, commit("a"), first=3)})
    whole = run(small, tmp_path / "r1", archive, instant(1))
    assert (whole.coverage, whole.coverage_reason) == ("complete", "")
    holed = run(small, tmp_path / "r2", archive, instant(2))
    assert holed.coverage == "partial"
    assert holed.coverage_reason == "log partition 0: 2 log_offsets before the cut hold no record"


def test_no_coverage_leaves_nothing_behind(small: Engine, tmp_path: Path, archive: Archive) -> None:
    with pytest.raises(NoCoverage, match="needs one taken at least 1000 ms after it"):
        run(small, tmp_path / "r4", archive, instant(4))
    with pytest.raises(NoCoverage, match="no record was written before"):
        run(small, tmp_path / "r0", archive, instant(0))
    assert not (tmp_path / "r4" / "run.json").exists()
    assert not (tmp_path / "r0" / "run.json").exists()
    assert not (Path(archive.root) / "cluster" / "cuts" / "topic" / f"{instant(4)}.json").exists()


def test_an_archive_of_several_clusters_wants_a_name(small: Engine, tmp_path: Path, archive: Archive) -> None:
    other = Archive(tmp_path / "archive", cluster_id="other")
    other.snapshot(instant(1) + 2_000, {0: minute(1, commit("x"), first=0)})
    with pytest.raises(UsageError, match="several clusters: cluster, other"):
        run(small, tmp_path / "r1", archive, instant(1))
    record = run(small, tmp_path / "r1", archive, instant(1), cluster_id="other")
    assert (record.cluster_id, record.cuts) == ("other", {0: 1})
    with pytest.raises(NoCoverage):
        run(small, tmp_path / "none", archive, instant(1), cluster_id="unknown")


def test_a_log_without_timestamps_answers_from_its_last_commit_on(small: Engine, tmp_path: Path) -> None:
    archive, (_, *_rest) = recorded(tmp_path / "archive", "kafka-0.9.0.1", Random(1))
    folder = GOLDEN / "kafka-0.9.0.1" / "swept"
    newest = run(small, tmp_path / "newest", archive, None, profile="offset_manager")
    assert newest.cuts == {part: next_offset(b"".join(files)) for part, files in segments(folder) if b"".join(files)}
    with pytest.raises(NoCoverage, match="bear no timestamp"):
        run(small, tmp_path / "early", archive, newest.as_of_ms - 1, profile="offset_manager", settle_ms=0)
