"""What the pages speak of, small: a broker's disk, the archive of the same log, policies, a run, a plan, a lake.

The log: groups in four log partitions, from September to the morning of 2026-11-21, whose instants the
pages name. `my-group` is an empty classic group that committed to `orders` and `clicks`, and has lost orders:3.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sexton.cli.demo import RECORDING
from sexton.coordinator.partitioner import partition_of
from sexton.lake.branch import RunKey
from sexton.records import kafka_uuid
from sexton.settings import settings
from sexton.tables import SNAPSHOT_TABLES
from tests.archived import CLUSTER, Archive, next_offset
from tests.docs.pages import ROOT
from tests.log_builder import TOPIC_IDS, BatchSpec, classic_fields, commit, encode_log, group_entry, tombstone
from tests.ui.lakes import lake_at

LOG_PARTITIONS = 4
SETTLED_MS = 65_000
GROUP = "my-group"
PUBLISHED = ("2026-11-20T00:00:00Z", "2026-11-20T22:00:00Z", "2026-11-21T06:00:00Z")
SNAPSHOTS = ("2026-10-21T04:00:00Z", *PUBLISHED[:1], "2026-11-20T18:00:00Z", *PUBLISHED[1:2],
             "2026-11-21T00:00:00Z", "2026-11-21T04:00:00Z", *PUBLISHED[2:])  # fmt: skip
TOPICS = {"orders": [[0, 500]] * 4, "clicks": [[0, 500]]}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Written:
    """A batch: when, of which group, what."""

    at_ms: int
    group_id: str
    entries: Sequence[Any]

    @property
    def log_partition(self) -> int:
        return partition_of(self.group_id, LOG_PARTITIONS)


def committed(when: str, group_id: str, *places: tuple[str, int, int]) -> Written:
    fields: dict[str, Any] = {"version": 3, "commit_timestamp_ms": at(when)}
    return Written(
        at(when), group_id, [commit(group_id, offset, topic, number, **fields) for topic, number, offset in places]
    )


def groups_everywhere() -> list[str]:
    """Enough groups that no log partition is empty."""
    names = [f"team-a-{number}" for number in range(200)]
    return list({partition_of(name, LOG_PARTITIONS): name for name in names}.values())


def story() -> list[Written]:
    empty = classic_fields(protocol=None, state_timestamp_ms=at("2026-11-20T12:00:00Z"))
    every = (("orders", 0, 10), ("orders", 1, 11), ("orders", 2, 12), ("orders", 3, 13), ("clicks", 0, 14))
    return [
        *(committed("2026-09-20T10:00:00Z", group_id, ("orders", 0, 1)) for group_id in groups_everywhere()),
        committed("2026-10-20T10:00:00Z", GROUP, *every),
        committed("2026-10-20T11:00:00Z", "ci-build-7", ("orders", 0, 3)),
        committed("2026-10-20T12:00:00Z", "other-group", ("clicks", 0, 5)),
        committed("2026-11-19T10:00:00Z", GROUP, *((topic, number, offset + 90) for topic, number, offset in every)),
        Written(at("2026-11-20T12:00:00Z"), GROUP, [group_entry(2, GROUP, empty)]),
        Written(at("2026-11-20T20:00:00Z"), GROUP, [tombstone(GROUP, "orders", 3)]),
        committed("2026-11-21T05:00:00Z", "other-group", ("clicks", 0, 6)),
    ]


def make(folder: Path) -> None:
    """Disk, backup, copies of replicas, archive, topics, policies."""
    archive = Archive(folder / "archive", partitions=LOG_PARTITIONS, topics=topics())
    logs: dict[int, bytes] = {}
    behind = 0
    for instant in SNAPSHOTS:
        new: dict[int, bytes] = {}
        for each in (each for each in story() if behind <= each.at_ms < at(instant)):
            part = each.log_partition
            log = logs.get(part, b"")
            batch = encode_log(
                [BatchSpec(entries=tuple(each.entries), timestamp_ms=each.at_ms)],
                base_offset=next_offset(log) if log else 0,
            )
            logs[part], new[part] = log + batch, new.get(part, b"") + batch
        archive.snapshot(at(instant) + SETTLED_MS, new)
        behind = at(instant)
    for name in ("disk", "backup"):
        write_disk(folder / name, logs)
    for node_id in (1, 2, 3):
        for name in ("", "replicas/"):
            write_disk(folder / f"{name}broker-{node_id}", logs, node_id=node_id)
    for number in (0, 1):
        half = range(number, LOG_PARTITIONS, 2)
        for name in (f"data-{number}", f"broker-1/data-{number}"):
            write_disk(folder / name, logs, half)
    write_disk(folder / "grown", logs, range(50))
    own = {"topic": "__consumer_offsets", "id": None, "partitions": [[0, 0]] * LOG_PARTITIONS}
    (folder / "topics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in [own, *topics()]))
    shutil.copytree(RECORDING, folder / "sexton-demo" / "log")
    for name in ("kafka-authorizer.log", "kafka-request.log"):
        (folder / name).write_text("[2026-11-20 20:00:00,000] WARN not what anybody looks for (kafka.Other)\n")
    write_policies(folder)


def topics() -> list[dict[str, Any]]:
    ids = map(kafka_uuid, TOPIC_IDS[1:])
    return [
        {"topic": name, "id": topic_id, "partitions": ranges}
        for (name, ranges), topic_id in zip(TOPICS.items(), ids, strict=True)
    ]


def write_disk(
    folder: Path, logs: dict[int, bytes], parts: Iterable[int] = range(LOG_PARTITIONS), *, node_id: int = 1
) -> None:
    for part in parts:
        place = folder / f"__consumer_offsets-{part}"
        place.mkdir(parents=True)
        (place / f"{0:020d}.log").write_bytes(logs.get(part, b""))
    (folder / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id={node_id}\n")


def write_policies(folder: Path) -> None:
    """Those of docs/policy.md, under the names that pages give them."""
    text = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    policy, tests = (block.split("```", 1)[0] for block in text.split("```yaml\n")[1:3])
    for name in ("policy.yaml", "retention.yaml", "new.yaml"):
        (folder / name).write_text(policy)
    (folder / "old-policy.yaml").write_text(policy.replace("retention: 2d", "retention: 5d"))
    for name in ("team.yaml", "team-a.yaml"):
        (folder / name).write_text(tests)


def publish(folder: Path, run_folders: dict[str, Path]) -> None:
    """A lake with the tables of runs, by the instants of these."""
    lake = lake_at(folder)
    for instant, run_folder in run_folders.items():
        record = json.loads((run_folder / "run.json").read_text())
        key = RunKey(cluster_id=record["cluster_id"], as_of_ms=at(instant), run_id=record["run_id"])
        tables = {
            table.name: pq.read_table(run_folder / table.name, partitioning=None)
            for table in SNAPSHOT_TABLES
            if any((run_folder / table.name).glob("*.parquet"))
        }
        lake.publish(key, tables)


def copies(folder: Path, source: str, *names: str) -> None:
    for name in names:
        shutil.copytree(folder / source, folder / name)


def point_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a deployment would have set, and a home where completion may be installed."""
    monkeypatch.chdir(folder)
    for name, value in {
        "SEXTON_ARCHIVE": "archive",
        "SEXTON_WAREHOUSE": str(folder / "lake" / "warehouse"),
        "SEXTON_CATALOG_URI": f"jdbc:sqlite:{folder / 'lake' / 'catalog.db'}",
        "SEXTON_RUNS": str(folder / "runs"),
        "HOME": str(folder),
    }.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
