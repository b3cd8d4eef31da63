"""Chooses the profile whose rules a run follows: the requested one, or with `auto` the proven one.

Proof is the recorded broker's version, a record that only a newer coordinator writes, a log without a batch of the
newest record format, or anything else that leaves a single coordinator (release_bounds). Without proof the choice stays
open, because 2.x and 4.0 can write the same log. Then the newest possible rules apply, with the longer of Kafka's
default retentions: a warning says so, and no plan is stored, so none can be applied. A requested profile is used as it
is; if the log or the recorded broker contradicts it, every command says so. Brokers of 3.8 and 3.9 can run the old or
the new coordinator: records of consumer groups in their log prove the new one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sexton.coordinator import profiles
from sexton.coordinator.dated_rules import group_coordinator
from sexton.coordinator.decoding import UNKNOWN_TYPE
from sexton.coordinator.profile import Profile, Release
from sexton.runs.release_bounds import UNBOUNDED, ReleaseBounds, text_of

if TYPE_CHECKING:
    from sexton.kernels.fold import PartialFold

AUTO = "auto"
AMBIGUOUS = "ambiguous"
_PREVIEW = (
    "the record types do not prove 4.0 or later: the new coordinator of 3.8 and 3.9, a preview, writes them, too  "
    f"(--profile {group_coordinator.NAME}:3.9)"
)
_FIRST_NEW_TYPE, _LAST_NEW_TYPE = 3, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A profile and its proof. `doubts` say what contradicts the profile, `open_points` what is not proven."""

    profile: Profile
    source: str
    doubts: list[str] = field(default_factory=list)
    open_points: list[str] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """Every warning about the choice."""
        unproven = (
            f"{self.profile.text} is unproven: its rules follow Kafka's sources and were not compared with a recording "
            "of such a broker"
        )
        return [*self.doubts, *self.open_points, *([] if self.profile.is_proven else [unproven])]

    def held_against(self, parts: "Sequence[ProfileEvidence]", broker_version: str | None = None) -> "Choice":
        """This choice, with a doubt if the log, or else the recorded broker, contradicts it."""
        found = contradiction(self.profile, parts) or _other_broker(self.profile, broker_version)
        return self if found is None else replace(self, doubts=[*self.doubts, found])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEvidence:
    """Evidence of the coordinator in one log partition, or in a range of it."""

    batches: int
    format_0: int
    format_1: int
    record_types: frozenset[int]
    """Types of the group records, even those that the reader's profile does not know."""
    version_4: bool
    """Offset values of version 4, written from 4.1 on."""
    legacy_records: int
    offset_records: int
    newest_ms: int = -1
    """The newest timestamp of a batch."""
    group_versions: frozenset[int] = frozenset()
    """Versions of the values of type 2."""
    has_refused: bool = False
    """Whether the reader's profile cannot read part of the log, which may mean a newer coordinator."""

    @property
    def new_types(self) -> frozenset[int]:
        """Record types that the Java coordinator introduced."""
        return frozenset(number for number in self.record_types if _FIRST_NEW_TYPE <= number <= _LAST_NEW_TYPE)

    @classmethod
    def of(cls, fold: "PartialFold") -> "ProfileEvidence":
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
            newest_ms=fold.max_timestamp_ms,
            group_versions=fold.group_value_versions,
            has_refused=bool(fold.undecodable),
        )


def joined(buckets: Sequence[ProfileEvidence]) -> ProfileEvidence:
    """Evidence of a log partition from its buckets (kernels.buckets), each of which counts all batches of the log
    partition."""
    return replace(
        buckets[0],
        record_types=frozenset().union(*(one.record_types for one in buckets)),
        version_4=any(one.version_4 for one in buckets),
        legacy_records=sum(one.legacy_records for one in buckets),
        offset_records=sum(one.offset_records for one in buckets),
        newest_ms=max(one.newest_ms for one in buckets),
        group_versions=frozenset().union(*(one.group_versions for one in buckets)),
    )


