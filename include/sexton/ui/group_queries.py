"""Groups of a run: a list that is searched, filtered, sorted and paged, and one group in full."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query

from sexton.lake.database import Rows
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun
from sexton.summary.audit_counts import LOSS_SPAN_MS
from sexton.ui.lag_queries import GROUP_LAG, OFFSET_LAG, is_audited, lag_of
from sexton.ui.offset_queries import FINDINGS
from sexton.ui.paging import Page, PageNumber, PageSize, Search, conditions, page_of

_PLURALS = {"orphan": "orphans", "left_topic": "left_topics"}
_COUNTS = {_PLURALS.get(name, name): f"count(*) FILTER ({condition})" for name, condition in FINDINGS.items()}
"""Count of a group's committed offsets -> SQL over the group's rows of offset_verdicts."""
ONLY = (*_COUNTS, "pending", "empty", "resets", "losing")
"""Filters of the list: groups with at least one such offset; `empty`: groups without offsets; `losing`: groups that
lose unread messages within LOSS_SPAN_MS."""
_CONDITIONS: Mapping[str, str] = {
    **{name: f"{name} > 0" for name in ONLY},
    "pending": "pending_count > 0",
    "empty": "offset_count = 0",
    "losing": "is_losing",
}

SORTS = (
    *("group_id", "offset_count", "member_count", "due", "next_expires_at_ms", "orphans", "log_partition"),
    *("lag_min_ms", "resets", "loses_at_ms"),
)
_DESCENDING = {"offset_count", "member_count", "due", "orphans", "lag_min_ms", "resets"}

MAX_MEMBERS = 200

_OWN = ("group_id", "group_type", "state", "protocol_type", "member_count", "offset_count", "pending_count")
GROUP_FIELDS = (*_OWN, *_COUNTS, "next_expires_at_ms", "log_partition", *GROUP_LAG)
"""Columns of the list. `next_expires_at_ms` is when the first offset that is not due yet expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """The query parameters of the list. `text` matches any part of a group id, ignoring case."""

    text: Annotated[Search, Query(alias="q", description="a part of the group id, ignoring case")] = ""
    group_type: Annotated[str, Query(alias="type", max_length=20)] = ""
    state: Annotated[str, Query(max_length=40)] = ""
    only: Annotated[str, Query(pattern=f"^({'|'.join(ONLY)})?$")] = ""
    sort: Annotated[str, Query(pattern=f"^({'|'.join(SORTS)})$")] = "group_id"
    page: PageNumber = 1
    size: PageSize = 50

    @property
    def is_descending(self) -> bool:
        return self.sort in _DESCENDING

    @property
    def params(self) -> dict[str, str]:
        """The query as parameters of a link, without the page."""
        return {"q": self.text, "type": self.group_type, "state": self.state, "only": self.only, "sort": self.sort}


def groups_of(tables: PublishedTables, run: PublishedRun) -> str:
    """The SQL name of a table in memory: a row for each group and log partition, with counts of the group's offsets,
    and its lag if an audit has measured it, perhaps after the run. Log partitions whose load fails have no rows.

    100,000 groups with two million offsets take some 0.3 s and 15 MB once; a page of them then takes 10 ms.
    """

    lag = lag_of(tables, run)

    def sql() -> str:
        own = ", ".join(f"g.{column}" for column in ("log_partition", *_OWN))
        counts = ", ".join(f"{value} AS {name}" for name, value in _COUNTS.items())
        filled = ", ".join(f"coalesce(v.{name}, 0) AS {name}" for name in _COUNTS)
        lags = ", ".join(f"{value} AS {name}" for name, value in GROUP_LAG.items())
        return f"""
            SELECT {own}, lower(g.group_id) AS lower_id, {filled}, v.next_expires_at_ms, l.* EXCLUDE (group_id),
                coalesce(l.loses_at_ms <= {run.key.as_of_ms + LOSS_SPAN_MS}, false) AS is_losing
            FROM {tables.held(run, "groups")} g
            LEFT JOIN (
                SELECT log_partition, group_id, {counts},
                    min(broker_expires_at_ms) FILTER (broker_verdict = 'keep') AS next_expires_at_ms
                FROM {tables.held(run, "offset_verdicts")} GROUP BY log_partition, group_id
            ) v USING (log_partition, group_id)
            LEFT JOIN (SELECT group_id, {lags} FROM {lag} GROUP BY group_id) l ON l.group_id = g.group_id
        """

    return tables.computed_table(run, f"groups {lag}", sql)


