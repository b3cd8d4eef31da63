"""A rehearsal: a log loaded by the rules of the release that wrote it and of another release, and the way back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sexton.as_text import MINUTE_MS, some
from sexton.coordinator.profile import LOADED, Profile
from sexton.coordinator.profiles import NAMES, of_broker, profile_of
from sexton.errors import DataQualityFailure, NoCoverage, UndecodableInput, UsageError
from sexton.rehearsal.answers import BREAKING, MEANINGS, GroupChange, changes_between, groups_in
from sexton.rehearsal.faults import AFTER_CLEANING, ANSWERS, DURING_CLEANING, NOW, SENTENCES, WHEN, Fault, faults_of
from sexton.rehearsal.features import GROUP_VERSION, RefusedLevel, metadata_of, refused_levels
from sexton.rehearsal.logs import LogOf, coordinator_of, read_logs
from sexton.rehearsal.readiness import Readiness, readiness
from sexton.rehearsal.way_back import UnreadableRecords, kinds_to_come, way_back
from sexton.runs.choose_profile import AUTO
from sexton.runs.partition_count import partition_count
from sexton.runs.source import LogSource
from sexton.views.coordinator_view import missing_text
from sexton.views.log_parts import LogParts

SAFE, NO_WAY_BACK, NOT_SAFE = "safe", "safe_no_way_back", "not_safe"
VERDICTS: Mapping[str, str] = {
    SAFE: "safe",
    NO_WAY_BACK: "safe, but no way back after the first commit",
    NOT_SAFE: "not safe",
}
_NAMED = 3
OFFSET_VALUES, GROUP_VALUES = "offset values", "values of classic groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """How each release loads a log partition, and its number of records."""

    log_partition: int
    records: int
    groups: int
    before: str
    before_failure: str | None
    after: str
    after_failure: str | None
    after_cleaning: str
    """The outcome of the new release's load once the log is cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The version in which each release writes a kind of value, and the highest version that the old release reads."""

    what: str
    before: int | None
    after: int | None
    old_reads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a rehearsal found. `before` is the old release, which runs now; `after` is the new one."""

    where: str
    before: Profile
    before_source: str
    after: Profile
    as_of_ms: int
    loads: Sequence[Loads]
    faults: Sequence[Fault]
    """Faults of the new release; `old_faults` are those of the old one."""
    old_faults: Sequence[Fault]
    groups: Sequence[GroupChange]
    writes: Sequence[Written]
    way_back: Sequence[UnreadableRecords]
    to_come: Sequence[UnreadableRecords]
    refused: Sequence[RefusedLevel]
    refused_back: Sequence[RefusedLevel]
    has_metadata: bool
    readiness: Sequence[Readiness]
    unreadable_bytes: int
    """Records, batches and byte ranges at which the loads of both releases end."""
    warnings: list[str] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Why the new release is not safe, in sentences; empty if it is safe."""
        also = f", as by {self.before.text}"
        found = [
            f"log partition {one.log_partition}: {SENTENCES[one.when]}{also * one.also_from}: {one.message}"
            for one in self.faults
            if one.when != DURING_CLEANING or not one.also_from
        ]
        found += [
            f"a broker of {self.after.text} does not start: {one.name} {one.level} in the metadata log"
            for one in self.refused
        ]
        failing = {one.log_partition for one in self.loads if one.after != LOADED}
        for kind, meaning in MEANINGS.items():
            changed = [one for one in self.groups if kind in one.kinds and one.log_partition not in failing]
            if changed and kind in BREAKING:
                names = ", ".join(one.group_id for one in changed[:_NAMED])
                more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
                found.append(f"{names}{more}: {meaning}")
        return found

    @property
    def verdict(self) -> str:
        if self.reasons:
            return NOT_SAFE
        is_stuck = any(one.is_unavoidable for one in (*self.way_back, *self.to_come)) or self.refused_back
        return NO_WAY_BACK if is_stuck else SAFE

    @property
    def exit_code(self) -> int:
        if self.unreadable_bytes:
            return UndecodableInput.exit_code
        return 0 if self.verdict == SAFE else DataQualityFailure.exit_code

    def document(self) -> dict[str, Any]:
        """The rehearsal as a JSON document."""
        return {
            "verdict": self.verdict,
            "verdict_text": VERDICTS[self.verdict],
            "reasons": self.reasons,
            "exit_code": self.exit_code,
            "from": {**_side(self.before), "source": self.before_source},
            "to": _side(self.after),
            "as_of_ms": self.as_of_ms,
            "loads": [asdict(one) for one in self.loads],
            "faults": [_fault(one) for one in self.faults],
            "faults_of_from": [_fault(one) for one in self.old_faults],
            "groups": [
                {
                    "group_id": one.group_id,
                    "log_partition": one.log_partition,
                    "changes": list(one.kinds),
                    "is_breaking": one.is_breaking,
                    "from": one.before.fields(),
                    "to": one.after.fields(),
                    "offsets": [asdict(offset) for offset in one.offsets],
                }
                for one in self.groups
            ],
            "writes": [asdict(one) for one in self.writes],
            "back": {
                "log_partitions": [asdict(one) for one in self.way_back],
                "to_come": [asdict(one) for one in self.to_come],
                "refused_levels": [asdict(one) for one in self.refused_back],
            },
            "refused_levels": [asdict(one) for one in self.refused] if self.has_metadata else None,
            "readiness": [asdict(one) for one in self.readiness],
            "unreadable_bytes": self.unreadable_bytes,
            "warnings": self.warnings,
        }


