"""Where the values of a restore come from: a plan's undo file, a plan's ledger, or the archive at any instant.

Each gives the same: values by offset, and what has to be known beside them. Nothing is read from the cluster here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from sexton.archive.writer import newest_metadata
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.view import TopicPartition
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import NEWEST
from sexton.errors import NoCoverage, UsageError
from sexton.execution.restore.rows import OffsetValue, Then
from sexton.execution.restore.selection import Selection
from sexton.ledger.entries import WRITTEN, Entry, Item, Result, StepOutcome, Value
from sexton.ledger.ledger import told_of
from sexton.plans.files import Plan
from sexton.runs.choose_profile import of_version
from sexton.runs.source import LogSource, open_archive
from sexton.views.coordinator_view import LazyShards, LoadedPartition
from sexton.views.log_parts import LogParts

TOMBSTONE = "tombstone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Values as they were. `name` tells where they come from, in one word and what it names, and is part of what a
    restore is: `plan <plan_id>`, `ledger <plan_id>`, `as_of <ms>`."""

    name: str
    cluster_id: str
    values: Mapping[OffsetKey, Then]
    warnings: list[str] = field(default_factory=list)


def of_plan(plan: Plan, selection: Selection, topic_ids: Mapping[str, str | None]) -> Source:
    """Every value that a plan would remove, or has removed: what it left alone is shown as the same.

    `topic_ids` are those of the plan's instant, for values that do not name their topic's.
    """
    is_asked = selection.test()
    values = {key: _then(row, row["topic"], topic_ids) for row in _rows(plan.undo) if is_asked(key := _key(row))}
    return Source(name=f"plan {plan.record.plan_id}", cluster_id=plan.record.cluster_id, values=values)


def of_ledger(entries: Sequence[Entry], selection: Selection, topic_ids: Mapping[str, str | None]) -> Source:
    """What a plan has really removed, or a restore replaced, by its ledger: for each offset what was there before.

    Of an offset that went together with a newer commit it is that commit. What was intended and has no outcome yet is
    taken as removed: it is shown as the same where it is still there. UsageError for a ledger without an attempt.
    """
    if not entries:
        raise UsageError("nothing of it was ever applied: there is no ledger", where="--from-ledger")
    is_asked = selection.test()
    values: dict[OffsetKey, Then] = {}
    empty = 0
    for item, result, action in _acted(entries):
        if item.key is None or not is_asked(item.key):
            continue
        removed = _removed(item, result)
        if removed is not None:
            values[item.key] = _then(removed.model_dump(), item.key[1], topic_ids)
        elif action == "restore":
            empty += 1
    warnings = [f"{empty} offsets were not there before: only a plan can take them away"] if empty else []
    first = entries[0]
    return Source(name=f"ledger {first.plan_id}", cluster_id=first.cluster_id, values=values, warnings=warnings)


def of_archive(uri: str, *, cluster_id: str | None, as_of_ms: int, selection: Selection, taken_at_ms: int) -> Source:
    """The offsets that a client could have fetched at an instant, replayed from the archive.

    NoCoverage where the archive cannot answer for the instant, or for a group that is named.
    """
    source = open_archive(uri, as_of_ms=as_of_ms, topics_file=None, cluster_id=cluster_id)
    profile = NEWEST if source.broker_version is None else of_version(source.broker_version).profile
    parts = LogParts(source, profile=profile, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms)
    count = source.partition_count
    ids = {row["topic"]: row["id"] for row in source.topics or []}
    values: dict[OffsetKey, Then] = {}
    warnings = list(source.warnings)
    if source.topics is None:
        warnings.append("the topics of that instant are not known: a topic that was made anew since looks the same")
    here = {*source.segments, *range(count or 0)}
    for log_partition in sorted(_homes(selection, source, here)):
        # One log partition at a time: an archive may hold more than fits into memory.
        shards = LazyShards([log_partition], parts.shard)
        coordinator = Coordinator(profile=profile, partition_count=count, shards=shards)
        found = list(_held(coordinator, log_partition, selection))
        part = parts.read.pop(log_partition)
        if not part.is_covered and selection.names_groups:
            raise NoCoverage(
                f"no record of log partition {log_partition} was written before {as_of_ms} ms",
                where=uri,
                fix="choose a later --as-of",
            )
        warnings += _doubts(log_partition, part)
        values.update((key, _stored(offset, ids.get(key[1]))) for key, offset in found)
    return Source(name=f"as_of {as_of_ms}", cluster_id=source.cluster_id, values=values, warnings=warnings)


