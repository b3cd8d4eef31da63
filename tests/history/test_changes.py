"""offset_changes of recorded log partitions, from their files: as the table declares it, and the same in every way."""

from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata
from sexton.archive.folder import Folder
from sexton.coordinator.changes.replay import changes
from sexton.coordinator.loading import load
from sexton.coordinator.profiles import of_broker
from sexton.history.offset_changes import changes_of, known_of
from sexton.kernels.fold import PartialFold, fold_task
from sexton.kernels.results import finish
from sexton.log.segment import list_segments, plan_fold_tasks
from sexton.quality.laws import CHANGE_LAWS
from sexton.tables import TABLES
from tests.coordinator.golden import CAP_BYTES, GOLDEN, RELEASES, segments
from tests.quality.world import broken_laws

LOCAL = pafs.LocalFileSystem()
RECORDINGS = ("kafka-4.3.1-lz4", "kafka-4.0.0", "kafka-2.8.2-plain", "kafka-2.0.1")


def facts(taken_at_ms: int, *, minutes: str | None = "1", **ids: str) -> ClusterMetadata:
    return ClusterMetadata(
        taken_at_ms=taken_at_ms,
        cluster_id="c",
        broker_version=None,
        settings={"offsets.retention.minutes": minutes} if minutes else {},
        topic_id="o",
        partition_count=4,
        topics=[{"topic": name, "id": topic_id, "partitions": [[0, 1]]} for name, topic_id in ids.items()],
    )


def fold_of(folder: Path, log_partition: int, recording: str) -> PartialFold:
    found = list_segments(LOCAL, str(folder))[log_partition]
    (task,) = plan_fold_tasks(found, target_bytes=1 << 40)
    datas = [Path(span.path).read_bytes() for span in task.slices]
    profile = of_broker(RELEASES[recording])
    return fold_task(datas, task=task, cap_bytes=CAP_BYTES, as_of_ms=None, taken_at_ms=None, profile=profile)


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("has_start", [True, False])
def test_equal_the_plain_replay(recording: str, has_start: bool, tmp_path: Path) -> None:
    profile = of_broker(RELEASES[recording])
    known = known_of(None, facts(1 << 50))
    before, swept = (dict(segments(GOLDEN / recording / name)) for name in ("before", "swept"))
    for log_partition, found in list_segments(LOCAL, str(GOLDEN / recording / "swept")).items():
        start = fold_of(GOLDEN / recording / "before", log_partition, recording) if has_start else None
        if start is not None:  # as it comes from a checkpoint
            start.write_parquet(Folder(tmp_path / str(log_partition)))
            start = PartialFold.read_parquet(Folder(tmp_path / str(log_partition)))
        table = changes_of(
            LOCAL, found, log_partition=log_partition, start=start, cut=None, known=known, profile=profile
        )
        assert table.schema == TABLES["offset_changes"].arrow_schema(with_run=False, origin="log")
        assert table.num_rows == 0 or pc.unique(table["log_partition"]).to_pylist() == [log_partition]
        loaded = load(before[log_partition] if has_start else [], cap_bytes=CAP_BYTES, profile=profile)
        later = b"".join(swept[log_partition])[sum(map(len, before[log_partition])) if has_start else 0 :]
        rows = [row.to_row() for row in changes(loaded, [later], known=known, cap_bytes=CAP_BYTES)]
        assert table.drop_columns(["log_partition"]).to_pylist() == rows
        assert rows

        end = finish(
            fold_of(GOLDEN / recording / "swept", log_partition, recording),
            log_partition=log_partition,
            partition_count=None,
        )
        state = {name: end[name] for name in ("committed_offsets", "unreachable_offsets")}
        assert not any(broken_laws({**state, "offset_changes": table}, CHANGE_LAWS).values())


def test_what_is_known() -> None:
    known = known_of(facts(1, minutes="10", t="T"), facts(9, minutes="5", u="U"))
    assert known.retentions_ms == (300_000, 600_000)
    assert known.before is not None
    assert (known.before.taken_at_ms, known.before.ids) == (1, {"t": "T"})
    assert known.after is not None
    assert known.after.ids == {"u": "U"}
    assert known_of(None, facts(9), retention_ms=7).retentions_ms == (7,)
    assert known_of(None, facts(9, minutes=None)).retentions_ms is None
    assert known_of(None, None).before is None
