"""What a policy makes of a plan equals what its plain rules say offset by offset and group by group."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.analysis.forecast import forecast_of
from sexton.as_text import DAY_MS
from sexton.coordinator.loading import Loaded
from sexton.plans.limits import limits_exceeded, not_held, owner_totals, unheeded
from sexton.plans.plan_content import losses_of, taken_by
from sexton.policy import Policy, decide, decide_bare
from sexton.tables.expiry_forecast import HORIZON_DAYS
from sexton.verdicts.expiry import plan
from sexton.verdicts.policy import plan_by_policy
from tests.campaign.histories import histories
from tests.fates import load
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log
from tests.pipeline.policy_verdicts import facts_of, judged, offset_facts
from tests.policy.worlds import policies
from tests.verdicts.test_expiry import CAP_BYTES

HOUR_MS = 3_600_000
RETENTIONS = st.sampled_from([60_000, 2 * HOUR_MS, DAY_MS, 8 * DAY_MS])
INSTANTS = st.integers(0, 14).map(lambda hours: BASE_MS + hours * HOUR_MS)


def policy_of(*rules: dict[str, Any], holds: tuple[dict[str, Any], ...] = (), **limits: Any) -> Policy:
    common = {"owner": "o", "reason": "because", "ticket": "T-1"}
    own_holds = [{**common, "kind": "legal", **one} for one in holds]
    own_rules = [{**common, "retention": "1h", **one} for one in rules]
    return Policy.model_validate({"version": 1, "limits": limits, "holds": own_holds, "rules": own_rules})


def planned(policy: Policy, tables: dict[str, pa.Table], loaded: Loaded, *, now_ms: int) -> pa.Table:
    own = [tables[name] for name in ("held", "verdicts", "groups", "group_tombstones")]
    return plan_by_policy(policy, *own, now_ms=now_ms, profile=loaded.profile)


@settings(max_examples=60)
@given(histories(max_size=10), policies(), RETENTIONS, INSTANTS)
def test_the_plan_is_what_the_rules_say(
    history: list[BatchSpec], policy: Policy, retention_ms: int, now_ms: int
) -> None:
    loaded = load([encode_log(history)], cap_bytes=CAP_BYTES)
    tables = judged(loaded, policy, retention_ms=retention_ms, now_ms=now_ms)
    held, verdicts, own = tables["held"], tables["verdicts"], (tables["groups"], tables["group_tombstones"])
    rows = planned(policy, tables, loaded, now_ms=now_ms).to_pylist()
    of_offsets = {(r["group_id"], r["topic"], r["partition"], r["cause"]) for r in rows if r["topic"] is not None}
    assert of_offsets == {
        (r["group_id"], r["topic"], r["partition"], f"rule:{r['policy_rule']}")
        for r in verdicts.to_pylist()
        if r["policy_verdict"] == "expire"
    }
    swept = plan(held, pc.equal(verdicts["policy_verdict"], "expire"), *own, profile=loaded.profile).to_pylist()
    expected = Counter()
    groups, with_offsets = facts_of(tables["groups"], held), set(held["group_id"].to_pylist())
    for row in swept:
        decision = decide_bare(policy, groups[row["group_id"]], now_ms=now_ms)
        if row["topic"] is None and decision.verdict == "expire":
            cause = "group_empty" if row["group_id"] in with_offsets else f"rule:{decision.rule}"
            expected[row["group_id"], row["record_type"], row["member_id"], row["regular_expression"], cause] += 1
    assert expected == Counter(
        (r["group_id"], r["record_type"], r["member_id"], r["regular_expression"], r["cause"])
        for r in rows
        if r["topic"] is None
    )
    keys = [(r["group_id"].encode(), r["topic"] is None) for r in rows]
    assert keys == sorted(keys), "the order of the plan stays"


@settings(max_examples=60)
@given(histories(max_size=10), policies(), RETENTIONS, INSTANTS)
def test_the_forecast_tells_who_takes_what_first(
    history: list[BatchSpec], policy: Policy, retention_ms: int, now_ms: int
) -> None:
    loaded = load([encode_log(history)], cap_bytes=CAP_BYTES)
    tables = judged(loaded, policy, retention_ms=retention_ms, now_ms=now_ms)
    own = [tables[name] for name in ("verdicts", "held", "groups")]
    rows = forecast_of(*own, as_of_ms=now_ms, profile=loaded.profile, policy=policy).to_pylist()
    told = {(r["group_id"], r["horizon_days"], r["by"]): r["offset_count"] for r in rows}
    groups = facts_of(tables["groups"], tables["held"])
    expected: Counter[tuple[str, int, str]] = Counter()
    for row, offset in zip(tables["verdicts"].to_pylist(), tables["held"].to_pylist(), strict=True):
        is_pinned = row["pinned_by_producer_id"] is not None and row["broker_verdict"] == "keep"
        by_broker = None if is_pinned else row["broker_expires_at_ms"]
        by_rule = row["policy_expires_at_ms"]
        if by_rule is not None and (by_broker is None or by_rule < by_broker):
            facts = offset_facts(row, offset["commit_timestamp_ms"])
            decision = decide(policy, groups[row["group_id"]], facts, now_ms=max(by_rule, now_ms))
            assert decision.verdict == "expire"
            at_ms, by = by_rule, f"rule:{decision.rule}"
        elif by_broker is not None:
            at_ms, by = by_broker, "broker"
        else:
            continue
        for days in HORIZON_DAYS:
            if at_ms <= now_ms + days * DAY_MS:
                expected[row["group_id"], days, by] += 1
    assert told == dict(expected)


def small(policy: Policy, *, retention_ms: int = DAY_MS, now_ms: int = BASE_MS + 2 * HOUR_MS) -> dict[str, pa.Table]:
    """Groups ci-1 (2 offsets), legal-1 (1) and young (1, committed just now), and what a policy does with them."""
    entries = (
        commit("ci-1", commit_timestamp_ms=BASE_MS),
        commit("ci-1", partition=1, commit_timestamp_ms=BASE_MS),
        commit("legal-1", commit_timestamp_ms=BASE_MS),
        commit("young", commit_timestamp_ms=now_ms),
    )
    loaded = load([encode_log([BatchSpec(entries=entries)])], cap_bytes=CAP_BYTES)
    tables = judged(loaded, policy, retention_ms=retention_ms, now_ms=now_ms)
    return {**tables, "plan": planned(policy, tables, loaded, now_ms=now_ms)}


RULE = {"name": "all", "match": {"regex": ".*"}}
HOLD = {"name": "litigation", "match": {"prefix": "legal-"}}


def test_what_is_held_is_never_planned_and_told_where_it_cannot_be_kept() -> None:
    policy = policy_of(RULE, holds=(HOLD,))
    for retention_ms, due in ((HOUR_MS, "1 of them at its next sweep"), (DAY_MS, "0 of them at its next sweep")):
        tables = small(policy, retention_ms=retention_ms)
        assert set(tables["plan"]["group_id"].to_pylist()) == {"ci-1"}
        count, (told,) = not_held(policy, [unheeded(policy, tables["verdicts"])])
        assert count == 1
        assert told.startswith("hold litigation (legal, o) does not protect 1 offset of 1 group: the broker")
        assert due in told


def test_what_keep_keeps_alive_is_not_told_as_lost() -> None:
    policy = policy_of(RULE, holds=(HOLD,))
    verdicts = small(policy, retention_ms=HOUR_MS)["verdicts"]
    place = verdicts.schema.get_field_index("keep_status")
    for status, lost in (("kept", 0), ("due", 0), ("not_kept", 1)):
        kept = verdicts.set_column(place, verdicts.field(place), pa.array([status] * len(verdicts)))
        assert not_held(policy, [unheeded(policy, kept)])[0] == lost


def test_a_hold_that_ends_before_the_brokers_retention_keeps_its_word() -> None:
    policy = policy_of(RULE, holds=({**HOLD, "until": "2026-09-21T20:00:00Z"},))
    assert not_held(policy, [unheeded(policy, small(policy)["verdicts"])]) == (0, [])
    assert not_held(policy, [unheeded(policy, small(policy, retention_ms=3 * HOUR_MS)["verdicts"])])[0] == 1


def test_what_no_rule_takes_the_broker_still_does() -> None:
    policy = policy_of({"name": "ci", "match": {"prefix": "ci-"}})
    count, told = not_held(policy, [unheeded(policy, small(policy, retention_ms=HOUR_MS)["verdicts"])])
    assert (count, len(told)) == (0, 1)
    assert told[0].startswith("the policy keeps 1 offset whose")


def test_losses_name_the_owner_and_limits_count_by_owner() -> None:
    policy = policy_of(RULE, max_offsets=2, max_groups=1, max_share_of_groups=0.5, max_share_of_owner=0.7)
    tables = small(policy)
    losses, totals = losses_of(tables["plan"], policy), owner_totals(tables["verdicts"])
    assert [(one.cause, one.owner, one.ticket, one.offsets, one.groups, one.deleted_groups) for one in losses] == [
        ("rule:all", "o", "T-1", 3, 2, 2)
    ]
    told = limits_exceeded(policy, totals, taken_by(losses), groups_losing=2, groups_total=3)
    limits = ["max_offsets", "max_groups", "max_share_of_groups", "max_share_of_owner"]
    assert [text.partition("limits.")[2].split()[0] for text in told] == limits
    generous = policy_of(RULE, max_share_of_groups=1, max_share_of_owner=0.75)
    assert limits_exceeded(generous, totals, taken_by(losses), groups_losing=2, groups_total=3) == []


def test_a_group_that_no_rule_takes_bare_stays_when_its_orphans_go() -> None:
    orphans = {"name": "orphans", "match": {"orphan": ["topic_gone"]}}
    entries = (commit("g", topic="u", commit_timestamp_ms=BASE_MS),)
    loaded = load([encode_log([BatchSpec(entries=entries)])], cap_bytes=CAP_BYTES)
    now_ms = BASE_MS + 2 * HOUR_MS
    for policy, causes in (
        (policy_of(orphans), ["rule:orphans"]),
        (policy_of(orphans, RULE), ["rule:orphans", "group_empty"]),
    ):
        tables = judged(loaded, policy, retention_ms=DAY_MS, now_ms=now_ms)
        assert planned(policy, tables, loaded, now_ms=now_ms)["cause"].to_pylist() == causes