def _fault(fault: Fault) -> dict[str, Any]:
    return asdict(fault) | {"when_text": WHEN[fault.when], "answer_text": ANSWERS.get(fault.answer, fault.answer)}


def _side(profile: Profile) -> dict[str, Any]:
    return {"profile": profile.text, "is_proven": profile.is_proven}


def profile_named(text: str, where: str) -> Profile:
    """The profile of a release such as 4.3.1, or of a profile's name; UsageError if `text` is neither."""
    try:
        return profile_of(text) if text.partition(":")[0] in NAMES else of_broker(text)
    except UsageError as error:
        raise UsageError(error.message, where=where, fix=error.fix) from None


def rehearse(
    source: LogSource,
    *,
    new: Profile,
    old: Profile | None,
    as_of_ms: int | None,
    taken_at_ms: int,
    retention_minutes: int | None = None,
) -> Rehearsal:
    """Rehearse what the release `new` does with a log. Without `old` the old release is the one that the log proves."""
    parts = LogParts(source, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms)
    choice = None if old is not None else parts.choose(AUTO)
    old = old or parts.profile
    logs = read_logs(source, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms)
    for log in logs:
        log.load(old)
        log.load(new)
    if as_of_ms is not None and all(log.load(new).first_log_offset is None for log in logs):
        raise NoCoverage(f"no record was written before {as_of_ms} ms", where=source.where, fix="choose a later as-of")
    count, notes = partition_count(
        source, lambda: {log.number: {key[0] for key in log.load(new).offsets} for log in logs}
    )
    brokers = [coordinator_of(logs, one, here=source.here, count=count) for one in (old, new)]
    now_ms = as_of_ms or 1 + max((log.load(new).max_timestamp_ms for log in logs), default=0)
    minutes = retention_minutes or source.retention_minutes
    retention_ms = {one.text: (minutes or one.default_retention_minutes) * MINUTE_MS for one in (old, new)}
    old_faults, faults = (
        [fault for log in logs for fault in faults_of(log, one, groups_in(log, old, new))] for one in (old, new)
    )
    faults = [replace(one, also_from=any(_covers(fault, one) for fault in old_faults)) for one in faults]
    metadata = None if source.is_archive else metadata_of([*source.uris], as_of_ms)
    is_off = metadata is not None and new.release >= (4, 0) and not metadata.features.get(GROUP_VERSION)
    return Rehearsal(
        where=source.where,
        before=old,
        before_source="asked for" if choice is None else choice.source,
        after=new,
        as_of_ms=now_ms,
        loads=[_loads(log, old, new, [one for one in faults if one.log_partition == log.number]) for log in logs],
        faults=faults,
        old_faults=old_faults,
        groups=changes_between(logs, *brokers, retention_ms=retention_ms, now_ms=now_ms),
        writes=_writes(old, new),
        way_back=[*way_back(logs, old, new, old_faults)],
        to_come=kinds_to_come(old, new),
        refused=refused_levels(metadata, new) if metadata else [],
        refused_back=refused_levels(metadata, old) if metadata else [],
        has_metadata=metadata is not None,
        readiness=readiness(logs, new, source.recorded.broker_settings),
        unreadable_bytes=sum(_unreadable(log, old, new) for log in logs),
        warnings=[
            *(_without_group_version(logs, new) if is_off else ()),
            *source.warnings,
            *notes,
            *missing_text(sorted(set(range(count or 0)) - source.here)),
            *(() if choice is None else (text.replace("--profile", "--from") for text in choice.open_points)),
            *_unproven(old, new),
        ],
    )


