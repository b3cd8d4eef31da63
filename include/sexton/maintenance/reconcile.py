"""reconcile: fold the entire archive, without a checkpoint, and compare the result with the live brokers.

It compares committed offsets, types and states of all groups, or of a sample in a large cluster. Each round asks the
brokers, takes a snapshot, folds the log up to the position of each answer, and compares. Groups that changed meanwhile
or that differ are compared again. Drift is a difference in every comparison of a group, at least two. Groups that are
in the log, but not listed by the brokers, are compared, too. Groups and topics that are hidden from the principal are
reported, not compared.

It only reads from the cluster. The snapshots are archived as by snapshot_log.
"""

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from sexton.archive.cut_search import end_of, segments_between
from sexton.archive.folder import filesystem
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.profiles import of_broker
from sexton.job_params import SnapshotRequest
from sexton.kafka.rights import hidden
from sexton.kafka.session import ClusterSession, Connect
from sexton.maintenance.group_answers import AnswerDifference, LiveAnswers, ask, by_log, differences, kinds
from sexton.pipeline import snapshot_log
from sexton.pipeline.snapshot_log import TakenSnapshot
from sexton.runs.engine import Engine
from sexton.runs.source import open_archive
from sexton.views.coordinator_view import LazyShards
from sexton.views.log_parts import LogParts

