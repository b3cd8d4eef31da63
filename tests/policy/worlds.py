"""Generated policies, groups and offsets, with few names and few instants so that they meet."""

from hypothesis import settings
from hypothesis import strategies as st

from sexton.policy import Decision, GroupInput, GroupRules, Hold, OffsetInput, Policy, Rule
from sexton.policy.decision import NO_RULE
from sexton.policy.durations import DAY_MS, HOUR_MS, duration_text, instant_text
from sexton.policy.inputs import due_at_ms, is_due
from sexton.vocabulary import GROUP_TYPES, ORPHANS

SOME = settings(max_examples=100)
NOW_MS = 1_800_000_000_000
STATES = ("Empty", "Stable")
GROUP_IDS = ("", "a", "ab", "abc", "b", "b\n", "ba", "c" * 300)
_PATTERNS = ("a.*", ".*b", "[^a]+", "(a|b)+", ".*", "b")
_HOURS = st.integers(1, 12)
_DURATIONS = _HOURS.map(lambda hours: duration_text(hours * HOUR_MS))
_EDGES_MS = (0, -1, -(1 << 63), (1 << 63) - 1, NOW_MS, NOW_MS + 1)
STAMPS_MS = st.one_of(
    st.integers(-1, 12).map(lambda hours: NOW_MS - hours * HOUR_MS),
    st.integers(-1, 1).map(lambda off_ms: NOW_MS - 6 * HOUR_MS + off_ms),
    st.sampled_from(_EDGES_MS),
)


def some(values):
    return st.lists(st.sampled_from(values), min_size=1, max_size=3)


NAMES = {
    "group": some(GROUP_IDS),
    "prefix": some(("a", "ab", "b", "c")),
    "regex": some(_PATTERNS),
    "type": some(GROUP_TYPES),
}
PASSING = {"state": some(STATES), "idle": _DURATIONS, "orphan": some(ORPHANS)}


def matches(keys):
    one = st.sampled_from(sorted(keys)).flatmap(lambda key: st.fixed_dictionaries({key: keys[key]}))
    return st.one_of(one, st.fixed_dictionaries({}, optional=keys).filter(bool), st.just({"regex": ".*"}))


def holds():
    until = st.integers(-2, 8).map(lambda hours: instant_text(NOW_MS + hours * HOUR_MS))
    return st.fixed_dictionaries(
        {"match": matches(NAMES), "kind": st.sampled_from(("legal", "operational"))}, optional={"until": until}
    )


def rules():
    return st.fixed_dictionaries({"match": matches(NAMES | PASSING), "retention": _DURATIONS})


def named(kind, entries):
    return [{"name": f"{kind}-{number}", "owner": "o", "reason": "r", **one} for number, one in enumerate(entries)]


@st.composite
def policies(draw, *, max_holds=2, max_rules=4):
    return Policy.model_validate(
        {
            "version": 1,
            "holds": named("hold", draw(st.lists(holds(), max_size=max_holds))),
            "rules": named("rule", draw(st.lists(rules(), max_size=max_rules))),
        }
    )


@st.composite
def groups(draw):
    state = draw(st.sampled_from(STATES))
    return group(
        draw(st.sampled_from(GROUP_IDS)), group_type=draw(st.sampled_from(GROUP_TYPES)), state=state,
        protocol_type=None, last_active_ms=draw(st.none() | STAMPS_MS), member_count=0 if state == "Empty" else 1,
    )  # fmt: skip


@st.composite
def offsets(draw):
    reasons = ("not_due", "expired", "expired_explicit", "subscribed", "pending_transaction")
    reason = draw(st.sampled_from((*reasons[:3], *reasons)))
    commit_ms, base_ms = draw(STAMPS_MS), draw(STAMPS_MS)
    return offset(
        commit_timestamp_ms=commit_ms,
        base_timestamp_ms=None if reason == "expired_explicit" else base_ms,
        orphan=draw(st.none() | st.sampled_from(ORPHANS)),
        is_pending=draw(st.booleans()) or reason == "pending_transaction",
        broker_verdict="expire" if reason.startswith("expired") else "keep",
        broker_reason=reason,
    )


def group(group_id="ci-1", *, idle_ms=9 * DAY_MS, **changed):
    """An Empty classic group of consumers."""
    facts = {"group_type": "Classic", "state": "Empty", "protocol_type": "consumer", "member_count": 0}
    facts["last_active_ms"] = None if idle_ms is None else NOW_MS - idle_ms
    return GroupInput(group_id=group_id, **{**facts, **changed})


def offset(age_ms=9 * DAY_MS, **changed):
    """An offset that the broker keeps because it is not due."""
    facts = {"topic": "t", "partition": 0, "orphan": None, "is_pending": False, "broker_expires_at_ms": None}
    facts |= {"broker_verdict": "keep", "broker_reason": "not_due"}
    facts |= dict.fromkeys(("commit_timestamp_ms", "base_timestamp_ms"), NOW_MS - age_ms)
    return OffsetInput(**{**facts, **changed})


def rule(**given):
    return Rule.model_validate({"name": "r", "owner": "o", "reason": "r", "retention": "1d", **given})


def hold(**given):
    return Hold.model_validate({"name": "h", "owner": "o", "reason": "r", "kind": "legal", **given})


def decide_by_rules(rules: GroupRules, offset: OffsetInput, *, now_ms: int) -> Decision:
    """The decision that a group's spans give, as verdicts.policy reads them in columns."""
    span, *_ = coming = rules.from_(now_ms)
    expires_ms = None if offset.is_pending or offset.kept_by else _expires_at_ms(coming, offset, now_ms=now_ms)
    if span.hold is not None:
        return Decision(verdict="hold", reason=span.hold.reason, rule=span.hold.name, expires_at_ms=expires_ms)
    one = span.candidate(offset.orphan)
    if one is None:
        return Decision(verdict="keep", reason=NO_RULE, rule=None, expires_at_ms=expires_ms)
    if offset.kept_by is not None:
        return Decision(verdict="keep", reason=offset.kept_by, rule=one.rule, expires_at_ms=None)
    if not is_due(offset.since_ms, one.retention_ms, now_ms=now_ms):
        return Decision(verdict="keep", reason="not_due", rule=one.rule, expires_at_ms=expires_ms)
    if offset.is_pending:
        return Decision(verdict="keep", reason="pending_transaction", rule=one.rule, expires_at_ms=None)
    return Decision(verdict="expire", reason="expired", rule=one.rule, expires_at_ms=expires_ms)


def _expires_at_ms(coming, offset, *, now_ms):
    """When the offset expires or has expired. If a later span decides, that is not before the span's start."""
    for number, span in enumerate(coming):
        one = None if span.hold is not None else span.candidate(offset.orphan)
        due_ms = None if one is None else due_at_ms(offset.since_ms, one.retention_ms, now_ms=now_ms)
        if due_ms is not None and (span.end_ms is None or due_ms < span.end_ms):
            return due_ms if number == 0 else max(due_ms, span.start_ms)
    return None
