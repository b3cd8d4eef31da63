"""reconcile: fold the whole archive, from no checkpoint, and compare it with the live brokers.

Every group is compared where there are few, else some, drawn by a seed: committed offsets, type and state. A round asks
the brokers, takes a snapshot, folds the log up to where each answer stood, and compares. What moved while it was asked,
and what differs, is looked at again; drift is only what differed whenever it was looked at, twice at least. The groups
that the log knows and the brokers do not list are looked at, too. What is hidden from this principal is not compared,
and said.

Of the cluster it only reads; the archive gets snapshots, as it does from snapshot_log.
"""

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from sexton.archive.cut_search import end_of, segments_between
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.profiles import NEWEST
from sexton.kafka.rights import hidden
from sexton.kafka.session import ClusterSession
from sexton.maintenance.group_answers import Answers, Difference, ask, by_log, differences, kinds
from sexton.pipeline import snapshot_log
from sexton.pipeline.fetch_log import Connect
from sexton.pipeline.snapshot_log import Snapshot, SnapshotRequest
from sexton.runs.choose_profile import of_version
from sexton.runs.engine import Engine
from sexton.runs.source import filesystem, open_archive
from sexton.views.coordinator_view import LazyShards
from sexton.views.log_parts import LogParts

ROUNDS = 4
"""Rounds in which a group that moves on may be met standing still."""
LEAST_LOOKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """How the drill went. `groups` are known to the brokers or by the log; of these `compared` ones were compared.

    `drifted` groups differ, see `differences`; `unsettled` ones never stood still, `refused` ones this principal may
    not describe; those `unloadable` lie in log partitions that no coordinator could load.
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
    differences: list[Difference] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)


class _Tally:
    """What is known of each group after some rounds."""

    def __init__(self) -> None:
        self.looks: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        self.differing: dict[str, list[Difference]] = {}
        self.moved: set[str] = set()
        self.refused: set[str] = set()
        self.unloadable: set[str] = set()

    def compare(self, answers: Answers, coordinator: Coordinator) -> set[str]:
        """Take in a round; the groups that have to be looked at again."""
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
            self.looks[group_id] = self.looks.get(group_id, 0) + 1
            self.offsets[group_id] = len(live.offsets.keys() | folded.offsets.keys())
            self.differing[group_id] = found
            if found:
                again.add(group_id)
        return again

    @property
    def unsettled(self) -> set[str]:
        """Groups that moved whenever they were asked, or were seen to differ once and moved ever after."""
        once = {group_id for group_id, found in self.differing.items() if found and self.looks[group_id] < LEAST_LOOKS}
        return (self.moved - self.looks.keys() - self.refused) | once

    @property
    def drift(self) -> list[Difference]:
        return [
            one
            for group_id, found in sorted(self.differing.items())
            if self.looks[group_id] >= LEAST_LOOKS
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
    """Drill the archive of `request` against its cluster; of the groups that are listed at most so many, and of others.

    NoCoverage where the log holds nothing at all.
    """
    tally, alerts, draw = _Tally(), dict[str, None](), random.Random(seed)
    with connect(request.config) as session:
        alerts |= dict.fromkeys(hidden(session))
        listed, failed = kinds(session)
        known = set(listed)
        alerts |= _failures(failed)
        waiting = _some(known, most_groups, draw)
        for number in range(ROUNDS):
            answers = ask(session, request.topic, waiting)
            alerts |= _failures(answers.failed)
            snapshot = snapshot_log.run(engine, request, now_ms=now_ms, connect=connect)
            alerts |= dict.fromkeys(snapshot.alerts)
            coordinator = _folded(request.archive, snapshot, answers.ends)
            waiting = tally.compare(answers, coordinator)
            if number == 0:
                unlisted = {group.group_id for _, group in coordinator.groups()} - known
                known |= unlisted
                waiting |= _some(unlisted, most_groups, draw)
            if not waiting:
                break
    return _drilled(tally, snapshot.cluster_id, rounds=number + 1, groups=len(known), alerts=list(alerts))


def _failures(failed: Mapping[int, str]) -> dict[str, None]:
    return {f"broker {broker} lists no groups, so that its are missing: {why}": None for broker, why in failed.items()}


def _some(group_ids: Collection[str], most: int, draw: random.Random) -> set[str]:
    """All of them where there are no more, else so many drawn."""
    return set(group_ids) if len(group_ids) <= most else set(draw.sample(sorted(group_ids), most))


def _folded(archive: str, snapshot: Snapshot, ends: Mapping[int, int]) -> Coordinator:
    """The coordinators of what is archived, of some log partitions as they were at their `ends`; each folds its log
    partition when it is asked, from the first byte on."""
    source = open_archive(archive, as_of_ms=None, topics_file=None, cluster_id=snapshot.cluster_id)
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
    version = source.broker_version
    profile = of_version(version).profile if version is not None else NEWEST
    parts = LogParts(source, profile=profile, as_of_ms=None, taken_at_ms=snapshot.taken_at_ms)
    shards = LazyShards(range(snapshot.log_partitions), parts.shard)
    return Coordinator(profile=profile, partition_count=snapshot.log_partitions, shards=shards)


def _drilled(tally: _Tally, cluster_id: str, *, rounds: int, groups: int, alerts: list[str]) -> Reconciliation:
    """The result, and what people have to know of it. No alert names a group."""
    drift = tally.drift
    drifted = {one.group_id for one in drift}
    compared = sum(count >= 1 for count in tally.looks.values())
    if drifted:
        offsets = sum(one.topic is not None for one in drift)
        alerts.append(
            f"drift: the archived log and the live brokers differ about {len(drifted)} of {compared} groups that were "
            f"compared: {offsets} committed offsets, {len(drift) - offsets} groups by type or state"
        )
    if tally.refused:
        alerts.append(
            f"the brokers refuse to answer for {len(tally.refused)} groups: allow this principal DESCRIBE on groups"
        )
    if tally.unloadable:
        alerts.append(f"{len(tally.unloadable)} groups lie in log partitions that no coordinator could load")
    return Reconciliation(
        cluster_id=cluster_id,
        rounds=rounds,
        groups=groups,
        compared=compared,
        offsets=sum(tally.offsets.values()),
        drifted=len(drifted),
        unsettled=len(tally.unsettled),
        refused=len(tally.refused),
        unloadable=len(tally.unloadable),
        differences=drift,
        alerts=alerts,
    )
