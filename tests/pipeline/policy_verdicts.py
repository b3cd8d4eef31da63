"""Verdicts of small logs with a policy's beside the broker's, judged offset by offset in plain Python."""

from typing import Any

import pyarrow as pa

from sexton.coordinator import expiry
from sexton.coordinator.loading import Loaded
from sexton.policy import GroupInput, OffsetInput, Policy, decide
from sexton.policy.inputs import last_active_ms
from sexton.tables import TABLES
from sexton.verdicts.expiry import held_offsets, under_block
from tests.verdicts.test_expiry import tables_of
from tests.verdicts.whole_judge import judge

Tables = dict[str, pa.Table]


def judged(loaded: Loaded, policy: Policy | None, *, retention_ms: int, now_ms: int) -> Tables:
    """The state tables of a log, with `held` and its `verdicts`; topic `u` counts as gone."""
    tables = tables_of(loaded, log_partition=0, partition_count=None)
    held = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
    verdicts = judge(
        held, tables["groups"], tables["pending_offsets"], retention_ms=retention_ms, now_ms=now_ms,
        profile=loaded.profile,
    )  # fmt: skip
    block = expiry.sweep_block(loaded, retention_ms=retention_ms, now_ms=now_ms)
    verdicts = under_block(verdicts, block, now_ms=now_ms)
    pending = {(row["group_id"], row["topic"], row["partition"]) for row in tables["pending_offsets"].to_pylist()}
    groups = facts_of(tables["groups"], held)
    rows = []
    for row, offset in zip(verdicts.to_pylist(), held.to_pylist(), strict=True):
        row["pinned_by_producer_id"] = 7 if (row["group_id"], row["topic"], row["partition"]) in pending else None
        row["orphan"] = "topic_gone" if row["topic"] == "u" else None
        if policy is not None:
            facts = offset_facts(row, offset["commit_timestamp_ms"])
            decision = decide(policy, groups[row["group_id"]], facts, now_ms=now_ms)
            row |= {
                "policy_verdict": decision.verdict,
                "policy_reason": decision.reason,
                "policy_rule": decision.rule,
                "policy_expires_at_ms": decision.expires_at_ms,
                "policy_owner": None if decision.rule is None else "o",
            }
        rows.append(row)
    schema = TABLES["offset_verdicts"].arrow_schema(with_run=False)
    return {**tables, "held": held, "verdicts": pa.Table.from_pylist(rows, schema=schema)}


def facts_of(groups: pa.Table, held: pa.Table) -> dict[str, GroupInput]:
    """Each group as a policy asks about it."""
    commits: dict[str, list[int]] = {}
    for row in held.to_pylist():
        commits.setdefault(row["group_id"], []).append(row["commit_timestamp_ms"])
    return {
        row["group_id"]: GroupInput(
            **{name: row[name] for name in ("group_id", "group_type", "state", "protocol_type", "member_count")},
            last_active_ms=last_active_ms(commits.get(row["group_id"], []), row["current_state_timestamp_ms"]),
        )
        for row in groups.to_pylist()
    }


def offset_facts(row: dict[str, Any], commit_timestamp_ms: int) -> OffsetInput:
    names = (
        "topic", "partition", "base_timestamp_ms", "orphan", "broker_verdict", "broker_reason",
        "broker_expires_at_ms",
    )  # fmt: skip
    return OffsetInput(
        **{name: row[name] for name in names},
        commit_timestamp_ms=commit_timestamp_ms,
        is_pending=row["pinned_by_producer_id"] is not None,
    )
