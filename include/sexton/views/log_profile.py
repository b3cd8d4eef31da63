"""The profile of a log: the one that the archive or the log proves, from the heads of its segments.

The whole log is not read for this. A batch of the newest record format excludes the profiles of old formats, and one
record of a new type proves a profile, so the heads of the first and last segment of each log partition almost always
suffice. A log with only old formats is folded completely.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sexton.log.batch import Batch, Record, read_records
from sexton.records import OFFSET_TYPES
from sexton.records.classic import GROUP_METADATA
from sexton.runs.choose_profile import (
    AUTO,
    Choice,
    ProfileEvidence,
    bounds_of,
    choose,
    is_of_old_formats,
    of_evidence,
    of_version,
)
from sexton.runs.source import LogSource

if TYPE_CHECKING:
    from sexton.views.log_parts import LogParts

_VERSION_4 = b"\0\4"


def choice_of(source: LogSource, asked: str | None, parts: "LogParts") -> Choice:
    """The requested profile, with evidence against it; for AUTO and None, the proven profile.

    A recorded broker version decides without reading the log, except for 3.8 and 3.9, which have two coordinators.
    """
    if asked not in (None, AUTO):
        choice = choose(asked)
        heads = [] if source.broker_version is not None else [*_heads(source, parts)]
        return choice.held_against(heads, source.broker_version)
    if source.broker_version is not None:
        return of_version(source.broker_version, lambda: _heads(source, parts))
    seen: list[ProfileEvidence] = []
    for head in _heads(source, parts):
        seen.append(head)
        if head.new_types or head.version_4:
            break
    is_open = is_of_old_formats(seen) or not any(head.batches for head in seen)
    if source.segments and (is_open or bounds_of(seen, source.release_bounds) != source.release_bounds):
        whole = [ProfileEvidence.of(parts.fold(log_partition)) for log_partition in source.segments]
        return of_evidence(whole, source.release_bounds)
    return of_evidence(seen, source.release_bounds)


def _heads(source: LogSource, parts: "LogParts") -> Iterator[ProfileEvidence]:
    for log_partition in source.segments:
        yield evidence_of(parts.batches_at_heads(log_partition), cap_bytes=parts.cap_bytes)


def evidence_of(batches: Iterable[Batch], *, cap_bytes: int) -> ProfileEvidence:
    """The evidence in a list of batches."""
    counts: Counter[str] = Counter()
    types: set[int] = set()
    group_versions: set[int] = set()
    newest_ms = -1
    for batch in batches:
        counts["batches"] += 1
        counts[f"format_{batch.magic}"] += 1
        newest_ms = max(newest_ms, batch.max_timestamp_ms)
        if batch.is_control:
            continue
        for record in read_records(batch, cap_bytes=cap_bytes):
            if isinstance(record, Record) and record.key is not None and len(record.key) >= 2:
                number = int.from_bytes(record.key[:2], signed=True)
                if number not in OFFSET_TYPES:
                    types.add(number)
                    if number == GROUP_METADATA.number and record.value is not None and len(record.value) >= 2:
                        group_versions.add(int.from_bytes(record.value[:2]))
                    continue
                counts["offsets"] += 1
                counts["legacy"] += number == 0
                counts["version_4"] += record.value is not None and record.value[:2] == _VERSION_4
    return ProfileEvidence(
        batches=counts["batches"],
        format_0=counts["format_0"],
        format_1=counts["format_1"],
        record_types=frozenset(types),
        version_4=counts["version_4"] > 0,
        legacy_records=counts["legacy"],
        offset_records=counts["offsets"],
        newest_ms=newest_ms,
        group_versions=frozenset(group_versions),
    )
