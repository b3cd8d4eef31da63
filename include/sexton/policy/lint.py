"""Warnings about a valid policy: effects that it cannot have, and entries that never decide.

The most important one: a hold binds Sexton, not the broker. The broker expires offsets after offsets.retention.minutes,
whatever a hold demands.
"""

import re
from collections.abc import Iterator, Sequence

from sexton.as_text import MINUTE_MS
from sexton.policy.diagnostics import Diagnostic
from sexton.policy.durations import duration_text, instant_text
from sexton.policy.model import Hold, Match, Policy, Rule
from sexton.policy.patterns import is_full_match
from sexton.policy.strict_yaml import Loc, YamlDocument

MAX_RETENTION_MINUTES = (1 << 31) - 1
"""Maximum of the broker setting offsets.retention.minutes."""
_NOT_THE_BROKER = "a hold stops Sexton, never the broker"
_RAISE = "raise offsets.retention.minutes, or restore from the archive afterwards"
_LITERAL_PREFIX = re.compile(r"([A-Za-z0-9_-]*)\.\*")
_MEMBERLESS = ("Empty", "Dead")
_NEVER_LOADED = frozenset({"PreparingRebalance", "CompletingRebalance", "Dead"})
"""States that no group has after a load: a rebalance is not in the log, and a dead group is deleted from it."""


def lint_policy(policy: Policy, document: YamlDocument, *, retention_ms: int, now_ms: int) -> list[Diagnostic]:
    """Return warnings about a policy that was read from `document`, by line, for a broker with this retention."""
    warnings: list[tuple[Loc, str, str]] = []
    for number, hold in enumerate(policy.holds):
        found = [*_of_hold(hold, retention_ms=retention_ms, now_ms=now_ms)]
        found += _unreachable(policy, hold, policy.holds[:number])
        warnings += ((("holds", number), *one) for one in found)
    for number, rule in enumerate(policy.rules):
        found = [*_of_rule(rule, retention_ms=retention_ms), *_unreachable(policy, rule, policy.rules[:number])]
        warnings += ((("rules", number), *one) for one in found)
    if not policy.rules:
        warnings.append(
            (("rules",), "there is no rule: under this policy no plan deletes anything", "add one, or use no policy")
        )
    diagnostics = (
        Diagnostic(where=document.where, line=document.line_of(loc), what=what, fix=fix) for loc, what, fix in warnings
    )
    return sorted(diagnostics, key=lambda diagnostic: diagnostic.line)