def _covers(old: Fault, new: Fault) -> bool:
    """Whether a fault of the old release is the same as one of the new release, or worse."""
    if old.log_partition != new.log_partition:
        return False
    return old.when == NOW or (old.group_id == new.group_id and new.when in (old.when, DURING_CLEANING))


def _loads(log: LogOf, old: Profile, new: Profile, faults: list[Fault]) -> Loads:
    before, after = log.load(old), log.load(new)
    fails = {one.when: one for one in faults}
    cleaned = new.after_failure.value if AFTER_CLEANING in fails else LOADED
    if NOW in fails:
        cleaned = LOADED if fails[NOW].ends_with_cleaning else after.load_outcome
    return Loads(
        log_partition=log.number,
        records=after.counters["records"],
        groups=len(after.groups.by_id),
        before=before.load_outcome,
        before_failure=before.load_failure,
        after=after.load_outcome,
        after_failure=after.load_failure,
        after_cleaning=cleaned,
    )


def _writes(old: Profile, new: Profile) -> list[Written]:
    kinds = (
        (OFFSET_VALUES, old.offset_value_version, new.offset_value_version, new.offset_key_type),
        (GROUP_VALUES, old.group_value_version, new.group_value_version, 2),
    )
    return [
        Written(what=what, before=before, after=after, old_reads=old.value_versions.get(record_type))
        for what, before, after, record_type in kinds
        if before != after
    ]


def _without_group_version(logs: list[LogOf], new: Profile) -> Iterator[str]:
    """Warnings about a group.version of 0 in the metadata log."""
    yield (
        f"{GROUP_VERSION} is 0 in the metadata log: consumers with group.protocol=consumer are refused until "
        f"`kafka-features.sh upgrade --feature {GROUP_VERSION}=1`"
    )
    loads = [one for one in (log.load(new) for log in logs) if not one.holds_nothing]
    groups = sum(group.group_type == "Consumer" for loaded in loads for group in loaded.groups.by_id.values())
    if groups:
        yield f"until then {some(groups, 'consumer group')} would be listed and not described: GROUP_ID_NOT_FOUND"


def _unreadable(log: LogOf, old: Profile, new: Profile) -> int:
    """The number of places at which bytes end the loads of both releases."""
    places = [
        {(row.base_offset, row.log_offset) for row in log.load(one).undecodable if row.fails_load} for one in (old, new)
    ]
    return len(places[0] & places[1])


def _unproven(old: Profile, new: Profile) -> list[str]:
    texts = dict.fromkeys(one.text for one in (old, new) if not one.is_proven)
    return [f"{text} is unproven: its rules follow Kafka's sources, no recording was compared" for text in texts]
