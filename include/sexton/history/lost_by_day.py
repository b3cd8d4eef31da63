"""Lost offsets over time: the disappearances in `offset_changes` by day, cause and group, over all published history.

Expired runs are included. Overlapping intervals of several runs, such as an hourly and a daily run, count once. Days
are in UTC.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sexton.as_text import DAY_MS
from sexton.errors import NoCoverage
from sexton.lake.database import Rows, marks
from sexton.lake.published_tables import PublishedTables, of_cluster
from sexton.lake.read import PublishedRun
from sexton.tables.change_causes import CAUSES, ChangeKind

KINDS = (*CAUSES, ChangeKind.AMBIGUOUS)
MAX_GROUPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """Offsets lost up to an instant: one row per day with `day` and the number of each of KINDS (None for days without
    published changes), the sum of each kind, and one row for each of the groups with the most lost offsets.
    """

    until_ms: int
    days: Rows
    totals: dict[str, int]
    groups: Rows


def lost_offsets(tables: PublishedTables, runs: Sequence[PublishedRun], *, days: int) -> LostOffsets:
    """Offsets lost in the last `days` days up to the newest of `runs` (oldest first), in that run's cluster."""
    if not runs:
        raise NoCoverage("no run is published")
    newest = runs[-1].key
    last_day = (newest.as_of_ms - 1) // DAY_MS
    first_day = last_day - days + 1
    source, _ = tables.between("offset_changes", newest.cluster_id, first_day * DAY_MS, newest.as_of_ms)
    gone = f"""(SELECT group_id, any_value(kind) AS kind, at_ms
        FROM (SELECT *, coalesce(timestamp_ms, changed_by_ms, as_of_ms) AS at_ms FROM {source})
        WHERE kind IN ({marks(KINDS)}) AND at_ms >= {first_day * DAY_MS}
        GROUP BY log_partition, group_id, topic, partition, log_offset, at_ms)"""
    known = {row["day"] for row in tables.rows(f"SELECT DISTINCT (as_of_ms - 1) // {DAY_MS} AS day FROM {source}")}
    for run in of_cluster(runs, newest.cluster_id):
        if run.row["changes_since_ms"] is not None:
            since_day = max(run.row["changes_since_ms"] // DAY_MS, first_day)
            known |= {*range(since_day, (run.key.as_of_ms - 1) // DAY_MS + 1)}
    lost = {
        (row["day"], row["kind"]): row["offsets"]
        for row in tables.rows(
            f"SELECT at_ms // {DAY_MS} AS day, kind, count(*) AS offsets FROM {gone} GROUP BY ALL", *KINDS
        )
    }
    by_day: Rows = [
        {"day": _date(day), **{kind.value: lost.get((day, kind), 0) if day in known else None for kind in KINDS}}
        for day in range(first_day, last_day + 1)
    ]
    return LostOffsets(
        until_ms=newest.as_of_ms,
        days=by_day,
        totals={kind.value: sum(row[kind.value] or 0 for row in by_day) for kind in KINDS},
        groups=tables.rows(
            f"""SELECT group_id, count(*) AS offsets, max(at_ms) AS last_ms, list_sort(list(DISTINCT kind)) AS kinds
                FROM {gone} GROUP BY group_id ORDER BY offsets DESC, group_id LIMIT {MAX_GROUPS}""",
            *KINDS,
        ),
    )


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date().isoformat()