def choose(profile: str, broker_version: str | None = None) -> Choice:
    """The requested profile. For AUTO the recorded broker's, else the newest until something proves another."""
    if profile == AUTO:
        return ambiguous() if broker_version is None else of_version(broker_version)
    return Choice(profile=profiles.profile_of(profile), source="asked for")


def of_version(broker_version: str, glimpse: Callable[[], Iterable[ProfileEvidence]] = tuple) -> Choice:
    """The recorded broker's coordinator. If it may be either of two, the log's evidence (`glimpse`) decides."""
    source, profile = f"recorded broker version {broker_version}", profiles.of_broker(broker_version)
    preview = group_coordinator.FIRST_RELEASE <= profile.release < group_coordinator.FIRST_BY_DEFAULT
    types = frozenset().union(*(part.new_types for part in glimpse())) if preview else frozenset()
    if not types & group_coordinator.PREVIEW_TYPES:
        return Choice(profile=profile, source=source)
    return Choice(
        profile=profiles.profile_of(f"{group_coordinator.NAME}:{broker_version}"),
        source=f"{source}, and records of consumer groups",
        open_points=[
            f"records of consumer groups show the new coordinator of {broker_version}; if it has been switched "
            f"off since, use --profile {profile.name}:{broker_version}"
        ],
    )


def of_evidence(parts: Sequence[ProfileEvidence], disk: ReleaseBounds = UNBOUNDED) -> Choice:
    """The profile that the log proves, within the bounds from the disk."""
    if any(part.new_types for part in parts):
        is_preview = all(part.new_types <= group_coordinator.PREVIEW_TYPES and not part.version_4 for part in parts)
        since = group_coordinator.FIRST_RELEASE if is_preview else group_coordinator.FIRST_BY_DEFAULT
        return _java("record types from 3 on", since, parts, disk)
    if any(part.version_4 for part in parts):
        return _java("offset values of version 4", (4, 1), parts, disk)
    if not is_of_old_formats(parts):
        return _of_bounds(bounds_of(parts, disk))
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


def _java(proof: str, since: Release, parts: Sequence[ProfileEvidence], disk: ReleaseBounds) -> Choice:
    """The Java coordinator of the newest release from `since` on that the bounds allow."""
    choice = _proven("group_coordinator", proof)
    bounds = bounds_of(parts, disk)
    at_least, at_most = max(since, bounds.lowest or since), bounds.highest
    newest = choice.profile.release[:2]
    if at_least <= newest and (at_most is None or at_most >= newest):
        return replace(choice, open_points=[_PREVIEW]) if at_least < group_coordinator.FIRST_BY_DEFAULT else choice
    release = at_least if at_most is None else max(at_least, at_most)
    is_preview = release < group_coordinator.FIRST_BY_DEFAULT
    name = f"{group_coordinator.NAME}:{text_of(release)}"
    profile = profiles.profile_of(name) if is_preview else profiles.of_broker(text_of(release))
    reasons = filter(None, (bounds.lowest_why, bounds.highest_why))
    return replace(choice, profile=profile, open_points=[f"taken for {profile.text}: {'; '.join(reasons)}"])


def bounds_of(parts: Sequence[ProfileEvidence], disk: ReleaseBounds) -> ReleaseBounds:
    """The possible releases of the broker that wrote a log of the newest record format."""
    is_java = any(part.new_types or part.version_4 for part in parts)  # group values may be older than the upgrade
    return disk.and_log(
        newest_ms=max((part.newest_ms for part in parts), default=-1),
        group_versions=() if is_java else frozenset().union(*(part.group_versions for part in parts)),
    )


