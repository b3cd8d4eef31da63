"""A run folder written by hand from small row lists, and names that mean harm."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sexton.policy import parse_policy
from sexton.runs.folder import LagCounts, ReplicaCounts, RunFolder, RunRecord, TransactionCounts
from sexton.tables import SNAPSHOT_TABLES, Column, Table

AS_OF_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
Row = Mapping[str, Any]
PASSED = {"table": "groups", "expectation": "key is unique", "severity": "critical", "success": True}

HOSTILE_NAMES = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</title></style><b>bold",
    '" onmouseover="alert(1)', "' onclick='alert(1)", "{{ 7 * 7 }}{% raw %}", "${jndi:ldap://x}", "&lt;already&gt;",
    "[red]markup[/red]", "=cmd()|' /C calc'!A0", "'; DROP TABLE groups; --", "../../etc/passwd",
    "[a](javascript:alert(1))", "line\nbreak\r\ttab", "nul\x00bell\x07esc\x1b[31m", "c1\x9b31m",
    "right\u202eto left", "zero\u200bwidth\u2060joined\ufeff", "line\u2028separator", "\ufffd\ufffd",
    "e" + "\u0301" * 40, "\u0301first", " leading and trailing ", "", "шнур", "日本😀", "שלום", "\u3164\u2800",
    "n" * 32_767,
)  # fmt: skip


def write_run_folder(root: Path, tables: Mapping[str, Iterable[Row]] | None = None, **run: Any) -> Path:
    """Write every table, those without rows too, and a run.json that `run` may change; columns left out are empty.

    The one table that is not empty by default is dq_results: a run that nothing has checked is no good run.
    """
    record: dict[str, Any] = {
        "run_id": "run-1", "cluster_id": "cluster", "as_of_ms": AS_OF_MS, "taken_at_ms": AS_OF_MS + HOUR_MS,
        "profile": "group_coordinator", "retention_ms": 7 * DAY_MS, "retention_source": "asked for",
        "source": "segments", "partition_count": 4, "log_partitions": [0, 1], "cuts": {0: 120, 1: 80},
        "plan_id": "ab" * 32,
    }  # fmt: skip
    RunFolder(root).write_run(RunRecord.model_validate({**record, **run}))
    rows = {"dq_results": [PASSED], **(tables or {})}
    for table in SNAPSHOT_TABLES:
        write_table(root / table.name / "0.parquet", table, list(rows.pop(table.name, ())))
    assert not rows, f"no such tables: {list(rows)}"
    return root


def write_table(path: Path, table: Table, rows: list[Row]) -> None:
    nothing = {column.name: _nothing(column) for column in table.all_columns}
    for row in rows:
        assert row.keys() <= nothing.keys(), f"no such columns: {row.keys() - nothing.keys()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = table.arrow_schema(with_run=True)
    pq.write_table(pa.Table.from_pylist([{**nothing, **row} for row in rows], schema=schema), path)


def _nothing(column: Column) -> Any:
    if column.nullable:
        return None
    if pa.types.is_string(column.type):
        return ""
    if pa.types.is_list(column.type):
        return []
    return b"" if pa.types.is_binary(column.type) else False if pa.types.is_boolean(column.type) else 0


REPLICAS = ReplicaCounts(
    as_of_ms=AS_OF_MS - HOUR_MS,
    log_partitions=2,
    statuses={"same": 4, "differs": 1, "corrupt": 1},
    kinds={"resurrected": 3, "stuck": 1},
    wrong={"broker-3": 4},
    behind=2,
)
TRANSACTIONS = TransactionCounts(
    as_of_ms=AS_OF_MS - HOUR_MS, verdicts={"running": 3, "hanging": 2}, overdue=1, hanging_groups=2,
    hanging_offsets=5, hanging_since_ms=AS_OF_MS - 2 * HOUR_MS,
)  # fmt: skip
LAG = LagCounts(
    as_of_ms=AS_OF_MS - HOUR_MS, offsets=1_200, longest_ms=90_061_000, losing=3, losing_groups=2,
    resets={"truncated": 2, "behind_log_start": 1},
)  # fmt: skip
POLICY = parse_policy(
    """
version: 1
holds: [{name: litigation, match: {prefix: bill}, kind: legal, owner: legal, reason: LEG-17}]
rules: [{name: ci, match: {prefix: ci-}, retention: 2d, owner: build, reason: builds are short, ticket: OPS-1}]
""",
    where="policy",
)


def group(group_id: str, offsets: int, **columns: Any) -> Row:
    defaults = {"group_type": "Classic", "state": "Empty", "member_count": 0, "pending_count": 0, "log_partition": 0}
    return {"group_id": group_id, "offset_count": offsets, **defaults, **columns}


def kept(group_id: str, partition: int, reason: str, after_ms: int | None = None, topic: str = "t") -> Row:
    """A verdict to keep, that turns `after_ms` after as_of (None: never)."""
    expires = None if after_ms is None else AS_OF_MS + after_ms
    return _verdict(group_id, topic, partition, "keep", reason, expires)


def due(group_id: str, partition: int, ago_ms: int = HOUR_MS, topic: str = "t") -> Row:
    """A verdict to expire, due since `ago_ms`."""
    return _verdict(group_id, topic, partition, "expire", "expired", AS_OF_MS - ago_ms)


def _verdict(group_id: str, topic: str, partition: int, verdict: str, reason: str, expires_at_ms: int | None) -> Row:
    return {
        "group_id": group_id, "topic": topic, "partition": partition, "log_partition": 0, "broker_verdict": verdict,
        "broker_reason": reason, "broker_expires_at_ms": expires_at_ms,
    }  # fmt: skip


def offsets_of(verdicts: Iterable[Row]) -> list[Row]:
    """The committed offsets that `verdicts` speak of."""
    return [
        {name: verdict[name] for name in ("group_id", "topic", "partition", "log_partition")} for verdict in verdicts
    ]


def by_policy(row: Row, verdict: str, rule: str | None = None, owner: str | None = None) -> Row:
    """A verdict with the policy's beside it."""
    return {**row, "policy_verdict": verdict, "policy_rule": rule, "policy_owner": owner}


JUDGED = [
    by_policy(kept("ci-1", 0, "not_due", 1), "expire", "ci", "build"),
    by_policy(kept("ci-1", 1, "not_due", 1), "expire", "ci", "build"),
    by_policy(kept("ci-2", 0, "not_due", 1), "keep", "ci", "build"),
    by_policy(due("billing", 0), "hold", "litigation", "legal"),
    by_policy(due("other", 0), "keep"),
]
"""Offsets under POLICY: of its rule two that go and one that stays, one held, and one that nothing speaks of."""
