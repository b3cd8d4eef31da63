"""replay_groups: segments -> partial folds -> one fold per log partition -> the tables of group state.

Tasks fold ranges of the log. The partial folds are shuffled to their shards and merged there in log order (`fold_log`;
the result is the checkpoint). Each fold then becomes rows. A shard is a log partition, or a bucket of one with very
many keys. Records never leave the task that read them; only folds do. A run on an archive continues from the newest
suitable checkpoint, if there is one, with the same result as a full replay.

For a cluster that hides its log, the tables come from admin snapshots (pipeline.merge_snapshots).
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from sexton.as_text import MINUTE_MS
from sexton.coordinator.endless_load import Endless
from sexton.coordinator.expiry import SweepBlock, first_block
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.failpoints import failpoint
from sexton.history.interval import open_interval, write_changes
from sexton.job_params import ReplayRequest
from sexton.kernels import results
from sexton.kernels.fold import PartialFold
from sexton.pipeline import merge_snapshots
from sexton.pipeline.misplaced import (
    held_elsewhere,
    homes_of,
    in_several,
    in_several_text,
    lost_groups,
    lost_text,
    sources_of,
)
from sexton.pipeline.run_record import (
    FinishedPartition,
    blocked,
    describe,
    findings_of,
    homeless,
    oversized,
    require_coverage,
    topic_partitions,
)
from sexton.runs.admin_tables import admin_snapshot_for
from sexton.runs.checkpoint import Base, Nearest, without_damaged
from sexton.runs.choose_profile import AUTO, choose, of_evidence, of_version
from sexton.runs.endless_load import endless_load
from sexton.runs.engine import Engine
from sexton.runs.fold_log import UNPACKED, Merged, fold_log, glimpse
from sexton.runs.folder import RunFolder, RunRecord, Shard, files_sha256
from sexton.runs.judging import block_at
from sexton.runs.source import LogSource, open_source
from sexton.verdicts.expiry import held_offsets

STATE_TABLES = (
    "committed_offsets",
    "unreachable_offsets",
    "pending_offsets",
    "groups",
    "members",
    "open_transactions",
    "undecodable_records",
    "load_profile",
)


def run(
    engine: Engine, folder: RunFolder, request: ReplayRequest, *, keeps_fold: bool = True, known: Base | None = None
) -> RunRecord:
    """Fill the state tables of `folder`; NoCoverage if the log cannot answer for the requested instant.

    `keeps_fold`: store the fold, so that later runs can continue from it. `known` is the fold of an earlier instant,
    from which this run continues if possible.
    """
    if request.archive is not None:
        found = admin_snapshot_for(request.archive, cluster_id=request.cluster_id, as_of_ms=request.as_of_ms)
        if found is not None:
            return merge_snapshots.run(engine, folder, request, *found)
    source = open_source(request).with_buffer(request.load_buffer_bytes).with_codec(request.codec)
    choice, is_open = choose(request.profile, source.broker_version), False
    undamaged = partial(without_damaged, known=known, is_full=request.is_full)

    def fold(profile: Profile) -> tuple[list[Merged], Base | None, list[str]]:
        """(folds, the checkpoint that they continue from or None, warnings about skipped checkpoints)."""

        def onto(nearest: Nearest) -> tuple[list[Merged], Base | None, list[str]]:
            base, skipped = nearest(source, profile)
            taken_at_ms = request.taken_at_ms
            merged = fold_log(engine, folder, source, profile, taken_at_ms=taken_at_ms, base=base, keeps=keeps_fold)
            return merged, base, skipped

        return undamaged(onto)

    folder.reset()
    failpoint("replay.settled")
    if request.profile == AUTO and source.broker_version is not None:
        choice = of_version(source.broker_version, lambda: glimpse(source))
    elif request.profile == AUTO:
        newest, is_open = choice, True
        choice = of_evidence(glimpse(source), source.release_bounds)  # a guess, nearly always right
    merged, base, passed_over = fold(choice.profile)
    evidence = [part.evidence for part in merged]
    if is_open:
        if choice.profile != newest.profile and any(part.has_refused for part in evidence):
            choice = newest  # it may read what an older profile refuses
            merged, base, passed_over = fold(choice.profile)
            evidence = [part.evidence for part in merged]
        proven = of_evidence(evidence, source.release_bounds)
        if proven.profile != choice.profile:
            merged, base, passed_over = fold(proven.profile)
        choice = proven
    else:
        choice = choice.held_against(evidence, source.broker_version)
    require_coverage(source, request, merged)
    record = describe(source, request, choice, merged)
    files = {name: sha for part in merged for name, sha in part.files.items()}
    record = record.model_copy(
        update={
            "checkpoint_sha256": files_sha256(files) if keeps_fold else None,
            "base_as_of_ms": base.as_of_ms if base else None,
            "warnings": [*record.warnings, *passed_over],
        }
    )
    folder.write_run(record)
    failpoint("replay.folded")
    fold_bytes = UNPACKED * folder.size_bytes("fold")
    kept = {shard: one for part in merged for shard, one in part.folds.items() if engine.works_here(fold_bytes)}
    merged = [replace(part, folds={}) for part in merged]

    nothing = PartialFold.empty(profile=choice.profile, is_prefix=True)

    def fold_of(shard: Shard) -> PartialFold:
        if shard.log_partition not in endless:  # the input does not have this log partition: empty
            return nothing
        return kept[shard].read() if shard in kept else PartialFold.read_parquet(folder.fold(shard))

    endless = {
        part.log_partition: endless_load(
            source, part.log_partition, choice.profile, largest_batch_bytes=part.largest_batch_bytes, cut=part.cut
        )
        for part in merged
    }
    mean_bytes = sum(part.bytes for part in merged) / max(len(merged), 1)

    def write(shard: Shard, several: Collection[str] = ()) -> _Written:
        """Write the rows of one shard's groups. `several` has the group ids that `in_several` found."""
        written, tables = _state(record, shard, fold_of, several)
        return replace(written, counts=folder.write_tables(record, tables, shard))

    def join(shards: Sequence[_Written]) -> FinishedPartition:
        """Write the tables of a log partition that have no rows per group."""
        log_partition = shards[0].shard.log_partition
        of_mean = mean_bytes if log_partition in endless else 0
        part, tables = _join(record, shards, of_mean, endless.get(log_partition))
        part.counts.update(folder.write_tables(record, tables, log_partition))
        return part

    written = engine.map("Writing tables", record.shards, write, work_bytes=fold_bytes)
    several = in_several(record, folder.read_table)
    if several:
        written = [write(one.shard, several) if _has_any(folder, one.shard, several) else one for one in written]
    finished = [join(list(buckets)) for _, buckets in groupby(written, lambda one: one.shard.log_partition)]
    sources = sources_of((part.log_partition, part.homes) for part in finished)
    empty = set(source.empty)
    if source.is_archive:  # it leaves out empty log partitions, which may still get tombstones
        empty |= set(sources) - set(record.log_partitions)
    record = _with_empty(record, empty)
    finished += [join([write(Shard(part))]) for part in sorted(empty)]
    lost = lost_groups(record, folder.read_table) if any(part.misplaced_groups for part in finished) else None
    counts = folder.write_tables(record, {"topic_partitions": topic_partitions(source.topics or [])})
    for part in finished:
        counts.update(part.counts)
    changes, passed_over = undamaged(partial(_changes, engine, folder, record, source, request))
    if changes is not None:
        counts.update(changes)
    record = record.model_copy(
        update={
            "counts": dict(counts),
            "engine": engine.name,
            "changes_since_ms": None if changes is None else request.since_ms,
            "misplaced_sources": sources,
            "lost": lost,
            "unloadable": [part.log_partition for part in finished if part.load_failure],
            "blocked": {part.log_partition: reason for part in finished if (reason := blocked(part))},
            "warnings": [
                *record.warnings,
                *findings_of(finished, choice.profile),
                *in_several_text(several),
                *([] if lost is None else [lost_text(lost, record.partition_count)]),
                *homeless(finished, record.log_partitions),
                *oversized(merged, source, choice.profile),
                *passed_over,
            ],
        }
    )
    folder.write_run(record)
    failpoint("replay.done")
    return record


