"""The job without a broker: a published run, an archive with its snapshot, and what brokers would answer."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from sexton.audits import audit_lag
from sexton.audits.audit_lag import LagAudit, LagRequest
from sexton.errors import DataQualityFailure, NoCoverage, Refused
from sexton.kafka.client import ClientConfig
from sexton.lag.measure_lag import LAGS
from sexton.lake.branch import ensure_tables
from sexton.lake.catalog import Lake
from sexton.lake.read import load
from sexton.log.batch import encode_batch
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.tables import TABLES
from tests.archived import Archive
from tests.kafka.test_time_points import Logs
from tests.maintenance.lakes import publish, row

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
AS_OF = 1_790_000_000_000
"""Of the second run."""
NOW = AS_OF + 20 * MINUTE_MS
RETENTION_MS = 8 * HOUR_MS
END = 600
"""Both partitions have a record a minute up to AS_OF, as the broker stamped them."""
NAMES = ("committed_offsets", "pending_offsets", "topic_partitions", "load_profile", "runs", "time_lag")
FOLDED = encode_batch([(b"\0\1", b"")], base_offset=0, timestamp_ms=AS_OF - 3 * HOUR_MS, producer_id=-1)


class Brokers(Logs):
    """As Logs, with settings of the topic and leader epochs: both logs leave epoch 3 at offset 200."""

    def __init__(self, cluster_id: str) -> None:
        stamps = [AS_OF - (END - 1 - n) * MINUTE_MS for n in range(END)]
        super().__init__(stamps, stamps, start=100)
        self.cluster_id = cluster_id

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        kind = type(request).__name__
        if kind == "OffsetForLeaderEpochRequest":
            (asked,) = request.topics
            assert {each.leader_epoch for each in asked.partitions} == {3}
            found = [Answer(partition=each.partition, error_code=0, end_offset=200) for each in asked.partitions]
            return Answer(topics=[Answer(topic="t", partitions=found)])
        answer = super().call(request, node_id=node_id)
        if kind == "MetadataRequest":
            answer.cluster_id = self.cluster_id
        return answer

    def check(self, error_code: int, *_: Any, **__: Any) -> None:
        assert error_code == 0


SETTINGS = {"message.timestamp.type": "LogAppendTime", "retention.ms": str(RETENTION_MS), "cleanup.policy": "delete"}
Groups = dict[str, dict[str, Any]]
GROUPS: Groups = {
    "at-end": {"committed_offset": END}, "late": {"committed_offset": END - 60, "partition": 1},
    "stands": {"committed_offset": 150}, "cut": {"committed_offset": 250, "leader_epoch": 3},
    "purged": {"committed_offset": 99},
}  # fmt: skip


class World:
    """A cluster of its own: its archive, and its published runs."""

    def __init__(self, iceberg: Engine, lake: Lake, folder: Path, cluster_id: str) -> None:
        self.iceberg, self.lake, self.folder, self.cluster_id = iceberg, lake, folder, cluster_id
        ensure_tables(iceberg.session, lake, [TABLES[name] for name in NAMES])
        archive = Archive(folder / "archive", cluster_id=cluster_id)
        for at_ms, end, log in ((AS_OF - 2 * HOUR_MS, END - 120, {0: FOLDED}), (AS_OF + 2 * MINUTE_MS, END, {})):
            archive.topics = [{"topic": "t", "id": "id", "partitions": [[100, end], [100, end]]}]
            archive.snapshot(at_ms, log)

    def publish(self, as_of_ms: int, groups: Groups) -> None:
        key = self.cluster_id, as_of_ms
        common = {"topic": "t", "partition": 0, "log_partition": 0, "log_offset": 0, "metadata": ""}
        common |= {"commit_timestamp_ms": as_of_ms, "producer_id": -1}
        offsets = [
            row("committed_offsets", key, group_id=name, **{**common, **values}) for name, values in groups.items()
        ]
        pending = [row("pending_offsets", key, group_id="late", **{**common, "partition": 1, "producer_id": 77})]
        partitions = [
            row(
                "topic_partitions", key, topic="t", topic_id="id", partition=n, log_start_offset=100, log_end_offset=END
            )
            for n in range(2)
        ]
        outcomes = enumerate(("loaded", "empty_cache"))
        loads = [row("load_profile", key, log_partition=part, load_outcome=outcome) for part, outcome in outcomes]
        tables = dict(zip(NAMES, (offsets, pending, partitions, loads), strict=False))
        told = {"cuts": [{"log_partition": 0, "cut": 1}], "profile": "group_coordinator:4.3.1"}
        publish(self.iceberg.session, self.lake, key, tables, **told)

    def audit(self, *, run_id: str = "attempt", at_ms: int = NOW, **asked: Any) -> LagAudit:
        config = ClientConfig(bootstrap_servers="none:1")
        return audit_lag.run(
            RunFolder(self.folder / "run"),
            self.lake,
            LagRequest(run_id=run_id, config=config, archive=str(self.folder / "archive"), **asked),
            as_of_ms=at_ms,
            now_ms=lambda: NOW,
            connect=lambda _: nullcontext(Brokers(self.cluster_id)),  # type: ignore[arg-type,return-value]
        )

    def rows(self, as_of_ms: int = AS_OF) -> dict[str, dict[str, Any]]:
        found = load(self.lake, "time_lag").scan().to_arrow().to_pylist()
        mine = [each for each in found if (each["cluster_id"], each["as_of_ms"]) == (self.cluster_id, as_of_ms)]
        return {each["group_id"]: each for each in mine}


@pytest.fixture
def world_of(iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], World]:
    answers = [Answer(settings=SETTINGS)]
    monkeypatch.setattr("sexton.lag.measure_lag.described", lambda _, *topics: answers * len(topics))
    return lambda cluster_id: World(iceberg, lake, tmp_path, cluster_id)


def test_the_lag_of_the_newest_run_is_published(world_of: Callable[[str], World]) -> None:
    world = world_of("lag")
    world.publish(AS_OF, GROUPS | {"of a failed load": {"committed_offset": 99, "log_partition": 1}})
    done = world.audit()
    assert (done.run_as_of_ms, done.offsets, done.unrefined) == (AS_OF, len(GROUPS), 0)
    assert done.resets == {"truncated": 1, "behind_log_start": 1}
    found = world.rows()
    assert found.keys() == GROUPS.keys()
    assert {each["run_id"] for each in found.values()} == {"attempt"}
    late = found["late"]
    assert (late["lag"], late["lag_min_ms"], late["lag_max_ms"]) == (60, 59 * MINUTE_MS, 59 * MINUTE_MS)
    assert (late["basis"], late["timestamp_type"], late["pending_producer_ids"]) == (
        "timestamps",
        "LogAppendTime",
        [77],
    )
    assert late["loses_at_min_ms"] == late["loses_at_ms"] == AS_OF - 59 * MINUTE_MS + RETENTION_MS
    assert (late["lag_growth"], late["unrefined"], late["would_reset"]) == (None, None, None)
    at_end = found["at-end"]
    assert (at_end["basis"], at_end["lag_max_ms"], at_end["loses_at_ms"]) == ("log_end", 0, None)
    cut = found["cut"]
    assert (cut["would_reset"], cut["diverged_at"], cut["leader_epoch"]) == ("truncated", 200, 3)
    purged = found["purged"]
    assert (purged["would_reset"], purged["lag_max_ms"], purged["loses_at_ms"]) == ("behind_log_start", None, None)


def test_an_attempt_replaces_the_rows_of_the_one_before(world_of: Callable[[str], World]) -> None:
    world = world_of("again")
    world.publish(AS_OF, GROUPS)
    first = world.audit(run_id="first")
    again = world.audit(run_id="second")
    assert {each["run_id"] for each in world.rows().values()} == {"second"}
    assert len(world.rows()) == len(GROUPS)
    assert (first.questions > 0, again.questions) == (True, 0), "what is archived is not asked again"


def test_growth_since_the_run_before_refines_what_is_lost(world_of: Callable[[str], World]) -> None:
    """An hour before: `late` was half an hour less late, `stands` where it is, `at-end` far behind."""
    world = world_of("growth")
    early = {
        "at-end": {"committed_offset": 400}, "late": {"committed_offset": END - 60 - 30, "partition": 1},
        "stands": {"committed_offset": 150}, "cut": {"committed_offset": 251, "leader_epoch": 3},
    }  # fmt: skip
    world.publish(AS_OF - HOUR_MS, early)
    world.audit(at_ms=AS_OF - 1)
    world.publish(AS_OF, GROUPS)
    world.audit()
    found = world.rows()
    growth = {group: each["lag_growth"] for group, each in found.items()}
    assert growth["late"] == pytest.approx(0.5)
    assert growth["stands"] == 1.0
    assert growth["at-end"] < 0
    assert growth["cut"] is growth["purged"] is None, "one went back, the other is new"
    left_ms = found["late"]["loses_at_min_ms"] - AS_OF
    assert found["late"]["loses_at_ms"] == pytest.approx(AS_OF + 2 * left_ms, abs=2)
    assert found["stands"]["loses_at_ms"] == found["stands"]["loses_at_min_ms"]


def test_what_is_new_since_the_audit_before_is_an_alert(world_of: Callable[[str], World]) -> None:
    """Within nine hours all that is unread is lost: `stands` and `cut` soon, `late` too."""
    world = world_of("alerts")
    world.publish(AS_OF - HOUR_MS, {"stands": GROUPS["stands"], "purged": GROUPS["purged"]})
    first = world.audit(at_ms=AS_OF - 1, alert_hours=9)
    assert [line.partition(":")[0] for line in first.alerts] == [
        "1 offsets of 1 groups became behind_log_start",
        "1 offsets of 1 groups lose unread messages within 9 hours, the first at "
        f"{world.rows(AS_OF - HOUR_MS)['stands']['loses_at_ms']} ms",
    ]
    world.publish(AS_OF, GROUPS)
    second = world.audit(alert_hours=9)
    assert second.losing == 3
    assert [line.partition(":")[0].partition(",")[0] for line in second.alerts] == [
        "1 offsets of 1 groups became truncated",
        "2 offsets of 2 groups lose unread messages within 9 hours",
    ]
    assert not any(name in line for line in second.alerts for name in GROUPS)
    assert not any("lose" in line for line in world.audit(alert_hours=0).alerts)


def test_another_cluster_and_no_run(world_of: Callable[[str], World]) -> None:
    world = world_of("other")
    with pytest.raises(NoCoverage, match="no run is published"):
        world.audit()
    with pytest.raises(Refused, match="this is cluster other, expected mine"):
        world.audit(cluster_id="mine")


def test_what_breaks_a_law_is_not_published(world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of("broken")
    world.publish(AS_OF, GROUPS)
    monkeypatch.setattr(audit_lag, "measure", lambda _: LAGS.empty_table())
    with pytest.raises(DataQualityFailure, match="every committed offset of the run has its lag"):
        world.audit()
    assert world.rows() == {}
