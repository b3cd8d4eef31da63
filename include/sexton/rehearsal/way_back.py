"""The way back: what the new release writes that the old one cannot read, and what the old one then answers.

A coordinator writes offset values in its own version, whatever metadata.version is. From 4.1 on that is version 4, at
which a load by 3.4.0 or earlier ends (KIP-915): after one commit there is no way back to these releases.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sexton.coordinator.profile import Profile
from sexton.rehearsal.faults import ANSWERS, NOW, Fault
from sexton.rehearsal.logs import LogOf, decoded

NEXT_COMMIT, NEXT_REBALANCE = "the next commit", "the next rebalance of a classic group"
_NEWER = ("unknown_value_version", "unknown_record_type", "malformed_value")
SKIPPED = "passed over with a warning: its groups become Classic and Empty with the offsets they have, or are gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecords:
    """A kind of record that the old release cannot read, and when it appears; `is_there`: the log already has it.

    `fails_load`: it ends the load; otherwise it is skipped. `is_newer`: only a newer release writes such bytes; false
    for a fault that the old release has with records of its own.
    """

    what: str
    comes_with: str
    fails_load: bool
    answer: str
    log_partition: int | None = None
    log_offset: int | None = None
    record: dict[str, Any] | None = None
    is_there: bool = False
    is_newer: bool = True

    @property
    def is_unavoidable(self) -> bool:
        """Whether normal operation writes such records, so that there is soon no way back after the upgrade."""
        return self.fails_load and self.is_newer and (self.is_there or self.comes_with in (NEXT_COMMIT, NEXT_REBALANCE))


def kinds_to_come(old: Profile, new: Profile) -> list[UnreadableRecords]:
    """What the new release writes that the old one cannot read, the most likely first."""
    fails, found = ANSWERS[old.after_failure.value], list[UnreadableRecords]()

    def add(is_so: bool, what: str, comes_with: str, *, fails_load: bool = True) -> None:
        if is_so:
            answer = fails if fails_load else SKIPPED
            found.append(UnreadableRecords(what=what, comes_with=comes_with, fails_load=fails_load, answer=answer))

    add(new.record_format > old.newest_format, f"batches of record format {new.record_format}", NEXT_COMMIT)
    add(not old.reads(new.offset_key_type), f"offsets under keys of type {new.offset_key_type}", NEXT_COMMIT)
    version = old.value_versions.get(new.offset_key_type, -1)
    add(version < new.offset_value_version, f"offset values of version {new.offset_value_version}", NEXT_COMMIT)
    group, known = new.group_value_version, old.value_versions.get(2, -1)
    add(group is not None and group > known, f"values of classic groups of version {group}", NEXT_REBALANCE)
    for name, types in (("consumer", (*range(3, 9), 16)), ("share", range(10, 16)), ("streams", range(17, 24))):
        new_types = [number for number in types if new.reads(number) and not old.reads(number)]
        text = f"record types {', '.join(map(str, new_types))}"
        add(bool(new_types), text, f"the first {name} group", fails_load=not old.skips_unknown_types)
    early = old.early_share_groups and new.reads(11) and not new.early_share_groups
    add(early, "records of share groups, whose layout differs in 4.0", "the first share group")
    moves = old.early_consumer_groups and not new.early_consumer_groups
    add(moves, "consumer groups over the offsets of classic ones, once cleaned (KAFKA-17306)", "a group that converts")
    streams = old.reads(17) and new.streams_replace_simple and not old.streams_replace_simple
    add(streams, "streams groups over the offsets of classic ones, once cleaned (KAFKA-20254)", "a group that converts")
    return found


def way_back(logs: list[LogOf], old: Profile, new: Profile, faults: list[Fault]) -> Iterator[UnreadableRecords]:
    """For each log partition: the first record that the old release cannot read; without one, the first kind to come.

    `faults` are those of the old release.
    """
    to_come = kinds_to_come(old, new)
    for log in logs:
        fault = next((one for one in faults if (one.log_partition, one.when) == (log.number, NOW)), None)
        loaded = log.load(new).load_failure
        if fault is not None and (loaded is None or fault.message not in loaded):
            yield UnreadableRecords(
                what=fault.message,
                comes_with="it is there",
                fails_load=True,
                answer=ANSWERS[fault.answer],
                log_partition=log.number,
                log_offset=fault.log_offset,
                record=fault.record,
                is_there=True,
                is_newer=any(
                    row.log_offset == fault.log_offset and row.reason in _NEWER for row in log.load(old).undecodable
                ),
            )
            continue
        for record in log.cleanable.records:
            number = int.from_bytes((record.key or b"")[:2], signed=True)
            if new.reads(number) and not old.reads(number):
                yield UnreadableRecords(
                    what=f"record type {number}",
                    comes_with="it is there",
                    fails_load=False,
                    answer=SKIPPED,
                    log_partition=log.number,
                    log_offset=record.log_offset,
                    record=decoded(record),
                    is_there=True,
                )
                break
        else:
            if to_come:
                yield replace(to_come[0], log_partition=log.number)
