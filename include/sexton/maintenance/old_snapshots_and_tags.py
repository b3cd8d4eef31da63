"""Selects a table's Iceberg snapshots, tags and branches that compact_tables removes: those older than
SEXTON_MAINTENANCE_LAKE_DAYS that no published run needs."""

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from sexton.lake.branch import PUBLISHED

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

_BRANCH_OF_RUN = re.compile(r"run_[A-Za-z0-9_]+")


def old_branches(table: "IcebergTable", before_ms: int) -> list[str]:
    """Return the branches of runs that were last written before an instant."""
    return sorted(name for name, _ in _old_refs(table, before_ms) if _BRANCH_OF_RUN.fullmatch(name))


def old_tags(table: "IcebergTable", before_ms: int, *, named: Collection[int]) -> list[str]:
    """Return the tags of runs that were published before an instant and are no longer published."""
    return sorted(
        name for name, head in _old_refs(table, before_ms) if name.startswith(PUBLISHED) and head not in named
    )


def _old_refs(table: "IcebergTable", before_ms: int) -> Iterator[tuple[str, int]]:
    """Branches and tags that were last written before an instant, with their snapshots."""
    for name, ref in table.refs().items():
        head = table.snapshot_by_id(ref.snapshot_id)
        if head is not None and head.timestamp_ms < before_ms:
            yield name, head.snapshot_id


def old_snapshots(
    table: "IcebergTable", before_ms: int, *, named: Collection[int], but_for: Collection[str] = ()
) -> list[int]:
    """Return snapshots from before an instant that no run, branch or tag refers to; branches and tags in `but_for` do
    not count."""
    heads = {ref.snapshot_id for name, ref in table.refs().items() if name not in but_for}
    return sorted(
        snapshot.snapshot_id
        for snapshot in table.snapshots()
        if snapshot.timestamp_ms < before_ms and snapshot.snapshot_id not in heads and snapshot.snapshot_id not in named
    )