def find_groups(tables: PublishedTables, run: PublishedRun, query: GroupQuery) -> Page:
    """A page of groups."""
    where, values = conditions(
        {"group_type = ?": query.group_type, "state = ?": query.state, "contains(lower_id, lower(?))": query.text},
        *([_CONDITIONS[query.only]] if query.only else ()),
    )
    assert query.sort in SORTS, query.sort
    return page_of(
        tables,
        ", ".join(GROUP_FIELDS),
        f"{groups_of(tables, run)} WHERE {where}",
        values,
        order=f"{query.sort} {'DESC' if query.is_descending else 'ASC'} NULLS LAST, group_id, log_partition",
        page=query.page,
        size=query.size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """A group: its row of `groups`, members, and offsets with verdicts, by topic and partition.

    `lag` is the partition's log end minus the committed offset; NULL if no log end was recorded. `longest` has the
    columns of GROUP_LAG; None if no audit measured the lag in time.
    """

    group: Mapping[str, Any]
    offsets: Page
    members: Rows
    pending: Rows
    total_lag: int | None
    longest: Mapping[str, Any] | None
    topics: list[str]
    is_held: bool
    """Whether a coordinator has the group in memory: the load of its log partition succeeds. If not, the fields are the
    rows that were decoded."""


def group_detail(
    tables: PublishedTables, run: PublishedRun, group_id: str, *, topic: str = "", page: int = 1, size: int = 100
) -> GroupDetail | None:
    """One group, with the offsets of one topic or of all; None if the run has no such group."""
    found = tables.rows(f"SELECT * FROM {tables.of_run(run, 'groups')} WHERE group_id = ?", group_id)
    if not found:
        return None
    # A Parquet row group has rows of at most two log partitions: given log_partition, DuckDB skips the others.
    home = ", ".join(str(row["log_partition"]) for row in found)
    mine = f"group_id = ? AND log_partition IN ({home})"
    joined = f"""(
        SELECT o.topic, o.partition, o.committed_offset, o.leader_epoch, o.metadata, o.commit_timestamp_ms,
            o.commit_after_ms, o.commit_by_ms, o.expire_timestamp_ms, o.log_partition, o.log_offset, o.producer_id,
            v.* EXCLUDE (group_id, topic, partition, log_partition, cluster_id, as_of_ms, run_id),
            t.log_start_offset, t.log_end_offset,
            if(t.log_end_offset IS NULL, NULL, greatest(t.log_end_offset - o.committed_offset, 0)) AS lag,
            {", ".join(f"l.{name}" for name in OFFSET_LAG)}
        FROM (SELECT * FROM {tables.of_run(run, "committed_offsets")} WHERE {mine}) o
        LEFT JOIN (SELECT * FROM {tables.of_run(run, "offset_verdicts")} WHERE {mine}) v
            USING (log_partition, topic, partition)
        LEFT JOIN {tables.of_run(run, "topic_partitions")} t ON t.topic = o.topic AND t.partition = o.partition
            AND v.orphan IS NULL
        LEFT JOIN (SELECT * FROM {lag_of(tables, run)} WHERE group_id = ?) l
            ON l.topic = o.topic AND l.partition = o.partition
    )"""
    own = (group_id, group_id, group_id)
    by_topic = tables.rows(f"SELECT topic, sum(lag) AS lag FROM {joined} GROUP BY ALL", *own)
    lags = [int(row["lag"]) for row in by_topic if row["lag"] is not None]
    source, values = (f"{joined} WHERE topic = ?", (*own, topic)) if topic else (joined, own)

    def rows_of(table: str, order: str) -> Rows:
        source = tables.of_run(run, table)
        return tables.rows(f"SELECT * FROM {source} WHERE {mine} ORDER BY {order} LIMIT {MAX_MEMBERS}", group_id)

    return GroupDetail(
        group=found[0],
        offsets=page_of(tables, "*", source, values, order="topic, partition", page=page, size=size),
        members=rows_of("members", "member_id"),
        pending=rows_of("pending_offsets", "topic, partition"),
        total_lag=sum(lags) if lags else None,
        longest=_longest(tables, run, group_id),
        topics=sorted(row["topic"] for row in by_topic),
        is_held=any(row["log_partition"] not in tables.failed_loads(run) for row in found),
    )


def _longest(tables: PublishedTables, run: PublishedRun, group_id: str) -> Mapping[str, Any] | None:
    if not is_audited(tables, run):
        return None
    values = ", ".join(f"{value} AS {name}" for name, value in GROUP_LAG.items())
    return tables.rows(f"SELECT {values} FROM {lag_of(tables, run)} WHERE group_id = ?", group_id)[0]