ROUNDS = 4
"""Maximum number of rounds."""
MIN_COMPARISONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The result, in numbers of groups: `groups` are in the brokers' answers or in the log, `compared` were compared.

    `drifted` groups differ (see `differences`). `unsettled` groups changed in every round. `refused` groups may not be
    described by the principal. `unloadable` groups are in log partitions that no coordinator could load.
    """

    cluster_id: str
    rounds: int
    groups: int
    compared: int
    offsets: int
    drifted: int
    unsettled: int
    refused: int
    unloadable: int
    differences: list[AnswerDifference] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)


class _Comparison:
    """The results of the rounds so far, by group."""

    def __init__(self) -> None:
        self.comparisons: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        self.differing: dict[str, list[AnswerDifference]] = {}
        self.moved: set[str] = set()
        self.refused: set[str] = set()
        self.unloadable: set[str] = set()

    def compare(self, answers: LiveAnswers, coordinator: Coordinator) -> set[str]:
        """Add a round; return the groups that have to be compared again."""
        again = set(answers.moved)
        self.moved |= answers.moved
        self.refused |= answers.refused
        for group_id, live in answers.settled.items():
            folded = by_log(coordinator, group_id)
            if folded is None:
                self.unloadable.add(group_id)
                continue
            end = answers.ends[coordinator.log_partition_of(group_id) or 0]
            seen = answers.seen_topics
            found = list(differences(coordinator, group_id, live=live, folded=folded, log_offset=end, seen_topics=seen))
            self.comparisons[group_id] = self.comparisons.get(group_id, 0) + 1
            self.offsets[group_id] = len(live.offsets.keys() | folded.offsets.keys())
            self.differing[group_id] = found
            if found:
                again.add(group_id)
        return again

    @property
    def unsettled(self) -> set[str]:
        """Groups that changed in every round, or that differed once and changed in every later round."""
        once = {
            group_id
            for group_id, found in self.differing.items()
            if found and self.comparisons[group_id] < MIN_COMPARISONS
        }
        return (self.moved - self.comparisons.keys() - self.refused) | once

    @property
    def drift(self) -> list[AnswerDifference]:
        return [
            one
            for group_id, found in sorted(self.differing.items())
            if self.comparisons[group_id] >= MIN_COMPARISONS
            for one in found
        ]


def run(
    engine: Engine,
    request: SnapshotRequest,
    *,
    seed: int,
    most_groups: int,
    now_ms: Callable[[], int],
    connect: Connect = ClusterSession,
) -> Reconciliation:
    """Compare the archive of `request` with its cluster: at most `most_groups` groups that the brokers list, and at
    most as many groups that only the log has.

    `seed` chooses the sample. NoCoverage if the log is empty.
    """
    comparison, alerts, draw = _Comparison(), dict[str, None](), random.Random(seed)
    with connect(request.config) as session:
        alerts |= dict.fromkeys(hidden(session))
        listed, failed = kinds(session)
        known = set(listed)
        alerts |= _failures(failed)
        pending = _some(known, most_groups, draw)
        for number in range(ROUNDS):
            answers = ask(session, request.topic, pending)
            alerts |= _failures(answers.failed)
            snapshot = snapshot_log.run(engine, request, now_ms=now_ms, connect=connect)
            alerts |= dict.fromkeys(snapshot.alerts)
            coordinator = _folded(request.archive, snapshot, answers.ends)
            pending = comparison.compare(answers, coordinator)
            if number == 0:
                unlisted = {group.group_id for _, group in coordinator.groups()} - known
                known |= unlisted
                pending |= _some(unlisted, most_groups, draw)
            if not pending:
                break
    return _result(comparison, snapshot.cluster_id, rounds=number + 1, groups=len(known), alerts=list(alerts))


def _failures(failed: Mapping[int, str]) -> dict[str, None]:
    return {
        f"broker {broker} lists no groups, so its groups are missing: {why}": None for broker, why in failed.items()
    }


def _some(group_ids: Collection[str], most: int, draw: random.Random) -> set[str]:
    """Return all groups, or a sample of `most`."""
    return set(group_ids) if len(group_ids) <= most else set(draw.sample(sorted(group_ids), most))


def _folded(archive: str, snapshot: TakenSnapshot, ends: Mapping[int, int]) -> Coordinator:
    """Return the coordinators of the archived log, cut at `ends`. Each folds its log partition on demand, from the
    first byte on."""
    source = open_archive(archive, cluster_id=snapshot.cluster_id)
    fs, _ = filesystem(archive)
    positions = {
        part: end_of(fs, history, ends[part]) if part in ends else source.positions[part]
        for part, history in source.lineages.items()
    }
    source = replace(
        source,
        positions=positions,
        segments={part: segments_between(source.lineages[part], place) for part, place in positions.items()},
    )
    profile = of_broker(source.broker_version)
    parts = LogParts(source, profile=profile, as_of_ms=None, taken_at_ms=snapshot.taken_at_ms)
    shards = LazyShards(range(snapshot.log_partitions), parts.shard)
    return Coordinator(profile=profile, partition_count=snapshot.log_partitions, shards=shards)


def _result(comparison: _Comparison, cluster_id: str, *, rounds: int, groups: int, alerts: list[str]) -> Reconciliation:
    """Return the result with its alerts, which name no group."""
    drift = comparison.drift
    drifted = {one.group_id for one in drift}
    compared = sum(count >= 1 for count in comparison.comparisons.values())
    if drifted:
        offsets = sum(one.topic is not None for one in drift)
        alerts.append(
            f"drift: the archived log and the live brokers differ about {len(drifted)} of {compared} groups that were "
            f"compared: {offsets} committed offsets, {len(drift) - offsets} groups by type or state"
        )
    if comparison.refused:
        alerts.append(
            f"the brokers refuse to describe {len(comparison.refused)} groups: allow this principal DESCRIBE on groups"
        )
    if comparison.unloadable:
        alerts.append(f"{len(comparison.unloadable)} groups lie in log partitions that no coordinator could load")
    return Reconciliation(
        cluster_id=cluster_id,
        rounds=rounds,
        groups=groups,
        compared=compared,
        offsets=sum(comparison.offsets.values()),
        drifted=len(drifted),
        unsettled=len(comparison.unsettled),
        refused=len(comparison.refused),
        unloadable=len(comparison.unloadable),
        differences=drift,
        alerts=alerts,
    )
