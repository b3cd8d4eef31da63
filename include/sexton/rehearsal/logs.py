"""A log as a release loads it: each log partition as it is, and as the cleaner leaves it."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard, shard_after_load
from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.api.view import EmptyView
from sexton.coordinator.cleaning import CleanableLog, read_cleanable
from sexton.coordinator.loading import Loaded
from sexton.coordinator.profile import AfterFailure, Profile
from sexton.errors import LogError
from sexton.log.batch import Record
from sexton.records import RECORD_TYPES, decode_key, decode_value, kafka_uuid
from sexton.runs.source import LogSource
from sexton.views.log_parts import LogParts


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A log partition after a cleaning below log_offset `below`, without tombstones below `without_tombstones`."""

    below: int
    without_tombstones: int = 0
    is_rolled: bool = False
    """Whether the present active segment has to be rolled before that cleaning."""


@dataclass(kw_only=True)
class LogOf:
    """A log partition: the bytes of its segments, read up to an instant."""

    number: int
    chunks: list[bytes]
    active_from: int
    """The base offset of the active segment, which the cleaner never touches; 0 if it is not known."""
    parts: LogParts
    _loads: dict[str, Loaded] = field(default_factory=dict)
    """Loads of the log partition as it is, by profile."""
    _gone: dict[Stage, frozenset[int]] = field(default_factory=dict)

    def load(self, profile: Profile, stage: Stage | None = None, *, stops_at_failure: bool = False) -> Loaded:
        """The result of a release's load of the log partition as it is, or at a stage."""
        is_kept = stage is None and not stops_at_failure
        if is_kept and profile.text in self._loads:
            return self._loads[profile.text]
        gone = frozenset() if stage is None else self.gone(stage)
        loaded = self.parts.load(self.chunks, profile=profile, stops_at_failure=stops_at_failure, gone=gone)
        if is_kept:
            self._loads[profile.text] = loaded
        return loaded

    def gone(self, stage: Stage) -> frozenset[int]:
        if stage not in self._gone:
            self._gone[stage] = self.cleanable.gone(stage.below, without_tombstones=stage.without_tombstones)
        return self._gone[stage]

    @cached_property
    def cleanable(self) -> CleanableLog:
        ends = [one.cut for one in self._loads.values()]
        return read_cleanable(self.chunks, cap_bytes=self.parts.cap_bytes, end=max(ends))

    @cached_property
    def stages(self) -> list[Stage]:
        """What a cleaning leaves, with or without tombstones: the next, or one after the active segment is rolled."""
        end = self.cleanable.end
        limits = {self.active_from: False, end: True} if 0 < self.active_from < end else {end: True}
        found = [
            Stage(below=below, without_tombstones=tombstones, is_rolled=is_rolled)
            for below, is_rolled in limits.items()
            for tombstones in (0, below)
        ]
        return [stage for stage in found if self.gone(stage)]

    @cached_property
    def records(self) -> Mapping[int, Record]:
        """The records by log offset."""
        return {one.log_offset: one for one in self.cleanable.records}


def read_logs(source: LogSource, *, as_of_ms: int | None, taken_at_ms: int) -> list[LogOf]:
    """The log partitions of segments or an archive."""
    parts = LogParts(source, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms)
    return [
        LogOf(
            number=number,
            chunks=[*parts.chunks(number)],
            # files of the archive are not the broker's segments
            active_from=0 if source.is_archive or not segments else segments[-1].base_offset,
            parts=parts,
        )
        for number, segments in sorted(source.segments.items())
    ]


def coordinator_of(logs: list[LogOf], profile: Profile, *, here: frozenset[int], count: int | None) -> Coordinator:
    """A broker of a release that leads the log partitions `here`; those that are not in `logs` are empty."""
    shards: dict[int, CoordinatorShard] = {
        number: shard_after_load(EmptyView(), "loaded", profile=profile) for number in sorted(here)
    }
    for log in logs:
        loaded = log.load(profile)
        held = log.load(profile, stops_at_failure=True) if loaded.load_outcome == AfterFailure.PREFIX else loaded
        shards[log.number] = shard_after_load(PlainView(held), loaded.load_outcome, profile=profile)
    return Coordinator(profile=profile, partition_count=count, shards=shards)


def decoded(record: Record) -> dict[str, Any]:
    """A record as the newest release reads it: type, key, version and value; hexadecimal where it cannot be decoded."""
    shown: dict[str, Any] = {"log_offset": record.log_offset, "timestamp_ms": record.timestamp_ms}
    number = int.from_bytes((record.key or b"")[:2], signed=True)
    shown |= {"record_type": number, "name": RECORD_TYPES[number].name if number in RECORD_TYPES else None}
    try:
        shown["key"] = _plain(asdict(decode_key(record.key or b"")[1]))
    except LogError:
        shown["key"] = (record.key or b"").hex()
    if record.value is None:
        return {**shown, "version": None, "value": None}
    shown["version"] = int.from_bytes(record.value[:2], signed=True)
    try:
        shown["value"] = _plain(asdict(decode_value(1 if number == 0 else number, record.value)[1]))
    except LogError:
        shown["value"] = record.value.hex()
    return shown


def group_of(record: Record | None) -> str | None:
    """The group that a record is about; None if its key cannot be decoded."""
    try:
        return None if record is None or record.key is None else decode_key(record.key)[1].group_id
    except LogError:
        return None


def _plain(value: dict[str, Any]) -> Any:
    """The fields with the types of JSON."""
    return json.loads(json.dumps(value, default=_text))


def _text(value: bytes | UUID) -> str | None:
    return kafka_uuid(value) if isinstance(value, UUID) else base64.b64encode(value).decode("ascii")


def by_group(log: LogOf) -> Iterator[tuple[str, list[Record]]]:
    """The records, in log order, of each group with at least one record of a type above 2 (KIP-848 and later)."""
    modern = {group_of(one) for one in log.cleanable.records if int.from_bytes((one.key or b"")[:2], signed=True) > 2}
    found: dict[str, list[Record]] = {}
    for record in log.cleanable.records if modern else ():
        group_id = group_of(record)
        if group_id is not None and group_id in modern:
            found.setdefault(group_id, []).append(record)
    yield from found.items()
