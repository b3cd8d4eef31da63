"""Groups of a run: searched, filtered, sorted and paged on the server; and one of them in full."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sexton.lake.read import PublishedRun
from sexton.ui.database import Rows
from sexton.ui.group_index import GROUP_FIELDS, groups_of
from sexton.ui.published_tables import PublishedTables

Only = Literal["due", "policy_due", "held", "orphans", "left_topics", "behind_log_start", "pinned", "pending", "empty"]
ONLY: tuple[str, ...] = get_args(Only)
"""Filters of a list: groups with such an offset; `empty` are those without any."""
_CONDITIONS: Mapping[str, str] = {
    **{name: f"{name} > 0" for name in ONLY},
    "pending": "pending_count > 0",
    "empty": "offset_count = 0",
}

Sort = Literal["group_id", "offset_count", "member_count", "due", "next_expires_at_ms", "orphans", "log_partition"]
SORTS: tuple[str, ...] = get_args(Sort)
_DESCENDING = {"offset_count", "member_count", "due", "orphans"}

MOST_MEMBERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows from `first` on, of `total`."""

    rows: Rows
    total: int
    first: int
    size: int

    @property
    def number(self) -> int:
        return self.first // self.size + 1

    @property
    def count(self) -> int:
        """Pages in all, at least one."""
        return max(-(-self.total // self.size), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """What is asked of the list. `text` is looked for anywhere in a group id, whatever its case."""

    text: str = ""
    group_type: str = ""
    state: str = ""
    only: str = ""
    sort: str = "group_id"
    page: int = 1
    size: int = 50

    @property
    def is_descending(self) -> bool:
        return self.sort in _DESCENDING

    @property
    def params(self) -> dict[str, str]:
        """The question as a link asks it, without its page."""
        return {"q": self.text, "type": self.group_type, "state": self.state, "only": self.only, "sort": self.sort}


def find_groups(tables: PublishedTables, run: PublishedRun, asked: GroupQuery) -> Page:
    """A page of groups. Each order is total, so that no page shows a row of another."""
    conditions, values = ["true"], []
    for column, value in (("group_type", asked.group_type), ("state", asked.state)):
        if value:
            conditions.append(f"{column} = ?")
            values.append(value)
    if asked.text:
        conditions.append("contains(lower_id, lower(?))")
        values.append(asked.text)
    if asked.only:
        conditions.append(_CONDITIONS[asked.only])
    source = f"{groups_of(tables, run)} WHERE {' AND '.join(conditions)}"
    total = tables.rows(f"SELECT count(*) AS total FROM {source}", *values)[0]["total"]
    first = min((asked.page - 1) * asked.size, max(total - 1, 0) // asked.size * asked.size)
    order = f"{asked.sort} {'DESC' if asked.is_descending else 'ASC'} NULLS LAST, group_id, log_partition"
    assert asked.sort in SORTS, asked.sort
    rows = tables.rows(
        f"SELECT {', '.join(GROUP_FIELDS)} FROM {source} ORDER BY {order} LIMIT {asked.size} OFFSET {first}", *values
    )
    return Page(rows=rows, total=total, first=first, size=asked.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """A group: its row of `groups`, members, and offsets with their verdicts and, where known, lag.

    `offsets` are ordered by topic and partition. lag is the topic's log end less the committed offset, NULL where no
    log end was recorded.
    """

    group: Mapping[str, Any]
    offsets: Page
    members: Rows
    pending: Rows
    total_lag: int | None
    topics: list[str]


def group_detail(
    tables: PublishedTables, run: PublishedRun, group_id: str, *, topic: str = "", page: int = 1, size: int = 100
) -> GroupDetail | None:
    """One group; None where the run has no such group. `topic` leaves out the offsets of the others."""
    found = tables.rows(f"SELECT * FROM {tables.of_run(run, 'groups')} WHERE group_id = ?", group_id)
    if not found:
        return None
    # A row group holds one log partition or two: with it in the condition, no other is read.
    home = ", ".join(str(row["log_partition"]) for row in found)
    mine = f"group_id = ? AND log_partition IN ({home})"
    joined = f"""
        SELECT o.topic, o.partition, o.committed_offset, o.leader_epoch, o.metadata, o.commit_timestamp_ms,
            o.expire_timestamp_ms, o.log_partition, o.log_offset, o.producer_id, v.* EXCLUDE (group_id, topic,
            partition, log_partition, cluster_id, as_of_ms, run_id), t.log_start_offset, t.log_end_offset,
            if(t.log_end_offset IS NULL, NULL, greatest(t.log_end_offset - o.committed_offset, 0)) AS lag
        FROM (SELECT * FROM {tables.of_run(run, "committed_offsets")} WHERE {mine}) o
        LEFT JOIN (SELECT * FROM {tables.of_run(run, "offset_verdicts")} WHERE {mine}) v
            USING (log_partition, topic, partition)
        LEFT JOIN {tables.of_run(run, "topic_partitions")} t ON t.topic = o.topic AND t.partition = o.partition
            AND v.orphan IS NULL
    """
    own = (group_id, group_id)
    summed = tables.rows(f"SELECT topic, count(*) AS offsets, sum(lag) AS lag FROM ({joined}) GROUP BY ALL", *own)
    lags = [int(row["lag"]) for row in summed if row["lag"] is not None]
    total = sum(row["offsets"] for row in summed if topic in ("", row["topic"]))
    first = min((page - 1) * size, max(total - 1, 0) // size * size)
    where, values = ("WHERE topic = ?", (*own, topic)) if topic else ("", own)
    offsets = tables.rows(
        f"SELECT * FROM ({joined}) {where} ORDER BY topic, partition LIMIT {size} OFFSET {first}", *values
    )
    return GroupDetail(
        group=found[0],
        offsets=Page(rows=offsets, total=total, first=first, size=size),
        members=_rows_of(tables, run, "members", mine, group_id, "member_id"),
        pending=_rows_of(tables, run, "pending_offsets", mine, group_id, "topic, partition"),
        total_lag=sum(lags) if lags else None,
        topics=sorted(row["topic"] for row in summed),
    )


def _rows_of(tables: PublishedTables, run: PublishedRun, table: str, mine: str, group_id: str, order: str) -> Rows:
    source = tables.of_run(run, table)
    return tables.rows(f"SELECT * FROM {source} WHERE {mine} ORDER BY {order} LIMIT {MOST_MEMBERS}", group_id)
