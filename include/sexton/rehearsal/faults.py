"""Loads that fail with a release: now, once the log is cleaned, or possibly if it is cleaned during a load.

A cleaning leaves the last record of each key below some log offset, and every record from there on. A load that runs
while the cleaner replaces segments may read the first segments as they were and the following ones cleaned, a sequence
that is never on disk at one time (KAFKA-19862, KAFKA-21117). The last two cases are tried group by group, the
last for each record at which the load may have begun to read cleaned segments.
"""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from sexton.coordinator import decoding, profiles
from sexton.coordinator.decoding import Decoded, DecodedGroup, DecodedOffset, Undecodable, UnknownType
from sexton.coordinator.groups.groups import GROUP_RECORD_TYPES
from sexton.coordinator.profile import AfterFailure, Profile
from sexton.errors import LogError, TransitionError
from sexton.log.batch import Record
from sexton.rehearsal.logs import LogOf, by_group, decoded, group_of

NOW, AFTER_CLEANING, DURING_CLEANING = "now", "after_cleaning", "during_cleaning"
WHEN = {
    NOW: "now",
    AFTER_CLEANING: "certain after cleaning",
    DURING_CLEANING: "possible if the log is cleaned during a load",
}
SENTENCES = {
    NOW: "the load fails now",
    AFTER_CLEANING: "the load will fail once the log is cleaned",
    DURING_CLEANING: "a load may fail if the log is cleaned during it",
}
ANSWERS = {
    AfterFailure.NOTHING.value: "NOT_COORDINATOR to every request about its groups; ListGroups leaves them out without "
    "an error, and clients retry for ever",
    AfterFailure.EMPTY.value: "as if the log partition were empty: its groups are Dead and have no offsets, and their "
    "clients start at auto.offset.reset",
    AfterFailure.PREFIX.value: "what was read before the failure, as offsets without groups",
    "never_ends": "COORDINATOR_LOAD_IN_PROGRESS for ever",
}
_MAX_REPLAYED = 500_000
"""At most this many records are replayed for a group and a stage: in a long history, only every n-th record is tried as
the first one that a load reads from a cleaned segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A load of a log partition that fails: the record, the message, and the answer that clients then get.

    `is_rolled`: the load only fails after the present active segment has been rolled and cleaned. `ends_with_cleaning`:
    the load succeeds once the log is cleaned. `also_from`: the old release has the same fault, or a worse one.
    """

    log_partition: int
    when: str
    message: str
    answer: str
    log_offset: int | None = None
    group_id: str | None = None
    issue: str | None = None
    record: dict[str, Any] | None = None
    groups: tuple[str, ...] = ()
    is_rolled: bool = False
    ends_with_cleaning: bool = False
    also_from: bool = False


def faults_of(log: LogOf, profile: Profile, groups: tuple[str, ...] = ()) -> list[Fault]:
    """The faults of one log partition with a release: that of its load now, else at most one for each group.

    `groups` are the groups in the log partition. A record that cannot be decoded fails the load now or never: cleaning
    does not change it. Only the records of groups depend on earlier records.
    """
    loaded = log.load(profile)
    if loaded.load_failure is not None:  # further faults show only after this one is repaired
        place, message = _parted(loaded.load_failure)
        if loaded.endless is not None:
            place = loaded.endless.log_offset
        is_loaded_later = bool(log.stages) and not log.load(profile, log.stages[-1]).load_would_fail
        record = None if place is None else log.records.get(place)
        now = _fault(log, profile, NOW, record, message, groups)
        return [replace(now, log_offset=place, answer=loaded.load_outcome, ends_with_cleaning=is_loaded_later)]
    if profile.offsets_hold_groups:  # then no record depends on an earlier one
        return []
    found = [fault for group_id, records in by_group(log) for fault in _of_group(log, profile, records, groups)]
    return sorted(found, key=lambda one: (one.when, one.log_offset or 0))


def _fault(
    log: LogOf, profile: Profile, when: str, record: Record | None, message: str, groups: tuple[str, ...]
) -> Fault:
    return Fault(
        log_partition=log.number,
        when=when,
        message=message,
        answer=profile.after_failure.value,
        log_offset=None if record is None else record.log_offset,
        group_id=group_of(record),
        issue=_issue(message, profile),
        record=None if record is None else decoded(record),
        groups=groups,
    )


def _of_group(log: LogOf, profile: Profile, records: Sequence[Record], groups: tuple[str, ...]) -> Iterator[Fault]:
    """The first fault of a group after a cleaning; without one, the first possible if a cleaning runs during a load."""
    history = [(one, decoding.decode(one, base_offset=one.log_offset, profile=profile)) for one in records]
    own = {one.log_offset for one in records}
    stages = {log.gone(stage) & own: stage for stage in reversed(log.stages)}  # the first of equal ones
    for gone, stage in reversed(stages.items()):
        if (failure := _replay(history, profile, raw_below=0, gone=gone)) is not None:
            yield replace(_fault(log, profile, AFTER_CLEANING, *failure, groups), is_rolled=stage.is_rolled)
            return
    step = 1 + len(records) ** 2 // _MAX_REPLAYED
    for gone in reversed(stages):
        for record in records[1::step]:
            if (failure := _replay(history, profile, raw_below=record.log_offset, gone=gone)) is not None:
                yield _fault(log, profile, DURING_CLEANING, *failure, groups)
                return


def _parted(failure: str) -> tuple[int | None, str]:
    found = re.fullmatch(r"log_offset (\d+): (?:\w+: )?(.*)", failure, re.DOTALL)
    return (int(found[1]), found[2]) if found else (None, failure)


def _issue(message: str, profile: Profile) -> str | None:
    """The Kafka issue or KIP of a fault; None if none is known."""
    if "is not a consumer group" in message or message.startswith("Consumer group "):
        return "KAFKA-17306" if profile.early_consumer_groups else "KAFKA-21117"
    if "is not a streams group" in message:
        return "KAFKA-21117" if profile.streams_replace_simple else "KAFKA-20254"
    if "still owned" in message or "does not have any epoch" in message:
        return "KAFKA-19862"
    if "topics was serialized as null" in message:
        return "KAFKA-20570"
    return "KIP-915" if message.startswith(("Unknown offset message", "Unknown group metadata")) else None


def _replay(
    history: Sequence[tuple[Record, Decoded | UnknownType | Undecodable]],
    profile: Profile,
    *,
    raw_below: int,
    gone: Set[int],
) -> tuple[Record, str] | None:
    """The first record of a group on which a load throws, and the message; None if it does not throw.

    The load reads every record below log_offset `raw_below`, and from there on those that are not `gone`. If it throws
    only after the last record (Groups.loading_failures), that record is returned.
    """
    groups = profiles.new_groups(profile)
    for record, found in history:
        if record.log_offset >= raw_below and record.log_offset in gone:
            continue
        try:
            match found:
                case DecodedOffset(value=value) if value is not None:
                    groups.ensure_simple_group(found.key.group_id)
                case DecodedGroup() if found.record_type in GROUP_RECORD_TYPES:
                    groups.replay(found.record_type, found.key, found.value, log_offset=record.log_offset)
        except TransitionError as error:
            return record, str(error)
        except LogError:
            return None  # cannot be decoded: not caused by cleaning
    failures = groups.loading_failures()
    return (history[-1][0], failures[0]) if failures else None