def _of_hold(hold: Hold, *, retention_ms: int, now_ms: int) -> Iterator[tuple[str, str]]:
    kept = duration_text(retention_ms)
    if hold.keep_ms is not None and (hold.until_ms is None or hold.until_ms > now_ms):
        return
    if hold.until_ms is None:
        yield (
            f"hold {hold.name} has no end, and the broker keeps offsets for {kept}: {_NOT_THE_BROKER}",
            _RAISE,
        )
    elif hold.until_ms <= now_ms:
        yield f"hold {hold.name} has ended at {instant_text(hold.until_ms)}", "remove it, or move its end"
    elif hold.until_ms - now_ms > retention_ms:
        minutes = -(-(hold.until_ms - now_ms + retention_ms) // MINUTE_MS)
        enough = f" to {minutes}" if minutes <= MAX_RETENTION_MINUTES else ""
        yield (
            f"hold {hold.name} lasts until {instant_text(hold.until_ms)}, longer than the {kept} for which the broker "
            f"keeps offsets: {_NOT_THE_BROKER}",
            _RAISE.replace("minutes,", f"minutes{enough},"),
        )


def _of_rule(rule: Rule, *, retention_ms: int) -> Iterator[tuple[str, str]]:
    if rule.retention_ms > retention_ms:
        minutes = rule.retention_ms // MINUTE_MS
        yield (
            f"rule {rule.name} keeps offsets for {duration_text(rule.retention_ms)}, and the broker expires them after "
            f"{duration_text(retention_ms)}: a policy can only shorten",
            _RAISE.replace("minutes,", f"minutes to {minutes},"),
        )


def _unreachable(
    policy: Policy, entry: Hold | Rule, earlier: Sequence[Hold] | Sequence[Rule]
) -> Iterator[tuple[str, str]]:
    """Yield why an entry can never apply. Only certain cases are reported."""
    kind = "hold" if isinstance(entry, Hold) else "rule"
    nothing = _matches_nothing(entry.match)
    if nothing is not None:
        yield f"{kind} {entry.name} can never match: {nothing}", "correct its match, or remove it"
        return
    if never := _never_loaded(entry.match):
        yield (
            f"{kind} {entry.name} names a state that never occurs: {never}",
            "name Empty, or the states of groups with members",
        )
    for other in earlier:
        lasts = not isinstance(other, Hold) or _lasts_as_long(other, entry)
        if lasts and covers(other.match, entry.match):
            yield (
                f"{kind} {entry.name} can never apply: {other.name} comes before it and matches all that it matches",
                "move it up, or remove it",
            )
            return
    if isinstance(entry, Rule):
        for hold in policy.holds:
            if hold.until_ms is None and covers(hold.match, entry.match):
                yield (
                    f"rule {entry.name} can never apply: hold {hold.name} has no end and covers all that it matches",
                    "remove it while the hold is in force",
                )
                return


def _lasts_as_long(hold: Hold, entry: Hold | Rule) -> bool:
    if hold.until_ms is None:
        return True
    return isinstance(entry, Hold) and entry.until_ms is not None and entry.until_ms <= hold.until_ms


def _matches_nothing(match: Match) -> str | None:
    """Return why no group can match all keys, None if some may."""
    if match.group is not None and not _left_of_groups(match):
        return "no group that it names has such a prefix or matches such a regex"
    if match.state is not None and set(match.state) <= _NEVER_LOADED:
        return _never_loaded(match)
    is_idle_active = match.idle_ms is not None and match.state is not None and not set(match.state) & set(_MEMBERLESS)
    if is_idle_active:
        return f"a group that is {' or '.join(match.state or ())} has members, and is never idle"
    return None


def _never_loaded(match: Match) -> str | None:
    """Return which states of a match no group has after a load; None if there are no such states."""
    named = [state for state in match.state or () if state in _NEVER_LOADED]
    return f"after a load no group is {' or '.join(named)}" if named else None


def covers(earlier: Match, later: Match) -> bool:
    """Return whether everything that `later` matches certainly matches `earlier`."""
    return (
        _covers_names(earlier, later)
        and _is_within(later.type, earlier.type)
        and _is_within(later.state, earlier.state)
        and _is_within(later.orphan, earlier.orphan)
        and (earlier.idle_ms is None or (later.idle_ms is not None and later.idle_ms >= earlier.idle_ms))
    )


def _is_within(words: tuple[str, ...] | None, others: tuple[str, ...] | None) -> bool:
    return others is None or (words is not None and set(words) <= set(others))


def _covers_names(earlier: Match, later: Match) -> bool:
    if later.group is not None:
        return all(_has_name(earlier, group_id) for group_id in _left_of_groups(later))
    if earlier.group is not None:
        return False
    return _covers_prefixes(earlier.prefix, later) and (
        earlier.regex is None
        or _is_within(later.regex, earlier.regex)
        or _covers_prefixes(_prefixes_of(earlier.regex), later)
    )


def _covers_prefixes(prefixes: tuple[str, ...] | None, later: Match) -> bool:
    """Return whether all names of `later` begin with one of these; its regex counts if it is a plain prefix."""
    if prefixes is None or "" in prefixes:
        return True
    begins = (later.prefix, None if later.regex is None else _prefixes_of(later.regex, all_of=True))
    return any(
        bool(words) and all(word.startswith(prefixes) for word in words) for words in begins if words is not None
    )


def _prefixes_of(patterns: tuple[str, ...], *, all_of: bool = False) -> tuple[str, ...]:
    """Return the prefixes of patterns such as `billing-.*`; with `all_of` none unless all have that form."""
    found = [match[1] for match in map(_LITERAL_PREFIX.fullmatch, patterns) if match]
    return () if all_of and len(found) < len(patterns) else tuple(found)


def _has_name(match: Match, group_id: str) -> bool:
    return (
        (match.group is None or group_id in match.group)
        and (match.prefix is None or group_id.startswith(match.prefix))
        and (match.regex is None or any(is_full_match(pattern, group_id) for pattern in match.regex))
    )


def _left_of_groups(match: Match) -> tuple[str, ...]:
    """Return the group names in a match that its prefix and regex also allow."""
    return tuple(group_id for group_id in match.group or () if _has_name(match, group_id))
