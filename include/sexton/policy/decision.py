"""Which hold or rule decides about an offset, and why: the plain version, one offset at a time.

Holds come first. Then the first rule that matches decides; without one the offset is kept. A rule can only expire an
offset earlier than the broker would. If the broker keeps it for another reason than time, a rule keeps it, too. A
policy cannot save an offset whose retention at the broker has passed. compiled_rules.py does the same for many offsets
of a group at once; the tests compare the two.
"""

from collections.abc import Iterator
from dataclasses import replace

from sexton.policy.durations import duration_text, instant_text
from sexton.policy.inputs import LAST_MS, Decision, GroupInput, OffsetInput, RuleTrace, due_at_ms, is_due
from sexton.policy.model import Hold, Match, Policy, Rule
from sexton.policy.patterns import is_full_match

NO_RULE = "no_rule"


def decide(policy: Policy, group: GroupInput, offset: OffsetInput, *, now_ms: int) -> Decision:
    """Return the policy's decision about an offset of a group at `now_ms`."""
    found = _decide(policy, group, offset, now_ms=now_ms)
    if found.verdict == "expire":
        return found
    coming = (
        at_ms
        for at_ms in _turning_points(policy, group, offset, now_ms=now_ms)
        if _decide(policy, group, offset, now_ms=at_ms).verdict == "expire"
    )
    return replace(found, expires_at_ms=next(coming, None))


def decide_bare(policy: Policy, group: GroupInput, *, now_ms: int) -> Decision:
    """Return the policy's decision about a group without offsets.

    The first rule that matches expires it immediately, as the broker does: there is no timestamp from which a retention
    could count. Rules with `orphan` are about offsets and are skipped.
    """
    return _decide(policy, group, None, now_ms=now_ms)


def explain(policy: Policy, group: GroupInput, offset: OffsetInput | None, *, now_ms: int) -> list[RuleTrace]:
    """Return the outcome of every hold and rule, in order; without an offset, the outcomes for the bare group."""
    traces: list[RuleTrace] = []
    orphan = None if offset is None else offset.orphan
    decided: str | None = None
    entries: list[Hold | Rule] = [*policy.holds, *policy.rules]
    for entry in entries:
        if decided is not None:
            traces.append(RuleTrace(rule=entry.name, outcome="not reached", why=f"{decided} decides before it"))
            continue
        why_not = _ended(entry, now_ms) or mismatch(entry.match, group, orphan, now_ms=now_ms)
        if why_not is not None:
            traces.append(RuleTrace(rule=entry.name, outcome="does not match", why=why_not))
            continue
        decided = entry.name
        traces.append(RuleTrace(rule=entry.name, outcome="decides", why=_why(entry, offset, now_ms=now_ms)))
    return traces


def held_reason(hold: Hold) -> str:
    """Return held_legal or held_operational."""
    return f"held_{hold.kind}"


def mismatch(match: Match, group: GroupInput, orphan: str | None, *, now_ms: int) -> str | None:
    """Return why a group and its offset's orphan kind do not match; None if they match."""
    group_id = group.group_id
    if match.group is not None and group_id not in match.group:
        return f"group: the id is not {_either(match.group)}"
    if match.prefix is not None and not group_id.startswith(match.prefix):
        return f"prefix: the id does not begin with {_either(match.prefix)}"
    if match.regex is not None and not any(is_full_match(pattern, group_id) for pattern in match.regex):
        return f"regex: the whole id does not match {_either(match.regex)}"
    if match.type is not None and group.group_type not in match.type:
        return f"type: it is {group.group_type}, not {_either(match.type)}"
    if match.state is not None and group.state not in match.state:
        return f"state: it is {group.state}, not {_either(match.state)}"
    if match.idle_ms is not None:
        return _not_idle(match.idle_ms, group, now_ms) or _no_orphan(match, orphan)
    return _no_orphan(match, orphan)


def _no_orphan(match: Match, orphan: str | None) -> str | None:
    if match.orphan is None or orphan in match.orphan:
        return None
    return f"orphan: {'it is none' if orphan is None else f'it is {orphan}'}, not {_either(match.orphan)}"


