"""Committed offsets of a run across all groups: searched by group, topic, verdict and finding, a page at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from sexton.lake.read import PublishedRun
from sexton.ui.database import Rows, marks
from sexton.ui.group_queries import Page
from sexton.ui.published_tables import PublishedTables

Finding = Literal["due", "policy_due", "held", "orphan", "left_topic", "behind_log_start", "pinned"]
FINDINGS: tuple[str, ...] = get_args(Finding)
_CONDITIONS: Mapping[str, str] = {
    "due": "broker_verdict = 'expire'",
    "policy_due": "policy_verdict = 'expire'",
    "held": "policy_verdict = 'hold'",
    "orphan": "orphan IS NOT NULL",
    "left_topic": "left_topic",
    "behind_log_start": "behind_log_start",
    "pinned": "pinned_by_producer_id IS NOT NULL",
}
Order = Literal["group_id", "topic", "broker_expires_at_ms"]
ORDERS: tuple[str, ...] = get_args(Order)
_ORDERS: Mapping[str, str] = {
    "group_id": "group_id, topic, partition",
    "topic": "topic, partition, group_id",
    "broker_expires_at_ms": "broker_expires_at_ms NULLS LAST, group_id, topic, partition",
}
MOST_PAGES = 2_000
"""How far one can leaf: who needs more narrows the search, or reads the table."""

_FIELDS = """group_id, topic, partition, broker_verdict, broker_reason, broker_expires_at_ms, policy_verdict,
    policy_reason, policy_rule, orphan, left_topic, behind_log_start, pinned_by_producer_id, log_partition"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetQuery:
    """What is asked. `group` and `topic` are looked for anywhere in the names, whatever their case."""

    group: str = ""
    topic: str = ""
    reason: str = ""
    finding: str = ""
    sort: str = "broker_expires_at_ms"
    page: int = 1
    size: int = 50
    is_descending: ClassVar[bool] = False

    @property
    def params(self) -> dict[str, str]:
        """The question as a link asks it, without its page."""
        asked = {"group": self.group, "topic": self.topic, "reason": self.reason, "finding": self.finding}
        return {**asked, "sort": self.sort}


def find_offsets(tables: PublishedTables, run: PublishedRun, asked: OffsetQuery) -> Page:
    """A page of offsets with their verdicts and committed offsets."""
    conditions, values = ["true"], []
    for column, value in (("group_id", asked.group), ("topic", asked.topic)):
        if value:
            conditions.append(f"contains(lower({column}), lower(?))")
            values.append(value)
    if asked.reason:
        conditions.append("broker_reason = ?")
        values.append(asked.reason)
    if asked.finding:
        conditions.append(_CONDITIONS[asked.finding])
    where = " AND ".join(conditions)
    verdicts = tables.of_run(run, "offset_verdicts")
    total = tables.rows(f"SELECT count(*) AS total FROM {verdicts} WHERE {where}", *values)[0]["total"]
    last = max(min(total, MOST_PAGES * asked.size) - 1, 0) // asked.size * asked.size
    first = min((asked.page - 1) * asked.size, last)
    order = f"{_ORDERS[asked.sort]}, log_partition"
    rows = tables.rows(
        f"SELECT {_FIELDS} FROM {verdicts} WHERE {where} ORDER BY {order} LIMIT {asked.size} OFFSET {first}", *values
    )
    _add_commits(tables, run, rows)
    return Page(rows=rows, total=total, first=first, size=asked.size)


def _add_commits(tables: PublishedTables, run: PublishedRun, rows: Rows) -> None:
    """Look a page's rows up in committed_offsets. Named one by one, so that no row group without them is read."""
    groups, homes = sorted({row["group_id"] for row in rows}), sorted({row["log_partition"] for row in rows})
    wanted = f"group_id IN ({marks(groups)}) AND log_partition IN ({marks(homes)})"
    found = tables.rows(
        f"""SELECT log_partition, group_id, topic, partition, committed_offset, commit_timestamp_ms
            FROM {tables.of_run(run, "committed_offsets")} WHERE {wanted}""",
        *groups,
        *homes,
    )
    commits = {(row["log_partition"], row["group_id"], row["topic"], row["partition"]): row for row in found}
    for row in rows:
        commit = commits.get((row["log_partition"], row["group_id"], row["topic"], row["partition"]), {})
        row["committed_offset"] = commit.get("committed_offset")
        row["commit_timestamp_ms"] = commit.get("commit_timestamp_ms")