def _changes(
    engine: Engine, folder: RunFolder, record: RunRecord, source: LogSource, request: ReplayRequest, nearest: Nearest
) -> tuple[Counter[str] | None, list[str]]:
    """Write the tables of the requested interval: (rows by table, warnings); rows are None without an interval."""
    interval, passed_over = open_interval(engine, folder, source, request, profile_of(record.profile), nearest)
    if interval is None:
        return None, passed_over
    asked_ms = None if request.retention_minutes is None else request.retention_minutes * MINUTE_MS
    return write_changes(engine, folder, record, source, interval, asked_ms=asked_ms), passed_over


def _with_empty(record: RunRecord, log_partitions: Collection[int]) -> RunRecord:
    """The record with additional, empty log partitions."""
    return record.model_copy(
        update={
            "log_partitions": sorted({*record.log_partitions, *log_partitions}),
            "cuts": {**record.cuts, **dict.fromkeys(log_partitions, 0)},
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The result of writing the tables of one shard. `bucket` is without its tables, which are already written."""

    shard: Shard
    counts: Counter[str] = field(default_factory=Counter)
    bucket: results.FinishedFold
    block: SweepBlock | None
    undescribable: list[str]
    homes: list[int]


def _has_any(folder: RunFolder, shard: Shard, group_ids: Collection[str]) -> bool:
    here = folder.read_table("groups", shard, ["group_id"])["group_id"].to_pylist()
    return not set(here).isdisjoint(group_ids)


def _state(
    record: RunRecord, shard: Shard, fold_of: Callable[[Shard], PartialFold], several: Collection[str]
) -> tuple[_Written, dict[str, pa.Table]]:
    """The tables of the groups of one shard."""
    fold = fold_of(shard)
    log_partition, count = shard.log_partition, record.partition_count
    homes = homes_of(fold, log_partition, count)
    bucket = results.finish_bucket(
        fold,
        log_partition=log_partition,
        partition_count=count,
        held_elsewhere=several or held_elsewhere(record, log_partition, homes, fold_of),
        is_first=shard.is_first,
    )
    state = bucket.tables
    served = set(state["groups"]["group_id"].to_pylist()) if homes else set()
    held = held_offsets(state["committed_offsets"], state["unreachable_offsets"])
    written = _Written(
        shard=shard,
        bucket=replace(bucket, tables={}),
        block=block_at(record, held, state["groups"], state["pending_offsets"], fold.profile),
        undescribable=_undescribable(state["groups"], state["members"], fold.profile),
        homes=sorted({home for group_id, home in homes.items() if group_id in served}),
    )
    return written, {name: rows for name, rows in state.items() if name in (*STATE_TABLES, "group_tombstones")}


def _join(
    record: RunRecord, shards: Sequence[_Written], mean_bytes: float, endless: Endless | None
) -> tuple[FinishedPartition, dict[str, pa.Table]]:
    """The tables of a log partition that have no rows per group."""
    log_partition = shards[0].shard.log_partition
    tables = results.join([each.bucket for each in shards], log_partition=log_partition, endless=endless)
    block = first_block(each.block for each in shards if each.block is not None)
    (profile,) = tables["load_profile"].to_pylist()
    skew = profile["bytes"] / mean_bytes if mean_bytes else None
    tables["load_profile"] = (
        tables["load_profile"]
        .append_column("skew", pa.array([skew], pa.float64()))
        .append_column("sweep_blocked_by", pa.array([block and block.group_id], pa.string()))
        .append_column("sweep_blocked_from_ms", pa.array([block and block.from_ms], pa.int64()))
        .append_column("coordinator", pa.array([record.leaders.get(log_partition)], pa.int32()))
    )
    counts = Counter[str]()
    for each in shards:
        counts.update(each.counts)
    finished = FinishedPartition(
        log_partition=log_partition,
        counts=counts,
        undecodable=profile["undecodable_records"],
        load_failure=profile["load_failure"],
        load_outcome=profile["load_outcome"],
        unknown_types=profile["unknown_types"],
        misplaced_groups=profile["misplaced_groups"] or 0,
        undescribable=[name for each in shards for name in each.undescribable],
        unexpected_unloads=tables["unexpected_unloads"]["group_id"].to_pylist(),
        homes=sorted({home for each in shards for home in each.homes}),
        sweep_fails=block is not None and block.is_on(record.as_of_ms),
    )
    return finished, {name: rows for name, rows in tables.items() if name in STATE_TABLES}


def _undescribable(groups: pa.Table, members: pa.Table, profile: Profile) -> list[str]:
    """Groups that no coordinator can describe (`coordinator.api.listing.cannot_be_described`)."""
    is_stable = pc.and_(pc.equal(groups["group_type"], "Classic"), pc.equal(groups["state"], "Stable"))
    blank = members.filter(pc.or_(pc.is_null(members["member_epoch"]), pc.is_null(members["client_id"])))["group_id"]
    is_bare = pc.is_in(groups["group_id"], value_set=blank.combine_chunks())
    if profile.validated_topology_epoch is not None:
        is_bare = pc.or_(is_bare, pc.invert(groups["subscription_known"]))
    fails = pc.or_(
        pc.and_(is_stable, pc.is_null(groups["protocol"])), pc.and_(pc.equal(groups["group_type"], "Streams"), is_bare)
    )
    found: list[str] = groups.filter(fails)["group_id"].to_pylist()
    return found