def _not_idle(idle_ms: int, group: GroupInput, now_ms: int) -> str | None:
    since_ms = group.idle_since_ms
    if since_ms is None:
        return "idle: it has members" if group.member_count else "idle: it is unknown when it was last active"
    if now_ms - since_ms >= idle_ms:
        return None
    return f"idle: last active {instant_text(since_ms)}, less than {duration_text(idle_ms)} before"


def _either(words: tuple[str, ...]) -> str:
    shown = [repr(word) if len(word) <= 60 else repr(word[:59])[:-1] + "…'" for word in words[:3]]
    return " or ".join([*shown, f"{len(words) - 3} others"] if len(words) > 3 else shown)


def _ended(entry: Hold | Rule, now_ms: int) -> str | None:
    if isinstance(entry, Hold) and entry.until_ms is not None and not entry.is_on(now_ms):
        return f"until: the hold has ended at {instant_text(entry.until_ms)}"
    return None


def _why(entry: Hold | Rule, offset: OffsetInput | None, *, now_ms: int) -> str:
    if isinstance(entry, Hold):
        end = "" if entry.until_ms is None else f" until {instant_text(entry.until_ms)}"
        return f"{entry.kind} hold{end}: nothing is taken"
    if offset is None:
        return "the group has no offset that a retention could count from"
    if offset.kept_by is not None:
        return f"it matches, yet {offset.kept_by} keeps the offset whatever its age"
    length = duration_text(entry.retention_ms)
    if not is_due(offset.since_ms, entry.retention_ms, now_ms=now_ms):
        return f"kept for {length} from {instant_text(offset.since_ms)}, which have not passed"
    if offset.is_pending:
        return "it is due, yet an open transaction holds it"
    return f"kept for {length} from {instant_text(offset.since_ms)}, which have passed"


def _decide(policy: Policy, group: GroupInput, offset: OffsetInput | None, *, now_ms: int) -> Decision:
    """The decision about an offset, or about a group without offsets; expires_at_ms only where it has expired."""
    for hold in policy.holds:
        if hold.is_on(now_ms) and mismatch(hold.match, group, None, now_ms=now_ms) is None:
            return Decision(verdict="hold", reason=held_reason(hold), rule=hold.name, expires_at_ms=None)
    orphan = None if offset is None else offset.orphan
    rule = next((rule for rule in policy.rules if mismatch(rule.match, group, orphan, now_ms=now_ms) is None), None)
    if rule is None:
        return Decision(verdict="keep", reason=NO_RULE, rule=None, expires_at_ms=None)
    if offset is None:
        return Decision(verdict="expire", reason="expired", rule=rule.name, expires_at_ms=None)
    if offset.kept_by is not None:
        reason = offset.kept_by
    elif not is_due(offset.since_ms, rule.retention_ms, now_ms=now_ms):
        reason = "not_due"
    elif offset.is_pending:
        reason = "pending_transaction"
    else:
        due_ms = due_at_ms(offset.since_ms, rule.retention_ms, now_ms=now_ms)
        return Decision(verdict="expire", reason="expired", rule=rule.name, expires_at_ms=due_ms)
    return Decision(verdict="keep", reason=reason, rule=rule.name, expires_at_ms=None)


def _turning_points(policy: Policy, group: GroupInput, offset: OffsetInput, *, now_ms: int) -> Iterator[int]:
    """The instants after `now_ms` at which time alone can change the decision, in order."""
    points = {hold.until_ms for hold in policy.holds}
    points |= {due_at_ms(offset.since_ms, rule.retention_ms, now_ms=now_ms) for rule in policy.rules}
    since_ms = group.idle_since_ms
    if since_ms is not None:
        points |= {since_ms + rule.match.idle_ms for rule in policy.rules if rule.match.idle_ms is not None}
    yield from sorted(at_ms for at_ms in points if at_ms is not None and now_ms < at_ms <= LAST_MS)
