"""Who did it: the logged requests that fit an event of a group, and how certain that is. No name is guessed.

An event is a record in the log, or several with the same timestamp. A request fits if it names the group, can have
written that record (OffsetDelete what was deleted, a commit the value that was set), and was being processed at the
record's timestamp, plus or minus WINDOW_MS. Where none fits the answer is `not_logged`, never "nobody": the request may
have been sent to a broker whose log was not given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sexton.as_text import instant, some
from sexton.history.events import RESET, RESTORED, Event
from sexton.incident.broker_logs import (
    DELETE_GROUPS,
    DELETE_TOPICS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    TXN_OFFSET_COMMIT,
    BrokerLogs,
    LoggedCall,
)
from sexton.tables.change_causes import ChangeKind

WINDOW_MS = 5_000
"""Allowed difference between the times of a record and of a log line; the leader of the log partition writes both."""
_QUARTER_MS, _MAX_ZONES_MS = 900_000, 26 * 3_600_000
"""Time zones differ by quarters of an hour, and by no more than a day and two hours."""
_APIS: Mapping[str, tuple[str, ...]] = {
    ChangeKind.DELETED.value: (OFFSET_DELETE,),
    ChangeKind.GROUP_DELETED.value: (DELETE_GROUPS,),
    ChangeKind.TOPIC_DELETED.value: (DELETE_TOPICS,),
    RESET: (OFFSET_COMMIT,),
    RESTORED: (OFFSET_COMMIT, TXN_OFFSET_COMMIT),
}
"""Kind of event -> requests that may have caused it; no request causes an expiry."""
NEEDED = "kafka.authorizer.logger or kafka.request.logger at DEBUG, of the broker that led the group's log partition"


class Certainty(StrEnum):
    """How certain the caller is."""

    CERTAIN = "certain"
    """One completed request fits."""
    LIKELY = "likely"
    """One allowed request fits; an authorizer does not log the result."""
    CANDIDATES = "candidates"
    """Several requests fit."""
    NOT_LOGGED = "not_logged"
    """No request fits, or the given logs cannot have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A request that fits: who sent it, from where, when it was logged, and in which line of which file."""

    principal: str
    host: str
    client_id: str | None
    api: str
    at_ms: int
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Who caused an event: the callers that fit, and the reason for the certainty."""

    what: str
    log_offset: int
    timestamp_ms: int | None
    certainty: Certainty
    callers: list[Caller]
    reason: str


def who_did(events: Sequence[Event], group_id: str, logs: BrokerLogs | None) -> list[Who]:
    """Who caused each event that a client may have caused, in the given order. Events of one write have one entry,
    except resets and restores."""
    found, asked = [], set[int | None]()
    for event in events:
        kinds = event.causes or tuple(event.what.split(" or "))
        apis = {api for kind in kinds for api in _APIS.get(kind, ())}
        if apis and (event.timestamp_ms not in asked or event.what in (RESET, RESTORED)):
            asked.add(event.timestamp_ms)
            found.append(_who(event, group_id, apis, logs))
    return found


def _who(event: Event, group_id: str, apis: set[str], logs: BrokerLogs | None) -> Who:
    fitting = [] if logs is None else [call for call in logs.calls if _fits(call, event, group_id, apis)]
    completed = [call for call in fitting if call.is_completed]
    best = completed or fitting
    near = [call for call in best if _is_near(call, event)] if event.log_offset >= 0 else []
    seconds = f"{WINDOW_MS // 1000} s"
    if not near:
        certainty, reason = Certainty.NOT_LOGGED, _why_not(event, logs, best)
    elif len(near) > 1:
        certainty = Certainty.CANDIDATES
        reason = f"{some(len(near), 'request')} fit within {seconds} of the record: the logs do not show which did it"
    elif completed:
        certainty = Certainty.CERTAIN
        reason = f"the only logged request that fits within {seconds} of the record; it completed without an error"
        if ChangeKind.EXPIRED.value in event.what or ChangeKind.EXPIRED.value in event.causes:
            reason += ", so that this was no expiry"
    else:
        certainty = Certainty.LIKELY
        reason = (
            f"the only allowed request that fits within {seconds} of the record; an authorizer does not log the outcome"
        )
    callers = [
        Caller(
            principal=call.principal,
            host=call.host,
            client_id=call.client_id,
            api=call.api,
            at_ms=min(call.at_ms, key=lambda at_ms: abs(at_ms - (event.timestamp_ms or 0))),
            line=call.line,
        )
        for call in near
    ]
    return Who(
        what=event.what,
        log_offset=event.log_offset,
        timestamp_ms=event.timestamp_ms,
        certainty=certainty,
        callers=callers,
        reason=reason,
    )


def _fits(call: LoggedCall, event: Event, group_id: str, apis: set[str]) -> bool:
    """Whether a call, regardless of its time, may have written an event's records."""
    if call.api not in apis:
        return False
    if call.api == DELETE_TOPICS:
        return any(row["topic"] == call.topic for row in event.offsets)
    if call.group_id != group_id:
        return False
    if call.partitions is None:
        return True
    rows = [(str(row["topic"]), row["partition"], row.get("new_committed_offset")) for row in event.offsets]
    return any(
        partition == number and name in (topic, "") and (offset is None or offset == value)
        for topic, partition, value in rows
        for (name, number), offset in call.partitions.items()
    )


def _is_near(call: LoggedCall, event: Event) -> bool:
    """Whether the call was being processed at the event's timestamp, plus or minus WINDOW_MS."""
    at_ms = event.timestamp_ms
    return at_ms is not None and any(
        logged - call.took_ms - WINDOW_MS <= at_ms <= logged + WINDOW_MS for logged in call.at_ms
    )


def _why_not(event: Event, logs: BrokerLogs | None, fitting: Sequence[LoggedCall]) -> str:
    """Why the logs do not show who caused an event."""
    if logs is None or not logs.files:
        return f"no log of a broker was given (--authorizer-log); it takes {NEEDED}"
    if event.log_offset < 0 or event.timestamp_ms is None:
        return "this input does not show the instant: give --segments or --archive with the log"
    spans = [file for file in logs.files if file.first_ms is not None and file.last_ms is not None]
    if not spans:
        return (
            "the given logs have neither allowed nor completed requests: by default the authorizer logs denials alone, "
            f"and requests are not logged; it takes {NEEDED}"
        )
    shifts = {
        round((logged - event.timestamp_ms) / _QUARTER_MS)
        for call in fitting
        for logged in call.at_ms
        if 0 < abs(logged - event.timestamp_ms) <= _MAX_ZONES_MS
        and abs((logged - event.timestamp_ms + _QUARTER_MS // 2) % _QUARTER_MS - _QUARTER_MS // 2) <= WINDOW_MS
    } - {0}
    if shifts:
        hours = ", ".join(f"{shift / 4:+g} h" for shift in sorted(shifts))
        return (
            f"requests fit {hours} from the record: if the broker's clock is not in the zone {logs.zone}, give its own "
            "with --log-time-zone"
        )
    if not any(file.first_ms - WINDOW_MS <= event.timestamp_ms <= file.last_ms + WINDOW_MS for file in spans):  # type: ignore[operator]
        first, last = min(file.first_ms or 0 for file in spans), max(file.last_ms or 0 for file in spans)
        return f"the given logs have requests from {instant(first)} to {instant(last)}: not of that instant"
    return f"no request in the given logs fits; it takes {NEEDED}, and those of all other brokers for a deleted topic"
