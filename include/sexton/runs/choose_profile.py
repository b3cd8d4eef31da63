"""Chooses the profile whose rules a run follows: the one asked for, or with `auto` the one that is proven.

Proof is the recorded broker's version, a record that only a newer coordinator writes, or a log without a batch of the
newest record format. Otherwise it is open, because 2.x and 4.0 can write the same log. Then the newest rules apply,
with the longer of Kafka's default retentions: a warning says so, and no plan is kept that could be applied. A profile
that was asked for is used as it is; where the log or the recorded broker contradicts it, every command says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sexton.coordinator import profiles
from sexton.coordinator.dated_rules import group_coordinator
from sexton.coordinator.decoding import UNKNOWN_TYPE
from sexton.coordinator.profile import Profile

if TYPE_CHECKING:
    from sexton.kernels.fold import PartialFold

AUTO = "auto"
AMBIGUOUS = "ambiguous"
_FIRST_NEW_TYPE, _LAST_NEW_TYPE = 3, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A profile and what proves it. `doubts` speak against it, `open_points` say what is not proven."""

    profile: Profile
    source: str
    doubts: list[str] = field(default_factory=list)
    open_points: list[str] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """All that a reader should know of it."""
        unproven = (
            f"{self.profile.text} is unproven: its rules follow Kafka's sources, no recording of such a broker was "
            "compared"
        )
        return [*self.doubts, *self.open_points, *([] if self.profile.is_proven else [unproven])]

    def held_against(self, parts: "Iterable[Evidence]", broker_version: str | None = None) -> "Choice":
        """The same with a doubt where the log, or else the recorded broker, speaks against it."""
        found = contradiction(self.profile, parts) or _other_broker(self.profile, broker_version)
        return self if found is None else replace(self, doubts=[*self.doubts, found])


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one log partition, or some of it, shows of the coordinator that wrote it."""

    batches: int
    format_0: int
    format_1: int
    record_types: frozenset[int]
    """Types of the group records, and those that the profile of the reader does not know."""
    version_4: bool
    """Offset values of version 4, written from 4.1 on."""
    legacy_records: int
    offset_records: int

    @property
    def new_types(self) -> frozenset[int]:
        """Record types that the Java coordinator introduced."""
        return frozenset(number for number in self.record_types if _FIRST_NEW_TYPE <= number <= _LAST_NEW_TYPE)

    @classmethod
    def of(cls, fold: "PartialFold") -> "Evidence":
        counters = fold.counters
        format_0, format_1 = fold.format_batches
        rows = (row for _, row in fold.undecodable)
        refused = {row.record_type for row in rows if row.reason == UNKNOWN_TYPE and row.record_type is not None}
        return cls(
            batches=counters["batches"],
            format_0=format_0,
            format_1=format_1,
            record_types=fold.group_record_types | fold.unknown_types.keys() | refused,
            version_4=counters["values_of_version_4"] > 0,
            legacy_records=counters["legacy_records"],
            offset_records=counters["offset_values"] + counters["offset_tombstones"],
        )


def joined(buckets: Sequence[Evidence]) -> Evidence:
    """That of a log partition, from its buckets (kernels.buckets), each of which counts its batches."""
    return replace(
        buckets[0],
        record_types=frozenset().union(*(one.record_types for one in buckets)),
        version_4=any(one.version_4 for one in buckets),
        legacy_records=sum(one.legacy_records for one in buckets),
        offset_records=sum(one.offset_records for one in buckets),
    )


def choose(profile: str, broker_version: str | None = None) -> Choice:
    """The profile asked for; for AUTO that of the recorded broker, else the newest, until something proves another."""
    if profile == AUTO:
        return ambiguous() if broker_version is None else of_version(broker_version)
    return Choice(profile=profiles.profile_of(profile), source="asked for")


def of_version(broker_version: str) -> Choice:
    """The coordinator of the recorded broker."""
    return Choice(profile=profiles.of_broker(broker_version), source=f"recorded broker version {broker_version}")


def of_evidence(parts: Iterable[Evidence]) -> Choice:
    """What the log itself proves."""
    parts = list(parts)
    if any(part.new_types for part in parts):
        return _proven("group_coordinator", "record types from 3 on")
    if any(part.version_4 for part in parts):
        return _proven("group_coordinator", "offset values of version 4")
    if not is_of_old_formats(parts):
        return ambiguous()
    if any(part.format_1 for part in parts):
        choice = _proven("group_metadata_manager", "record format 1")
        release = (
            f"the log proves no release: taken for {choice.profile.text}; a broker before 2.0 keeps offsets for 24 "
            "hours, not 7 days (--profile NAME:RELEASE)"
        )
        return replace(choice, open_points=[release])
    if all(part.legacy_records == part.offset_records for part in parts):
        return _proven("offset_manager:0.8.2", "record type 0 alone")
    return _proven("offset_manager", "record format 0 alone")


def is_of_old_formats(parts: Iterable[Evidence]) -> bool:
    """Whether there are batches, and none of the newest record format."""
    parts = list(parts)
    batches = sum(part.batches for part in parts)
    return batches > 0 and sum(part.format_0 + part.format_1 for part in parts) == batches


def contradiction(profile: Profile, parts: Iterable[Evidence]) -> str | None:
    """Why no coordinator of `profile` can have written this log; None where nothing says so."""
    parts = list(parts)
    proof = _newer(profile, parts)
    if proof is None:
        proven = of_evidence(parts)
        if proven.source == AMBIGUOUS or proven.profile.name == profile.name:
            return None
        if _newest_format(parts) == profile.record_format:  # 0.10.0 writes format 1, too
            return None
        proof = f"{proven.source.removeprefix('proof: ')} shows {proven.profile.name}"
    return f"the log contradicts the profile {profile.text}: {proof} (--profile auto takes what the log proves)"


def _newer(profile: Profile, parts: list[Evidence]) -> str | None:
    """What in the log came after the release."""
    types = sorted({number for part in parts for number in part.new_types if not profile.reads(number)})
    if types:
        return f"it has records of type {', '.join(map(str, types))}, which that release does not write"
    is_java = profile.name == group_coordinator.NAME
    if any(part.version_4 for part in parts) and not (is_java and profile.reads_topic_ids):
        return "it has offset values of version 4, which Kafka writes from 4.1 on"
    newest = _newest_format(parts)
    if newest > profile.newest_format:
        return f"it has batches of record format {newest}, which that release cannot read"
    return None


def _newest_format(parts: list[Evidence]) -> int:
    """The newest record format of the log; 0 for one without batches."""
    if any(part.batches > part.format_0 + part.format_1 for part in parts):
        return 2
    return int(any(part.format_1 for part in parts))


def _other_broker(profile: Profile, broker_version: str | None) -> str | None:
    """Why the recorded broker speaks against a profile: it runs by other rules."""
    if broker_version is None:
        return None
    own = profiles.of_broker(broker_version)
    if replace(own, release=profile.release, is_proven=profile.is_proven) == profile:
        return None
    return f"the profile {profile.text} is not that of the recorded broker: Kafka {broker_version} follows {own.text}"


def _proven(profile: str, proof: str) -> Choice:
    return Choice(profile=profiles.profile_of(profile), source=f"proof: {proof}")


def ambiguous() -> Choice:
    """The newest profile, which nothing proves."""
    unknown = "nothing in the log proves whose coordinator wrote it: taken for the newest; --profile says otherwise"
    return Choice(profile=profiles.NEWEST, source=AMBIGUOUS, open_points=[unknown])