def _of_bounds(bounds: ReleaseBounds) -> Choice:
    """The newest profile within the bounds. It is proven if they leave one coordinator."""
    reasons = [why for why in (bounds.lowest_why, bounds.highest_why) if why]
    profile = profiles.NEWEST if bounds.highest is None else profiles.of_broker(text_of(bounds.highest))
    if bounds.lowest is not None and bounds.lowest > profile.release[:2]:
        profile = profiles.of_broker(text_of(bounds.lowest))
    if not bounds.leaves_one_coordinator:
        return ambiguous(profile, reasons)
    since = "" if bounds.lowest is None else f"from {text_of(bounds.lowest)}"
    until = "" if bounds.highest is None else f"up to {text_of(bounds.highest)}"
    span = " ".join(filter(None, (since, until)))
    release = f"the release is not proven ({span}): taken for {profile.text} (--profile NAME:RELEASE)"
    is_one = bounds.lowest == bounds.highest
    return Choice(profile=profile, source=f"proof: {'; '.join(reasons)}", open_points=[] if is_one else [release])


def is_of_old_formats(parts: Sequence[ProfileEvidence]) -> bool:
    """Whether there are batches, and all are of older record formats than the newest."""
    return any(part.batches for part in parts) and _newest_format(parts) < 2


def contradiction(profile: Profile, parts: Sequence[ProfileEvidence]) -> str | None:
    """Why no coordinator of `profile` can have written this log; None without a contradiction."""
    proof = _newer(profile, parts)
    if proof is None:
        proven = of_evidence(parts)
        if proven.source == AMBIGUOUS or proven.profile.name == profile.name:
            return None
        if _newest_format(parts) == profile.record_format:  # 0.10.0 writes format 1, too
            return None
        proof = f"{proven.source.removeprefix('proof: ')} shows {proven.profile.name}"
    return f"the log contradicts the profile {profile.text}: {proof} (--profile auto takes what the log proves)"


def _newer(profile: Profile, parts: Sequence[ProfileEvidence]) -> str | None:
    """What in the log a coordinator of `profile` does not write or cannot read; None without such evidence."""
    types = sorted({number for part in parts for number in part.new_types if not profile.reads(number)})
    if types:
        found = f"it has records of type {', '.join(map(str, types))}, which that coordinator does not write"
        is_preview = profile.release >= group_coordinator.FIRST_RELEASE and group_coordinator.PREVIEW_TYPES.issuperset(
            types
        )
        return f"{found}, though the new one of that release does ({group_coordinator.NAME})" if is_preview else found
    is_java = profile.name == group_coordinator.NAME
    if any(part.version_4 for part in parts) and not (is_java and profile.reads_topic_ids):
        return "it has offset values of version 4, which Kafka writes from 4.1 on"
    newest = _newest_format(parts)
    if newest > profile.newest_format:
        return f"it has batches of record format {newest}, which that release cannot read"
    return None


def _newest_format(parts: Sequence[ProfileEvidence]) -> int:
    """The newest record format of the log; 0 for one without batches."""
    if any(part.batches > part.format_0 + part.format_1 for part in parts):
        return 2
    return int(any(part.format_1 for part in parts))


def _other_broker(profile: Profile, broker_version: str | None) -> str | None:
    """Why the recorded broker contradicts a profile: it follows other rules."""
    if broker_version is None:
        return None
    own = profiles.of_broker(broker_version)
    if profile.early_consumer_groups and own.release[:2] == profile.release[:2]:  # that broker has both coordinators
        return None
    if replace(own, release=profile.release, is_proven=profile.is_proven) == profile:
        return None
    return f"the profile {profile.text} is not that of the recorded broker: Kafka {broker_version} follows {own.text}"


def _proven(profile: str, proof: str) -> Choice:
    return Choice(profile=profiles.profile_of(profile), source=f"proof: {proof}")


def ambiguous(profile: Profile = profiles.NEWEST, reasons: Sequence[str] = ()) -> Choice:
    """The newest possible profile, unproven; `reasons` say what bounds the release."""
    taken = "the newest" if profile == profiles.NEWEST else f"{profile.text} ({'; '.join(reasons)})"
    unknown = f"nothing in the log proves which coordinator wrote it: taken for {taken}; --profile sets another"
    return Choice(profile=profile, source=AMBIGUOUS, open_points=[unknown])
