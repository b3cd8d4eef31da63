"""Admin snapshots, made by hand."""

from collections.abc import Mapping
from typing import Any

from sexton.archive.admin_snapshots import GROUPS, AdminSnapshot, AdminSnapshotWriter
from sexton.archive.cluster_metadata import ClusterMetadata
from tests.archived import Archive

Key = tuple[str, str, int]


def group_row(group_id: str, at_ms: int, **values: Any) -> list[Any]:
    """A row of GROUPS: an Empty classic group of consumers that was answered about within 2 ms, or as `values` say."""
    found: dict[str, Any] = {
        "group_id": group_id, "group_type": "Classic", "state": "Empty", "protocol_type": "consumer",
        "member_count": 0, "subscription_known": True, "coordinator": 1, "offsets_asked_ms": at_ms,
        "offsets_answered_ms": at_ms + 1, "asked_ms": at_ms + 1, "answered_ms": at_ms + 2,
    }  # fmt: skip
    return [{**found, **values}.get(name) for name in GROUPS.names]


def write_snapshot(
    archive: Archive, taken_at_ms: int, groups: Mapping[str, Mapping[str, Any]], offsets: Mapping[Key, int], *,
    partition_count: int = 4, sees_all_topics: bool = True, settings: Mapping[str, str] | None = None,
    **manifest: Any,
) -> AdminSnapshot:  # fmt: skip
    writer = AdminSnapshotWriter()
    writer.add("groups", [group_row(name, taken_at_ms, **values) for name, values in groups.items()])
    writer.add("offsets", [(*key, value, None, "", False) for key, value in offsets.items()])
    metadata = ClusterMetadata(
        taken_at_ms=taken_at_ms,
        cluster_id=archive.cluster_id,
        broker_version="4.3",
        settings={"offsets.retention.minutes": "10"} if settings is None else dict(settings),
        topic_id="unknown",
        partition_count=partition_count,
        topics=[{"topic": "t", "id": None, "partitions": [[0, 99]] * 3}],
        sees_all_topics=sees_all_topics,
    )
    told = {"finished_at_ms": taken_at_ms + 5, "reason": "hidden", "sees_all_groups": True, **manifest}
    snapshot = AdminSnapshot(cluster_id=archive.cluster_id, taken_at_ms=taken_at_ms, metadata=metadata, **told)
    return writer.write(archive.fs, archive.root, snapshot)
