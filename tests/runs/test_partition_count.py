"""Which log partitions are here, and how many there are: what is said where that is not known."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from sexton.coordinator.partitioner import partition_of
from sexton.errors import NoCoverage, UsageError
from sexton.job_params import ReplayRequest
from sexton.pipeline import plan_tombstones
from sexton.pipeline.standalone import judged_run
from sexton.runs.folder import RunFolder, RunRecord
from sexton.runs.processes import SerialEngine
from sexton.runs.source import open_segments
from tests.log_builder import BASE_MS, commit
from tests.views.worlds import TAKEN_AT_MS, log_of, logs_of, view, write_log

MANY, FEW = [f"group-{number}" for number in range(400)], ["mail", "billing", "risk"]
OLD, NEW = 16, 50
CUT_OFF, MOVED = ("shipping", "search"), ("mail", "billing")


def some_of(group_ids: Iterable[str], parts: Iterable[int], *, count: int = 50) -> dict[int, bytes]:
    return {part: data for part, data in logs_of(group_ids, count).items() if part in parts}


@pytest.fixture
def grown(tmp_path: Path) -> str:
    """A topic of 16 log partitions that was given 50; two of four groups have committed since."""
    logs = logs_of([*CUT_OFF, *MOVED], OLD)
    for part, data in some_of(MOVED, range(NEW), count=NEW).items():
        logs[part] = logs.get(part, b"") + data
    here = {part for part, data in logs.items() if data} | {partition_of(name, NEW) for name in CUT_OFF}
    return str(write_log(tmp_path / "grown", {part: logs.get(part, b"") for part in sorted(here)}))


def audited(out: Path, segments: str | list[str], **request: object) -> RunRecord:
    asked = ReplayRequest(run_id="r", segments=segments, taken_at_ms=TAKEN_AT_MS, retention_minutes=1, **request)
    with SerialEngine(quiet=True) as engine:
        judged_run(engine, RunFolder(out), asked, None)
        return plan_tombstones.run(engine, RunFolder(out))


@pytest.mark.parametrize(
    ("logs", "count", "warning"),
    [
        (some_of(MANY, (3, 17, 41)), 50, None),
        (some_of(MANY, [3]), None, "1 folder of an unknown number of log partitions: 3; "),
        (some_of(MANY, range(25)), None, "25 folders of an unknown number of log partitions: 0 to 24; "),
        (some_of(FEW, range(50)), 50, "50 log partitions are assumed, Kafka's default"),
        (some_of(FEW, range(50)) | {7: log_of(commit("elsewhere", 1))}, None, "50 folders of an unknown number"),
        (logs_of(FEW, 4), None, "4 folders of an unknown number"),
        (logs_of(MANY, 4), 4, None),
    ],
    ids=["proven", "one of fifty", "half", "the default", "against the default", "few groups", "all"],
)
def test_a_count_is_what_is_proven_or_said_to_be_assumed(
    tmp_path: Path, logs: Mapping[int, bytes], count: int | None, warning: str | None
) -> None:
    opened = view(segments=str(write_log(tmp_path, logs)))
    assert opened.coordinator.partition_count == count
    assert [text for text in opened.warnings if "assumed" in text or "unknown number" in text] == (
        [text for text in opened.warnings if warning and warning in text]
    )
    assert any(warning in text for text in opened.warnings) if warning else True
    if count is None:
        with pytest.raises(NoCoverage, match=r"group 'nobody' is not here.*--partition-count N"):
            opened.check_coverage(["nobody"])
    else:
        assert view(segments=str(tmp_path), partition_count=60).coordinator.partition_count == 60


def test_a_count_that_is_given_must_hold_the_folders(tmp_path: Path) -> None:
    write_log(tmp_path, logs_of(FEW, 4))
    with pytest.raises(UsageError, match="3 log partitions by --partition-count, but there is a folder for 3"):
        view(segments=str(tmp_path), partition_count=3)


def test_an_empty_folder_is_an_empty_log_partition(tmp_path: Path) -> None:
    write_log(tmp_path / "log", {0: log_of(commit("group-1", 1))})
    (tmp_path / "log" / "__consumer_offsets-1").mkdir()
    record = audited(tmp_path / "out", str(tmp_path / "log"), partition_count=2)
    assert (record.coverage, record.log_partitions, record.missing_log_partitions) == ("complete", [0, 1], [])


def test_groups_in_several_folders_are_not_judged_where_their_place_is_not_known(grown: str, tmp_path: Path) -> None:
    record = audited(tmp_path / "out", grown, as_of_ms=BASE_MS + 10**9)
    folder = RunFolder(tmp_path / "out")
    assert (record.partition_count, record.coverage, record.lost) == (None, "partial", None)
    rows = [row for part in record.log_partitions for row in folder.read_table("unreachable_offsets", part).to_pylist()]
    assert {(row["group_id"], row["reason"]) for row in rows} == {(name, "undetermined") for name in MOVED}
    planned = [row for part in record.log_partitions for row in folder.read_table("tombstones", part).to_pylist()]
    assert {row["group_id"] for row in planned} == {*CUT_OFF}
    with pytest.raises(NoCoverage, match="group 'mail' is in log partitions 7, 49"):
        view(segments=grown).check_coverage(["mail"])
    with pytest.raises(NoCoverage, match="group 'mail' is in log partitions 7, 49"):
        view(run=str(tmp_path / "out")).check_coverage(["mail"])
    view(segments=grown).check_coverage(CUT_OFF)


def test_a_topic_that_grew_cuts_groups_off_from_their_offsets(grown: str, tmp_path: Path) -> None:
    record = audited(tmp_path / "out", grown, partition_count=NEW)
    assert record.lost is not None
    assert (record.lost.cause, record.lost.earlier_count, record.lost.offsets) == ("partition_count_changed", OLD, 2)
    assert record.lost.first == {name: [partition_of(name, OLD)] for name in sorted(CUT_OFF)}
    assert not record.lost.not_here


def test_several_log_directories_are_one_disk(tmp_path: Path) -> None:
    logs = logs_of(MANY, 4)
    roots = [
        str(write_log(tmp_path / name, {part: logs[part] for part in parts}))
        for name, parts in (("a", (0, 3)), ("b", (1, 2)))
    ]
    source = open_segments(roots, topics_file=None)
    assert sorted(source.segments) == [0, 1, 2, 3]
    assert source.warnings == [f"2 log directories, with their log partitions: {roots[0]} (2), {roots[1]} (2)"]
    record = audited(tmp_path / "out", roots)
    assert (record.partition_count, record.coverage, record.log_dirs) == (4, "complete", roots)
    with pytest.raises(UsageError, match="__consumer_offsets-0 is also in"):
        open_segments([*roots, roots[0]], topics_file=None)


def test_log_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    roots = [str(write_log(tmp_path / name, {part: b""})) for part, name in enumerate("ab")]
    for root in roots:
        (Path(root) / "meta.properties").write_text(f"cluster.id={Path(root).name}\n")
    with pytest.raises(UsageError, match="of different clusters: a, b"):
        open_segments(roots, topics_file=None)