def topic_ids_at(fs: pafs.FileSystem, root: str, cluster_id: str, at_ms: int) -> dict[str, str | None]:
    """The id of each topic at an instant, as the newest facts at or before it have them; empty without any."""
    facts = newest_metadata(fs, root, cluster_id=cluster_id, at_ms=at_ms)
    return {} if facts is None else {row["topic"]: row["id"] for row in facts.topics}


def _homes(selection: Selection, source: LogSource, here: set[int]) -> set[int]:
    """The log partitions to read: those of the groups that are named, or all."""
    if not selection.names_groups or source.partition_count is None:
        return here
    return {partition_of(group_id, source.partition_count) for group_id in selection.group_ids} & here


def _held(
    coordinator: Coordinator, log_partition: int, selection: Selection
) -> Iterator[tuple[OffsetKey, StoredOffset]]:
    """The offsets of a log partition that are asked for, as far as a client could fetch them."""
    held = coordinator.shards[log_partition].view
    has_group = selection.group_test()
    for group_id in held.offset_counts():
        if not has_group(group_id):
            continue
        stored: Mapping[TopicPartition, StoredOffset] = held.offsets(group_id)
        for answer in fetch(coordinator, group_id).offsets:
            if selection.has_topic(answer.topic, answer.partition):
                yield (group_id, answer.topic, answer.partition), stored[answer.topic, answer.partition]


def _doubts(log_partition: int, part: LoadedPartition) -> Iterator[str]:
    if part.load_failure is not None:
        yield f"log partition {log_partition}: no coordinator could have served it: {part.load_failure}"
    elif part.undecodable:
        yield f"log partition {log_partition}: {part.undecodable} undecodable records: values may be older"


def _stored(offset: StoredOffset, topic_id: str | None) -> Then:
    value = OffsetValue(
        committed_offset=offset.committed_offset, leader_epoch=offset.leader_epoch, metadata=offset.metadata
    )
    return Then(
        value=value,
        commit_timestamp_ms=offset.commit_timestamp_ms,
        expire_timestamp_ms=offset.expire_timestamp_ms,
        topic_id=offset.topic_id or topic_id,
    )


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches():
        yield from batch.to_pylist()


def _key(row: Mapping[str, Any]) -> OffsetKey:
    return row["group_id"], row["topic"], row["partition"]


def _acted(entries: Sequence[Entry]) -> Iterator[tuple[Item, Result | None, str]]:
    """Every item of a ledger with its result, and those that no intent names: what a race took along."""
    for told in told_of(entries):
        for item in told.intent.items:
            yield item, told.results.get(item.place, (None, None))[0], told.intent.action
    for entry in entries:
        if isinstance(entry.body, StepOutcome):
            results = {result.place: result for result in entry.body.items}
            for item in entry.body.beyond:
                yield item, results[item.place], TOMBSTONE


def _removed(item: Item, result: Result | None) -> Value | None:
    """What an item took away; None where it took nothing."""
    if result is None or result.outcome == "unknown":
        return item.before
    if result.outcome not in WRITTEN:
        return None
    return result.found if result.outcome == "raced" and result.found is not None else item.before


def _then(row: Mapping[str, Any], topic: str, topic_ids: Mapping[str, str | None]) -> Then:
    """Of a row of an undo file, or a value in a ledger, which knows less."""
    value = OffsetValue(
        committed_offset=row["committed_offset"], leader_epoch=row["leader_epoch"], metadata=row["metadata"]
    )
    return Then(
        value=value,
        commit_timestamp_ms=row["commit_timestamp_ms"],
        expire_timestamp_ms=row.get("expire_timestamp_ms"),
        topic_id=row.get("topic_id") or topic_ids.get(topic),
    )
