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


def advice(rules, holds, retention_ms):
    lines = ["version: 1"]
    for title, told in (("holds", holds), ("rules", rules)):
        entries = [f"  - {{name: {title[0]}{number}, owner: o, reason: r, {it}}}" for number, it in enumerate(told)]
        lines += [f"{title}:", *entries] if told else []
    document = read_document("\n".join(lines), where="p")
    return [str(one) for one in lint_policy(policy_of(document), document, retention_ms=retention_ms, now_ms=NOW_MS)]


def says(said, *rules, holds=(), retention_ms=WEEK_MS):
    """A row: what is said of rules, `match; retention` (a day, where it is left out), and of holds, `match; end`."""
    parts = [it.partition("; ") for it in rules]
    rules = [f"match: {{{match}}}, retention: {length or '1d'}" for match, _, length in parts]
    parts = [it.partition("; ") for it in holds]
    holds = [f"kind: legal, match: {{{match}}}" + (f", until: '{end}'" if end else "") for match, _, end in parts]
    return rules, holds, retention_ms, said


def holds_say(said, *holds, retention_ms=WEEK_MS):
    """The same of holds before a rule that has nothing to do with them."""
    return says(said, "prefix: other-", holds=holds, retention_ms=retention_ms)


LESS = "p:4: rule r1 can never apply"
HELD = "p:5: rule r0 can never apply: hold h0 has no end and covers all that it matches"
NEVER = "p:3: rule r0 can never match: "
ADVICE = [
    holds_say(None),
    says("p:1: there is no rule: under this policy no plan deletes anything"),
    holds_say(None, f"group: g; {TOMORROW}"),
    holds_say(
        "p:3: hold h0 has no end, and the broker keeps offsets for 7d: a hold stops Sexton, never the broker "
        "(raise offsets.retention.minutes, or restore from the archive afterwards)",
        "group: g",
    ),
    holds_say(
        "p:3: hold h0 lasts until 2027-02-15T08:00:00Z, longer than the 7d for which the broker keeps offsets: a "
        "hold stops Sexton, never the broker (raise offsets.retention.minutes to 54720, or restore",
        f"group: g; {NEXT_MONTH}",
    ),
    holds_say(None, f"group: g; {NEXT_MONTH}", retention_ms=31 * DAY_MS),
    holds_say("p:3: hold h0 has ended at 2027-01-14T08:00:00Z (remove it, or move its end)", f"group: g; {YESTERDAY}"),
    says(
        "p:3: rule r0 keeps offsets for 8d, and the broker expires them after 7d: a policy can only shorten "
        "(raise offsets.retention.minutes to 11520,",
        "group: g; 8d",
    ),
    says(None, "group: g; 7d"),
    says(LESS + ": r0 comes before it and matches all that it matches", "prefix: a", "prefix: ab; 2d"),
    says(None, "prefix: ab", "prefix: a; 2d"),
    says(LESS, "regex: a-.*", "regex: a-b.*, state: Empty; 2d"),
    says(LESS, "regex: .*", "orphan: topic_gone"),
    says(None, "orphan: topic_gone", "regex: .*"),
    says(LESS, "prefix: a, idle: 1d", "prefix: a, idle: 2d"),
    says(None, "prefix: a, idle: 2d", "prefix: a, idle: 1d"),
    says(LESS, "group: [x, y]", "group: x"),
    says(HELD, "group: abc", holds=["prefix: a"]),
    says(None, "group: abc", holds=[f"prefix: a; {TOMORROW}"]),
    holds_say("p:4: hold h1 lasts until", f"prefix: a; {TOMORROW}", f"prefix: ab; {NEXT_MONTH}"),
    holds_say("p:4: hold h1 can never apply: h0 comes before it", "prefix: a", "prefix: ab"),
    says(NEVER + "no group that it names has such a prefix", "group: x, prefix: a"),
    says(NEVER + "a group that is Stable has members, and is never idle", "state: Stable, idle: 1d"),
    says(NEVER + "after a load no group is PreparingRebalance", "state: PreparingRebalance"),
    says(
        "p:3: rule r0 names a state that never occurs: after a load no group is CompletingRebalance or Dead",
        "state: [Stable, CompletingRebalance, Dead]",
    ),
    says(None, "state: [Empty, Stable, Assigning, Reconciling, NotReady]"),
]


@pytest.mark.parametrize(("rules", "holds", "retention_ms", "said"), ADVICE)
def test_advice(rules, holds, retention_ms, said):
    told = advice(rules, holds, retention_ms)
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
