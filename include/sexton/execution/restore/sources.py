"""Where the values of a restore come from: a plan's undo file, a plan's ledger, or the archive at any instant.

All three give values by offset. Nothing is read from the cluster here.
"""

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotSeries
from sexton.archive.cluster_metadata import newest_metadata, the_cluster
from sexton.archive.folder import filesystem
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import of_broker
from sexton.errors import NoCoverage, UsageError
from sexton.execution.restore.restore_plan import OffsetValue, Then
from sexton.execution.restore.selection import Selection
from sexton.ledger.entries import WRITTEN, Claim, Entry, Item, Result, StepOutcome, Value
from sexton.ledger.ledger import Ledger
from sexton.ledger.recorded_steps import action_of, recorded_steps
from sexton.plans.basis import BY_LOG, Basis, basis_of
from sexton.plans.plan import Plan
from sexton.plans.read_plan import read_plan
from sexton.runs.admin_tables import admin_snapshot_for, series_of
from sexton.runs.source import LogSource, open_archive
from sexton.views.coordinator_view import LazyShards, LoadedPartition
from sexton.views.log_parts import LogParts


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Earlier values.

    `name` is part of a restore's identity: `plan <plan_id>`, `ledger <plan_id>`, `as_of <ms>`. `basis` is the kind of
    evidence behind the values. For offsets to be kept alive, `due_ms` is when the broker expires each; `swept` are
    offsets that the broker has already expired, which are put back.
    """

    name: str
    cluster_id: str
    values: Mapping[OffsetKey, Then]
    warnings: list[str] = field(default_factory=list)
    basis: Basis = BY_LOG
    due_ms: Mapping[OffsetKey, int] = field(default_factory=dict)
    swept: Collection[OffsetKey] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """A request for a restore: exactly one of `from_plan` (a plan_id), `from_ledger` (a plan_id or a restore_id) and
    `as_of_ms`.

    With `as_of_ms` the selection must not be empty.
    """

    archive: str
    cluster_id: str | None = None
    from_plan: str | None = None
    from_ledger: str | None = None
    as_of_ms: int | None = None
    selection: Selection = field(default_factory=Selection)


def source_of(request: RestoreRequest, *, taken_at_ms: int) -> Source:
    """The requested values. UsageError for options that contradict each other, and for an unknown id."""
    given = [one for one in (request.from_plan, request.from_ledger, request.as_of_ms) if one is not None]
    if len(given) != 1:
        raise UsageError(
            "give one of --from-plan PLAN_ID, --from-ledger PLAN_ID and --as-of INSTANT", fix="see `restore --help`"
        )
    if request.as_of_ms is not None:
        if request.selection == Selection():
            raise UsageError(
                "select what to put back",
                where="--as-of",
                fix="--group, --pattern or --topic; --pattern '.*' is everything",
            )
        return of_archive(
            request.archive,
            cluster_id=request.cluster_id,
            as_of_ms=request.as_of_ms,
            selection=request.selection,
            taken_at_ms=taken_at_ms,
        )
    fs, root = filesystem(request.archive)
    if request.from_plan is not None:
        plan = read_plan(fs, root, request.cluster_id, request.from_plan)
        ids = _topic_ids_at(fs, root, plan.record.cluster_id, plan.record.as_of_ms, plan.record.basis)
        return of_plan(plan, request.selection, ids)
    assert request.from_ledger is not None
    cluster = the_cluster(fs, root, request.cluster_id)
    if cluster is None:
        raise NoCoverage("the archive is empty", where=request.archive)
    entries = Ledger(fs, root, cluster, request.from_ledger).entries()
    ids = _topic_ids_at(fs, root, cluster, entries[0].at_ms, _basis(entries)) if entries else {}
    return of_ledger(entries, request.selection, ids)


def of_plan(plan: Plan, selection: Selection, topic_ids: Mapping[str, str | None]) -> Source:
    """Every value that a plan would remove, or has removed. In the diff, offsets that still have their value are
    `same`.

    `topic_ids` are the topics' ids at the plan's instant, for values without a topic id.
    """
    rows = (row for batch in plan.undo.to_batches() for row in batch.to_pylist())
    return Source(
        name=f"plan {plan.record.plan_id}",
        cluster_id=plan.record.cluster_id,
        values=_selected(rows, selection, topic_ids),
        basis=plan.record.basis,
    )


def of_ledger(entries: Sequence[Entry], selection: Selection, topic_ids: Mapping[str, str | None]) -> Source:
    """The previous values of the offsets that a plan has removed, or a restore has replaced, according to its ledger.

    If a race removed a newer commit, the value is that commit. An intended removal without an outcome counts as done;
    if the offset still has its value, it is `same` in the diff. UsageError for a ledger without an attempt.
    """
    if not entries:
        raise UsageError("it was never applied: there is no ledger", where="--from-ledger")
    is_asked = selection.test()
    values: dict[OffsetKey, Then] = {}
    empty = 0
    for item, result, action in _ledger_items(entries):
        if item.key is None or not is_asked(item.key):
            continue
        removed = _removed(item, result)
        if removed is not None:
            values[item.key] = _then(removed.model_dump(), item.key[1], topic_ids)
        elif action == "restore":
            empty += 1
    warnings = [f"{empty} offsets were not there before: only a plan can remove them"] if empty else []
    first = entries[0]
    return Source(
        name=f"ledger {first.plan_id}",
        cluster_id=first.cluster_id,
        values=values,
        warnings=warnings,
        basis=_basis(entries),
    )


def of_archive(uri: str, *, cluster_id: str | None, as_of_ms: int, selection: Selection, taken_at_ms: int) -> Source:
    """The offsets that a client could have fetched at an instant, replayed from the archive; where the log is hidden,
    those in the admin snapshot that covers the instant.

    NoCoverage where the archive cannot answer for the instant, or for a named group.
    """
    if seen := admin_snapshot_for(uri, cluster_id=cluster_id, as_of_ms=as_of_ms):
        return of_snapshot(*seen, as_of_ms=as_of_ms, selection=selection)
    source = open_archive(uri, as_of_ms=as_of_ms, cluster_id=cluster_id)
    profile = of_broker(source.broker_version)
    parts = LogParts(source, profile=profile, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms)
    count = source.partition_count
    ids = {row["topic"]: row["id"] for row in source.topics or []}
    values: dict[OffsetKey, Then] = {}
    warnings = list(source.warnings)
    if source.topics is None:
        warnings.append(
            "the topics of that instant are unknown: a topic that was recreated since cannot be distinguished from it"
        )
    for log_partition in sorted(_log_partitions(selection, source)):
        # One log partition at a time: the whole state may not fit into memory.
        shards = LazyShards([log_partition], parts.shard)
        coordinator = Coordinator(profile=profile, partition_count=count, shards=shards)
        found = list(_fetchable(coordinator, log_partition, selection))
        part = parts.read.pop(log_partition)
        if not part.is_covered and selection.names_groups:
            raise NoCoverage(
                f"no record of log partition {log_partition} was written before {as_of_ms} ms",
                where=uri,
                fix="choose a later --as-of",
            )
        warnings += _part_warnings(log_partition, part)
        values.update((key, _then(asdict(offset), key[1], ids)) for key, offset in found)
    return Source(name=f"as_of {as_of_ms}", cluster_id=source.cluster_id, values=values, warnings=warnings)


def of_snapshot(series: SnapshotSeries, snapshot: AdminSnapshot, *, as_of_ms: int, selection: Selection) -> Source:
    """The selected offsets in an admin snapshot."""
    rows = series.table(snapshot, "offsets").to_pylist()
    return Source(
        name=f"as_of {as_of_ms}",
        cluster_id=snapshot.cluster_id,
        values=_selected(rows, selection, snapshot.metadata.topic_ids),
        warnings=[
            f"coverage {series.coverage}: by the admin snapshot of {snapshot.taken_at_ms} ms",
            *snapshot.warnings,
        ],
        basis=basis_of({"coverage": series.coverage}),
    )


def _basis(entries: Sequence[Entry]) -> Basis:
    """The basis of the attempts of a ledger."""
    return basis_of(ChainMap(*(each.body.about for each in entries if isinstance(each.body, Claim))))


def _topic_ids_at(fs: pafs.FileSystem, root: str, cluster_id: str, at_ms: int, basis: Basis) -> dict[str, str | None]:
    """The id of each topic at an instant: from the newest cluster metadata at or before it; without a log, from the
    admin snapshot that covers it, else from the last one before it. Empty if there is none."""
    if not basis.needs_log:
        series = series_of(fs, root, cluster_id, basis.about["coverage"])
        earlier = [at for at in series.instants if at < at_ms][-1:]
        snapshot = series.at(at_ms) or next(map(series.manifest, earlier), None)
        return {} if snapshot is None else snapshot.metadata.topic_ids
    metadata = newest_metadata(fs, root, cluster_id=cluster_id, at_ms=at_ms)
    return {} if metadata is None else metadata.topic_ids


def _log_partitions(selection: Selection, source: LogSource) -> set[int]:
    """The log partitions to read: those of the named groups, or all."""
    count = source.partition_count
    present = {*source.segments, *range(count or 0)}
    if not selection.names_groups or count is None:
        return present
    return {partition_of(group_id, count) for group_id in selection.group_ids} & present


def _fetchable(
    coordinator: Coordinator, log_partition: int, selection: Selection
) -> Iterator[tuple[OffsetKey, StoredOffset]]:
    """The selected offsets of a log partition that a client could fetch."""
    held = coordinator.shards[log_partition].view
    has_group = selection.group_test()
    for group_id in held.offset_counts():
        if not has_group(group_id):
            continue
        stored = held.offsets(group_id)
        for answer in fetch(coordinator, group_id).offsets:
            if selection.has_topic(answer.topic, answer.partition):
                yield (group_id, answer.topic, answer.partition), stored[answer.topic, answer.partition]


def _part_warnings(log_partition: int, part: LoadedPartition) -> Iterator[str]:
    if part.load_failure is not None:
        yield f"log partition {log_partition}: no coordinator could have served it: {part.load_failure}"
    elif part.undecodable:
        yield f"log partition {log_partition}: {part.undecodable} undecodable records: values may be older"


def _ledger_items(entries: Sequence[Entry]) -> Iterator[tuple[Item, Result | None, str]]:
    """Every item of a ledger with its result and action, including items that no intent names."""
    for step in recorded_steps(entries):
        for item in step.intent.items:
            yield item, step.results.get(item.item_id, (None, None))[0], step.intent.action
    for entry in entries:
        if isinstance(entry.body, StepOutcome):
            results = {result.item_id: result for result in entry.body.items}
            for item in entry.body.beyond:
                yield item, results[item.item_id], action_of(entries)


def _removed(item: Item, result: Result | None) -> Value | None:
    """The value that an item removed; None where it removed nothing."""
    if result is None or result.outcome == "unknown":
        return item.before
    if result.outcome not in WRITTEN:
        return None
    return result.found if result.outcome == "raced" and result.found is not None else item.before


def _selected(
    rows: Iterable[Mapping[str, Any]], selection: Selection, topic_ids: Mapping[str, str | None]
) -> dict[OffsetKey, Then]:
    """The selected offsets among the rows of a table."""
    is_asked = selection.test()
    keyed = (((row["group_id"], row["topic"], row["partition"]), row) for row in rows)
    return {key: _then(row, key[1], topic_ids) for key, row in keyed if is_asked(key)}


def _then(row: Mapping[str, Any], topic: str, topic_ids: Mapping[str, str | None]) -> Then:
    """A value from a row of an undo file, the archive, a ledger or an admin snapshot. Rows of a ledger have no expiry
    and no topic id; rows of an admin snapshot have no timestamp either."""
    return Then(
        value=OffsetValue(row["committed_offset"], row["leader_epoch"], row["metadata"]),
        commit_timestamp_ms=row.get("commit_timestamp_ms"),
        expire_timestamp_ms=row.get("expire_timestamp_ms"),
        topic_id=row.get("topic_id") or topic_ids.get(topic),
    )
