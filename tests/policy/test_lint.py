"""What a valid policy is warned about, and that nothing is said to be out of reach that can decide."""

import pytest
from hypothesis import given

from sexton.policy.decision import mismatch
from sexton.policy.durations import DAY_MS
from sexton.policy.lint import covers, lint_policy
from sexton.policy.model import Match
from sexton.policy.reading import policy_of
from sexton.policy.strict_yaml import read_document
from tests.policy.worlds import NAMES, NOW_MS, PASSING, SOME, groups, matches

WEEK_MS = 7 * DAY_MS
TOMORROW, NEXT_MONTH, YESTERDAY = "2027-01-16T08:00:00Z", "2027-02-15T08:00:00Z", "2027-01-14T08:00:00Z"


def advice(*, holds=(), rules=("match: {prefix: other-}, retention: 1d",), retention_ms=WEEK_MS):
    lines = ["version: 1"]
    if holds:
        lines += [
            "holds:",
            *(f"  - {{name: h{n}, kind: legal, owner: o, reason: r, {h}}}" for n, h in enumerate(holds)),
        ]
    if rules:
        lines += ["rules:", *(f"  - {{name: r{n}, owner: o, reason: r, {r}}}" for n, r in enumerate(rules))]
    document = read_document("\n".join(lines), where="p")
    return [str(one) for one in lint_policy(policy_of(document), document, retention_ms=retention_ms, now_ms=NOW_MS)]


@pytest.mark.parametrize(
    ("given_policy", "said"),
    [
        ({}, None),
        ({"rules": ()}, "p:1: there is no rule: under this policy no plan deletes anything"),
        ({"holds": [f"match: {{group: g}}, until: '{TOMORROW}'"]}, None),
        (
            {"holds": ["match: {group: g}"]},
            "p:3: hold h0 has no end, and the broker keeps offsets for 7d: a hold stops Sexton, never the broker "
            "(raise offsets.retention.minutes, or restore from the archive afterwards)",
        ),
        (
            {"holds": [f"match: {{group: g}}, until: '{NEXT_MONTH}'"]},
            "p:3: hold h0 lasts until 2027-02-15T08:00:00Z, longer than the 7d for which the broker keeps offsets: a "
            "hold stops Sexton, never the broker (raise offsets.retention.minutes to 54720, or restore",
        ),
        ({"holds": [f"match: {{group: g}}, until: '{NEXT_MONTH}'"], "retention_ms": 31 * DAY_MS}, None),
        (
            {"holds": [f"match: {{group: g}}, until: '{YESTERDAY}'"]},
            "p:3: hold h0 has ended at 2027-01-14T08:00:00Z (remove it, or move its end)",
        ),
        (
            {"rules": ["match: {group: g}, retention: 8d"]},
            "p:3: rule r0 keeps offsets for 8d, and the broker expires them after 7d: a policy can only shorten "
            "(raise offsets.retention.minutes to 11520,",
        ),
        ({"rules": ["match: {group: g}, retention: 7d"]}, None),
        (
            {"rules": ["match: {prefix: a}, retention: 1d", "match: {prefix: ab}, retention: 2d"]},
            "p:4: rule r1 can never decide: r0 comes before it and matches all that it matches",
        ),
        ({"rules": ["match: {prefix: ab}, retention: 1d", "match: {prefix: a}, retention: 2d"]}, None),
        (
            {"rules": ["match: {regex: a-.*}, retention: 1d", "match: {regex: a-b.*, state: Empty}, retention: 2d"]},
            "p:4: rule r1 can never decide",
        ),
        (
            {"rules": ["match: {regex: .*}, retention: 1d", "match: {orphan: topic_gone}, retention: 1d"]},
            "p:4: rule r1 can never decide",
        ),
        ({"rules": ["match: {orphan: topic_gone}, retention: 1d", "match: {regex: .*}, retention: 1d"]}, None),
        (
            {"rules": ["match: {prefix: a, idle: 1d}, retention: 1d", "match: {prefix: a, idle: 2d}, retention: 1d"]},
            "p:4: rule r1 can never decide",
        ),
        (
            {"rules": ["match: {prefix: a, idle: 2d}, retention: 1d", "match: {prefix: a, idle: 1d}, retention: 1d"]},
            None,
        ),
        (
            {"rules": ["match: {group: [x, y]}, retention: 1d", "match: {group: x}, retention: 1d"]},
            "p:4: rule r1 can never decide",
        ),
        (
            {"holds": ["match: {prefix: a}"], "rules": ["match: {group: abc}, retention: 1d"]},
            "p:5: rule r0 can never decide: hold h0 has no end and holds all that it matches",
        ),
        (
            {
                "holds": [f"match: {{prefix: a}}, until: '{TOMORROW}'"],
                "rules": ["match: {group: abc}, retention: 1d"],
            },
            None,
        ),
        (
            {"holds": [f"match: {{prefix: a}}, until: '{TOMORROW}'", f"match: {{prefix: ab}}, until: '{NEXT_MONTH}'"]},
            "p:4: hold h1 lasts until",
        ),
        (
            {"holds": ["match: {prefix: a}", "match: {prefix: ab}"]},
            "p:4: hold h1 can never decide: h0 comes before it",
        ),
        (
            {"rules": ["match: {group: x, prefix: a}, retention: 1d"]},
            "p:3: rule r0 can never match: no group that it names has such a prefix",
        ),
        (
            {"rules": ["match: {state: Stable, idle: 1d}, retention: 1d"]},
            "p:3: rule r0 can never match: a group that is Stable has members, and is never idle",
        ),
        (
            {"rules": ["match: {state: PreparingRebalance}, retention: 1d"]},
            "p:3: rule r0 can never match: after a load no group is PreparingRebalance",
        ),
        (
            {"rules": ["match: {state: [Stable, CompletingRebalance, Dead]}, retention: 1d"]},
            "p:3: rule r0 names a state that never occurs: after a load no group is CompletingRebalance or Dead",
        ),
        ({"rules": ["match: {state: [Empty, Stable, Assigning, Reconciling, NotReady]}, retention: 1d"]}, None),
    ],
)
def test_advice(given_policy, said):
    told = advice(**given_policy)
    if said is None:
        assert told == []
    else:
        assert any(line.startswith(said) for line in told), told


@SOME
@given(matches(NAMES | PASSING), matches(NAMES | PASSING), groups())
def test_what_covers_another_matches_all_of_it(earlier, later, group):
    """A warning that is wrong would make an owner take out a rule that is needed."""
    first, second = Match.model_validate(earlier), Match.model_validate(later)
    if covers(first, second):
        for orphan in (None, "topic_gone", "partition_gone"):
            if mismatch(second, group, orphan, now_ms=NOW_MS) is None:
                assert mismatch(first, group, orphan, now_ms=NOW_MS) is None
