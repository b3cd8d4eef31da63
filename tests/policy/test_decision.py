"""What a policy decides: scenarios, the laws that always hold, and the compiled form against the plain one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.policy import CompiledPolicy, Policy, decide, decide_bare, explain
from sexton.policy.durations import DAY_MS, HOUR_MS
from sexton.policy.inputs import last_active_ms
from tests.policy.worlds import NOW_MS, SOME, decide_by_rules, group, groups, hold, offset, offsets, policies, rule

INSTANTS = st.integers(-3, 14).map(lambda hours: NOW_MS + hours * HOUR_MS)
WIDE = (1 << 63) - 1


def of(*entries):
    """A policy of holds and rules, in this order, named by their positions."""
    named = [entry.model_copy(update={"name": f"{entry.name}{number}"}) for number, entry in enumerate(entries)]
    return Policy(
        version=1,
        holds=tuple(entry for entry in named if entry.name[0] == "h"),
        rules=tuple(entry for entry in named if entry.name[0] == "r"),
    )


CI = rule(match={"prefix": "ci-"}, retention="2d")
IDLE = rule(match={"prefix": "ci-", "state": "Empty", "idle": "7d"}, retention="2d")
ORPHANS = rule(match={"orphan": ["topic_gone", "partition_gone"]}, retention="1d")
EVERY = rule(match={"regex": ".*"}, retention="20d")
HELD = hold(match={"prefix": "ci"})
UNTIL_TOMORROW = hold(match={"prefix": "ci"}, kind="operational", until="2027-01-16T08:00:00Z")
TOMORROW_MS = NOW_MS + DAY_MS
EXPIRED = offset(broker_verdict="expire", broker_reason="expired")
EXPLICIT = offset(DAY_MS, base_timestamp_ms=None, broker_reason="expired_explicit", broker_verdict="expire")


def test_tomorrow_is_what_it_says():
    assert UNTIL_TOMORROW.until_ms == TOMORROW_MS


@pytest.mark.parametrize(
    ("entries", "given_group", "given_offset", "expected"),
    [
        ((), group(), offset(), ("keep", "no_rule", None, None)),
        ((CI,), group("x"), offset(), ("keep", "no_rule", None, None)),
        ((CI,), group(), offset(), ("expire", "expired", "r0", NOW_MS - 7 * DAY_MS)),
        ((CI,), group(), offset(2 * DAY_MS), ("expire", "expired", "r0", NOW_MS)),
        ((CI,), group(), offset(2 * DAY_MS - 1), ("keep", "not_due", "r0", NOW_MS + 1)),
        # the first that matches decides, also where a later one would take the offset
        ((EVERY, CI), group(), offset(), ("keep", "not_due", "r0", NOW_MS + 11 * DAY_MS)),
        ((CI, EVERY), group(), offset(), ("expire", "expired", "r0", NOW_MS - 7 * DAY_MS)),
        ((ORPHANS, EVERY), group(), offset(), ("keep", "not_due", "r1", NOW_MS + 11 * DAY_MS)),
        ((ORPHANS, EVERY), group(), offset(orphan="topic_gone"), ("expire", "expired", "r0", NOW_MS - 8 * DAY_MS)),
        ((ORPHANS,), group(), offset(orphan="topic_recreated"), ("keep", "no_rule", None, None)),
        ((CI,), group(), offset(orphan="topic_gone"), ("expire", "expired", "r0", NOW_MS - 7 * DAY_MS)),
        # idle: with members never, and unknown is not idle
        ((IDLE,), group(), offset(), ("expire", "expired", "r0", NOW_MS - 7 * DAY_MS)),
        ((IDLE,), group(idle_ms=6 * DAY_MS), offset(), ("keep", "no_rule", None, NOW_MS + DAY_MS)),
        ((IDLE,), group(idle_ms=None), offset(), ("keep", "no_rule", None, None)),
        ((IDLE,), group(member_count=1), offset(), ("keep", "no_rule", None, None)),
        ((IDLE,), group(state="Dead"), offset(), ("keep", "no_rule", None, None)),
        # what the broker keeps for another reason than time
        ((CI,), group(), offset(broker_reason="subscribed"), ("keep", "subscribed", "r0", None)),
        ((CI,), group(), offset(broker_reason="group_active"), ("keep", "group_active", "r0", None)),
        ((CI,), group(), offset(broker_reason="share_group"), ("keep", "share_group", "r0", None)),
        ((CI,), group(), offset(is_pending=True), ("keep", "pending_transaction", "r0", None)),
        ((CI,), group(), offset(DAY_MS, is_pending=True), ("keep", "not_due", "r0", None)),
        # from the commit where its client has chosen an instant
        ((CI,), group(), EXPLICIT, ("keep", "not_due", "r0", NOW_MS + DAY_MS)),
        # holds come before everything, and end
        ((HELD, CI), group(), offset(), ("hold", "held_legal", "h0", None)),
        ((HELD, CI), group(), offset(broker_reason="subscribed"), ("hold", "held_legal", "h0", None)),
        ((HELD,), group(), EXPIRED, ("hold", "held_legal", "h0", None)),
        ((UNTIL_TOMORROW, CI), group(), offset(), ("hold", "held_operational", "h0", TOMORROW_MS)),
        ((UNTIL_TOMORROW, CI), group(), offset(0), ("hold", "held_operational", "h0", NOW_MS + 2 * DAY_MS)),
        ((UNTIL_TOMORROW, HELD, CI), group(), offset(), ("hold", "held_operational", "h0", None)),
        # stamps that nobody can believe: as the broker counts, and never early
        ((CI,), group(), offset(commit_timestamp_ms=-1, base_timestamp_ms=-1), ("expire", "expired", "r0", 172799999)),
        ((CI,), group(), offset(base_timestamp_ms=WIDE), ("keep", "not_due", "r0", None)),
        ((CI,), group(), offset(base_timestamp_ms=-WIDE), ("keep", "not_due", "r0", None)),
        ((CI,), group(), offset(-DAY_MS), ("keep", "not_due", "r0", NOW_MS + 3 * DAY_MS)),
    ],
)
def test_decisions(entries, given_group, given_offset, expected):
    policy = of(*entries)
    compiled = CompiledPolicy(policy).for_group(given_group)
    plainly = decide(policy, given_group, given_offset, now_ms=NOW_MS)
    for found in (plainly, decide_by_rules(compiled, given_offset, now_ms=NOW_MS)):
        assert (found.verdict, found.reason, found.rule, found.expires_at_ms) == expected


@pytest.mark.parametrize(
    ("match", "group_id", "does"),
    [
        ({"group": "a"}, "a", True),
        ({"group": ["b", "a"]}, "a", True),
        ({"group": ""}, "", True),
        ({"group": "a"}, "ab", False),
        ({"prefix": ["x", "a"]}, "ab", True),
        ({"prefix": "ab"}, "a", False),
        ({"regex": "a.*"}, "ab", True),
        ({"regex": "a"}, "ab", False),  # the whole id
        ({"regex": "b"}, "ab", False),
        ({"regex": "a|ab"}, "ab", True),
        ({"regex": "^a.*$"}, "a\nb", True),  # a line end is a character like any other: no name slips out of a hold
        ({"regex": "A.*"}, "ab", False),
        ({"regex": "(?i)A.*"}, "ab", True),
        ({"regex": "a."}, "a\ud800", True),
        ({"regex": "a\ufffd"}, "a\ud800", True),
        ({"regex": "."}, "\U0001f600", True),
        ({"prefix": "a", "regex": ".*z"}, "ab", False),
        ({"prefix": "a", "regex": ".*z"}, "az", True),
        ({"type": ["Share", "Classic"]}, "a", True),
        ({"type": "Share"}, "a", False),
        ({"state": "Empty"}, "a", True),
        ({"state": ["Stable", "Dead"]}, "a", False),
    ],
)
def test_matching(match, group_id, does):
    policy = of(rule(match=match, retention="1m"))
    found = decide(policy, group(group_id), offset(), now_ms=NOW_MS)
    assert (found.verdict == "expire") == does
    assert (CompiledPolicy(policy).for_group(group(group_id)).at(NOW_MS).bare_rule is not None) == does


def test_a_group_without_offsets_goes_by_the_first_rule_that_is_not_about_orphans():
    for entries, expected in [
        ((), ("keep", "no_rule", None)),
        ((ORPHANS, CI), ("expire", "expired", "r1")),
        ((IDLE,), ("expire", "expired", "r0")),
        ((HELD, CI), ("hold", "held_legal", "h0")),
    ]:
        found = decide_bare(of(*entries), group(), now_ms=NOW_MS)
        assert (found.verdict, found.reason, found.rule) == expected
    assert decide_bare(of(IDLE), group(idle_ms=DAY_MS), now_ms=NOW_MS).verdict == "keep"


def test_every_hold_and_rule_says_why():
    policy = of(hold(match={"group": "x"}), UNTIL_TOMORROW, rule(match={"state": "Stable"}), IDLE, CI, EVERY)
    late_ms = TOMORROW_MS
    told = explain(policy, group(idle_ms=HOUR_MS), offset(), now_ms=late_ms)
    assert [(one.rule, one.outcome) for one in told] == [
        *[(name, "does not match") for name in ("h0", "h1", "r2", "r3")],
        ("r4", "decides"),
        ("r5", "not reached"),
    ]
    assert [one.why for one in told] == [
        "group: the id is not 'x'", "until: the hold has ended at 2027-01-16T08:00:00Z",
        "state: it is Empty, not 'Stable'", "idle: last active 2027-01-15T07:00:00Z, less than 7d before",
        "kept for 2d from 2027-01-06T08:00:00Z, which have passed", "r4 decides before it",
    ]  # fmt: skip


def test_when_a_group_was_last_active():
    assert last_active_ms([], None) is None
    assert last_active_ms([3, 5], None) == 5
    assert last_active_ms([3], 7) == 7
    assert last_active_ms([], 7) == 7


@SOME
@given(policies(), groups(), offsets(), INSTANTS)
def test_the_compiled_policy_decides_the_same(policy, given_group, given_offset, now_ms):
    compiled = CompiledPolicy(policy).for_group(given_group)
    plainly = decide(policy, given_group, given_offset, now_ms=now_ms)
    assert decide_by_rules(compiled, given_offset, now_ms=now_ms) == plainly
    bare = decide_bare(policy, given_group, now_ms=now_ms)
    span = compiled.at(now_ms)
    assert span.bare_rule == (bare.rule if bare.verdict == "expire" else None)
    assert (span.hold and span.hold.name) == (bare.rule if bare.verdict == "hold" else None)


@SOME
@given(policies(), groups(), INSTANTS)
def test_spans_follow_each_other(policy, given_group, now_ms):
    spans = CompiledPolicy(policy).for_group(given_group).spans
    assert [span.end_ms for span in spans[:-1]] == [span.start_ms for span in spans[1:]]
    assert spans[-1].end_ms is None
    assert spans[0].start_ms < now_ms


@SOME
@given(policies(max_holds=3), groups(), offsets(), INSTANTS)
def test_a_hold_always_wins(policy, given_group, given_offset, now_ms):
    """Whatever the rules say, and whatever the broker would do."""
    by_holds_alone = policy.model_copy(update={"rules": ()})
    found = decide(policy, given_group, given_offset, now_ms=now_ms)
    alone = decide(by_holds_alone, given_group, given_offset, now_ms=now_ms)
    assert (found.verdict == "hold") == (alone.verdict == "hold")


@SOME
@given(policies(), groups(), offsets(), INSTANTS)
def test_without_a_rule_that_matches_all_is_kept(policy, given_group, given_offset, now_ms):
    found = decide(policy, given_group, given_offset, now_ms=now_ms)
    told = explain(policy, given_group, given_offset, now_ms=now_ms)
    deciding = [one.rule for one in told if one.outcome == "decides"]
    assert [found.rule] == (deciding or [None])
    if not deciding:
        assert (found.verdict, found.reason) == ("keep", "no_rule")


@SOME
@given(policies(), groups(), offsets(), INSTANTS)
def test_the_first_that_matches_decides(policy, given_group, given_offset, now_ms):
    """What stands behind the rule that decides may be anything."""
    found = decide(policy, given_group, given_offset, now_ms=now_ms)
    names = [one.name for one in policy.rules]
    if found.rule in names:
        shorter = policy.model_copy(update={"rules": policy.rules[: names.index(found.rule) + 1]})
        again = decide(shorter, given_group, given_offset, now_ms=now_ms)
        assert (again.verdict, again.reason, again.rule) == (found.verdict, found.reason, found.rule)


@SOME
@given(policies(), groups(), offsets(), INSTANTS)
def test_a_rule_takes_nothing_early_and_never_lengthens(policy, given_group, given_offset, now_ms):
    """Nothing goes before its own rule's retention, or while the broker keeps it for another reason than time.

    And the broker goes before the policy where it keeps shorter: adding a policy takes no sooner instant from it.
    """
    found = decide(policy, given_group, given_offset, now_ms=now_ms)
    if found.verdict == "expire":
        (deciding,) = (one for one in policy.rules if one.name == found.rule)
        assert now_ms - given_offset.since_ms >= deciding.retention_ms
        assert not given_offset.is_pending
        assert given_offset.broker_reason in ("not_due", "expired", "expired_explicit")
        assert found.expires_at_ms is not None
        assert found.expires_at_ms <= now_ms
    elif found.expires_at_ms is not None:
        assert found.expires_at_ms > now_ms


@SOME
@given(policies(), groups(), offsets(), INSTANTS)
def test_the_instant_is_when_it_goes(policy, given_group, given_offset, now_ms):
    """If only time passes: kept right before it, gone from then on as long as nothing longer takes over."""
    found = decide(policy, given_group, given_offset, now_ms=now_ms)
    if found.verdict != "expire" and found.expires_at_ms is not None:
        before = decide(policy, given_group, given_offset, now_ms=found.expires_at_ms - 1)
        at = decide(policy, given_group, given_offset, now_ms=found.expires_at_ms)
        assert (before.verdict == "expire", at.verdict) == (False, "expire")


def test_an_instant_that_no_clock_reaches_is_none():
    """A rule waits for a group to be idle until after the last millisecond of 64 bits: it takes nothing."""
    policy, late, odd = of(IDLE), group(last_active_ms=WIDE), offset(base_timestamp_ms=-WIDE - 1)
    never = decide(policy, late, odd, now_ms=NOW_MS)
    assert never.expires_at_ms is None
    assert decide_by_rules(CompiledPolicy(policy).for_group(late), odd, now_ms=NOW_MS) == never
