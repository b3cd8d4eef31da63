"""The recordings of tests/golden/replicas, unpacked once."""

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.profiles import NEWEST
from sexton.replicas import ReplicaComparison, ReplicaFolder, compare
from sexton.replicas.folders import log_partitions
from sexton.replicas.states import state_of

GOLDEN = Path(__file__).parents[1] / "golden" / "replicas"
SCENARIOS = sorted(path.name.removesuffix(".tar.gz") for path in GOLDEN.glob("*.tar.gz"))
Key = tuple[str | None, str | None]
"""(group, "topic-partition" or None for the group itself), as scenario.json has it."""


def unpack(name: str, into: Path) -> Path:
    """The folder of a scenario below `into`."""
    if not (into / name).exists():
        with tarfile.open(GOLDEN / f"{name}.tar.gz") as packed:
            packed.extractall(into, filter="data")
    return into / name


def folders(root: Path, names: Sequence[str] = "ABC") -> list[ReplicaFolder]:
    return [ReplicaFolder.open(str(root / name), name) for name in names]


def compared(root: Path, names: Sequence[str] = "ABC") -> ReplicaComparison:
    return compare(folders(root, names))


def coordinator_of(folder: Path) -> Coordinator:
    """The coordinator that has loaded the log partitions of a replica to their ends."""
    logs = log_partitions(ReplicaFolder.open(str(folder)))
    states = {number: state_of(log, stop=log.end, profile=NEWEST, cap_bytes=1 << 24)[0] for number, log in logs.items()}
    shards = {number: state.shard(NEWEST) for number, state in states.items()}
    return Coordinator(profile=NEWEST, partition_count=len(logs), shards=shards)


def scenario(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "scenario.json").read_text())
    return found


def by_key(differences: pa.Table) -> dict[Key, dict[str, Any]]:
    """Rows by key; there is one for each."""
    rows = differences.to_pylist()
    found = {(row["group_id"], key_text(row)): row for row in rows}
    assert len(found) == len(rows)
    return found


def key_text(row: dict[str, Any]) -> str | None:
    return None if row["topic"] is None else f"{row['topic']}-{row['partition']}"
