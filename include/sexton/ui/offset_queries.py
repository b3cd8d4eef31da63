"""Committed offsets of all groups of a run, searched by group, topic, reason and finding, a page at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar

from fastapi import Query

from sexton.lake.database import Rows, marks
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun
from sexton.ui.lag_queries import OFFSET_LAG, lag_of
from sexton.ui.paging import Page, PageSize, Search, conditions, page_of

FINDINGS: Mapping[str, str] = {
    "due": "broker_verdict = 'expire'",
    "policy_due": "policy_verdict = 'expire'",
    "held": "policy_verdict = 'hold'",
    "orphan": "orphan IS NOT NULL",
    "left_topic": "left_topic",
    "behind_log_start": "behind_log_start",
    "beyond_log_end": "beyond_log_end",
    "pinned": "pinned_by_producer_id IS NOT NULL",
}
"""Finding about an offset -> SQL condition on the offset's row of offset_verdicts."""
_ORDERS: Mapping[str, str] = {
    "group_id": "group_id, topic, partition",
    "topic": "topic, partition, group_id",
    "broker_expires_at_ms": "broker_expires_at_ms NULLS LAST, group_id, topic, partition",
}
MAX_PAGES = 2_000
"""Pages that can be reached; to see more, narrow the search or read the table."""

_FIELDS = """group_id, topic, partition, broker_verdict, broker_reason, broker_expires_at_ms, due_after_ms,
    policy_verdict, policy_reason, policy_rule, orphan, left_topic, behind_log_start, beyond_log_end,
    pinned_by_producer_id, pinned_by_transactional_id, pinned_verdict, log_partition"""

_KEY = ("group_id", "topic", "partition")
_COMMIT = ("committed_offset", "commit_timestamp_ms", "commit_after_ms", "commit_by_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetQuery:
    """The query parameters of the list. `group` and `topic` match any part of the names, ignoring case."""

    group: Annotated[Search, Query(description="a part of the group id, ignoring case")] = ""
    topic: Annotated[Search, Query(description="a part of the topic's name, ignoring case")] = ""
    reason: Annotated[str, Query(max_length=40)] = ""
    finding: Annotated[str, Query(pattern=f"^({'|'.join(FINDINGS)})?$")] = ""
    sort: Annotated[str, Query(pattern=f"^({'|'.join(_ORDERS)})$")] = "broker_expires_at_ms"
    page: Annotated[int, Query(ge=1, le=MAX_PAGES)] = 1
    size: PageSize = 50
    is_descending: ClassVar[bool] = False

    @property
    def params(self) -> dict[str, str]:
        """The query as parameters of a link, without the page."""
        names = ("group", "topic", "reason", "finding", "sort")
        return {name: getattr(self, name) for name in names}


def find_offsets(tables: PublishedTables, run: PublishedRun, query: OffsetQuery) -> Page:
    """A page of offsets with their verdicts, committed offsets, and lag in time if it was audited."""
    has = "contains(lower({}), lower(?))"
    where, values = conditions(
        {has.format("group_id"): query.group, has.format("topic"): query.topic, "broker_reason = ?": query.reason},
        *([FINDINGS[query.finding]] if query.finding else ()),
    )
    found = page_of(
        tables,
        _FIELDS,
        f"{tables.held(run, 'offset_verdicts')} WHERE {where}",
        values,
        order=f"{_ORDERS[query.sort]}, log_partition",
        page=query.page,
        size=query.size,
        max_pages=MAX_PAGES,
    )
    _add(tables, found.rows, _COMMIT, tables.of_run(run, "committed_offsets"), ("log_partition", *_KEY))
    _add(tables, found.rows, OFFSET_LAG, lag_of(tables, run), _KEY)
    return found


def _add(tables: PublishedTables, rows: Rows, columns: Sequence[str], source: str, key: Sequence[str]) -> None:
    """Add columns of `source` to a page's rows, joined by `key`; None where `source` has no row with that key.

    The condition names groups, and log partitions if the key has them, so that few Parquet row groups are read.
    """
    named = {name: sorted({row[name] for row in rows}) for name in ("group_id", "log_partition") if name in key}
    where = " AND ".join(f"{name} IN ({marks(values)})" for name, values in named.items())
    found = {
        tuple(row[name] for name in key): row
        for row in tables.rows(
            f"SELECT {', '.join((*key, *columns))} FROM {source} WHERE {where}", *chain(*named.values())
        )
    }
    for row in rows:
        more = found.get(tuple(row[name] for name in key), {})
        row |= {name: more.get(name) for name in columns}
