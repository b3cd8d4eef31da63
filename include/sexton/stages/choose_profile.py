"""Whose rules a run follows: those asked for, or with `auto` those that something proves.

Proof is the recorded broker's version, a record that only a newer coordinator writes, or a log without a batch of the
newest record format. Anything else leaves it open: a log looks the same under 2.x and under 4.0.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sexton.coordinator import profiles
from sexton.coordinator.profile import Profile
from sexton.kernels.fold import PartialFold

AUTO = "auto"
AMBIGUOUS = "ambiguous"
_FIRST_NEW_TYPE, _LAST_NEW_TYPE = 3, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A profile and what told it."""

    profile: Profile
    told_by: str
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one log partition tells of its coordinator."""

    batches: int
    format_0: int
    format_1: int
    new_types: bool
    """Records of types that the Java coordinator introduced."""
    version_4: bool
    """Offset values of version 4, written from 4.1 on."""
    legacy_records: int
    offset_records: int

    @classmethod
    def of(cls, fold: PartialFold) -> "Evidence":
        counters = fold.counters
        types = fold.group_record_types | fold.unknown_types.keys()
        format_0, format_1 = fold.format_batches
        return cls(
            batches=counters["batches"],
            format_0=format_0,
            format_1=format_1,
            new_types=any(_FIRST_NEW_TYPE <= number <= _LAST_NEW_TYPE for number in types),
            version_4=counters["values_of_version_4"] > 0,
            legacy_records=counters["legacy_records"],
            offset_records=counters["offset_values"] + counters["offset_tombstones"],
        )


def choose(profile: str) -> Choice:
    """The profile asked for; for AUTO the newest, until something proves another."""
    if profile == AUTO:
        return _ambiguous()
    found = profiles.profile_of(profile)
    return Choice(profile=found, told_by="asked for", warnings=_doubts(found))


def of_version(broker_version: str) -> Choice:
    """The coordinator of the recorded broker."""
    found = profiles.of_broker(broker_version)
    return Choice(profile=found, told_by=f"recorded broker version {broker_version}", warnings=_doubts(found))


def of_evidence(parts: Iterable[Evidence]) -> Choice:
    """What the log itself proves."""
    parts = list(parts)
    if any(part.new_types for part in parts):
        return _proven("group_coordinator", "record types from 3 on")
    if any(part.version_4 for part in parts):
        return _proven("group_coordinator", "offset values of version 4")
    batches = sum(part.batches for part in parts)
    old = sum(part.format_0 + part.format_1 for part in parts)
    if not batches or old < batches:
        return _ambiguous()
    if any(part.format_1 for part in parts):
        return _proven("group_metadata_manager", "record format 1")
    if all(part.legacy_records == part.offset_records for part in parts):
        return _proven("offset_manager:0.8.2", "record type 0 alone")
    return _proven("offset_manager", "record format 0 alone")


def _proven(profile: str, proof: str) -> Choice:
    found = profiles.profile_of(profile)
    return Choice(profile=found, told_by=f"proof: {proof}", warnings=_doubts(found))


def _ambiguous() -> Choice:
    warning = "nothing in the log proves whose coordinator wrote it: taken for the newest; --profile says otherwise"
    return Choice(profile=profiles.NEWEST, told_by=AMBIGUOUS, warnings=[warning])


def _doubts(profile: Profile) -> list[str]:
    if profile.is_proven:
        return []
    return [f"{profile.text} is unproven: its rules follow Kafka's sources, no recording of such a broker was compared"]
