"""What a policy does with whole tables of offsets is what it does with each of them."""

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.policy import GroupInput, OffsetInput, Policy, decide
from sexton.tables import TABLES
from sexton.verdicts.policy import judge_by_policy
from tests.policy import worlds
from tests.policy.worlds import NOW_MS

MAX_MS = (1 << 63) - 1
DAY_MS = 86_400_000
NAMES = ["policy_verdict", "policy_reason", "policy_rule", "policy_expires_at_ms", "policy_owner"]


@dataclass(frozen=True)
class World:
    """Groups with different ids and offsets of each; `stamps` are when groups changed their state."""

    groups: list[GroupInput]
    stamps: list[int | None]
    offsets: list[list[OffsetInput]]

    def facts(self) -> list[tuple[GroupInput, OffsetInput]]:
        """Each offset with its group, last active at the newest commit of its offsets or when its state changed."""
        found = []
        for group, stamp, offsets in zip(self.groups, self.stamps, self.offsets, strict=True):
            seen = [offset.commit_timestamp_ms for offset in offsets] + ([] if stamp is None else [stamp])
            found += [(replace(group, last_active_ms=max(seen)), offset) for offset in offsets]
        return found

    def judged(self, policy: Policy) -> list[dict[str, Any]]:
        """The rows by whole tables, in the order of `facts`."""
        groups = [
            {**row_of(group, *OF_GROUPS), "current_state_timestamp_ms": stamp}
            for group, stamp in zip(self.groups, self.stamps, strict=True)
        ]
        offsets, verdicts = [], []
        for group, offset in self.facts():
            offsets.append({"group_id": group.group_id, "commit_timestamp_ms": offset.commit_timestamp_ms})
            pinned_by = {"pinned_by_producer_id": 7 if offset.is_pending else None}
            verdicts.append({**row_of(offset, "broker_reason", "base_timestamp_ms", "orphan"), **pinned_by})
        own = table("committed_offsets", offsets), table("offset_verdicts", verdicts), table("groups", groups)
        rows = judge_by_policy(policy, *own, now_ms=NOW_MS)
        declared = TABLES["offset_verdicts"].arrow_schema(with_run=False)
        return rows.select(NAMES).cast(pa.schema([declared.field(name) for name in NAMES])).to_pylist()


OF_GROUPS = ("group_id", "group_type", "state", "protocol_type", "member_count")


def row_of(facts: GroupInput | OffsetInput, *names: str) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in names}


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    empty = dict.fromkeys(TABLES[name].column_names)
    return pa.Table.from_pylist([{**empty, **row} for row in rows], schema=TABLES[name].arrow_schema(with_run=False))


@st.composite
def some_worlds(draw: st.DrawFn) -> World:
    groups = draw(st.lists(worlds.groups(), min_size=1, max_size=4, unique_by=lambda group: group.group_id))
    return World(
        groups=groups,
        stamps=[draw(st.none() | worlds.STAMPS_MS) for _ in groups],
        offsets=[draw(st.lists(worlds.offsets(), min_size=1, max_size=4)) for _ in groups],
    )


@settings(max_examples=300)
@given(worlds.policies(), some_worlds())
def test_whole_tables_equal_the_plain_rules(policy: Policy, world: World) -> None:
    owners = {entry.name: entry.owner for entry in (*policy.holds, *policy.rules)}
    for (group, offset), row in zip(world.facts(), world.judged(policy), strict=True):
        expected = decide(policy, group, offset, now_ms=NOW_MS)
        expires_at_ms = expected.expires_at_ms
        assert row == {
            "policy_verdict": expected.verdict,
            "policy_reason": expected.reason,
            "policy_rule": expected.rule,
            "policy_expires_at_ms": expires_at_ms if expires_at_ms is None or expires_at_ms <= MAX_MS else None,
            "policy_owner": owners.get(expected.rule or ""),
        }


def test_no_offsets_at_all() -> None:
    assert World(groups=[], stamps=[], offsets=[]).judged(Policy(version=1)) == []
