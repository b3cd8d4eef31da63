"""Compares replicas of `__consumer_offsets`: each log partition, which is the unit of work, then joins the results.

It compares the records up to the high watermark, and what a coordinator would answer from each replica. Differences
are differences of these answers; the records are evidence.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.replicas.advice import NOTICED_BY, advice_for
from sexton.replicas.evidence import GroupKey, collect, key_of
from sexton.replicas.folders import ReplicaFolder, ReplicaLog, leader_of, log_partitions
from sexton.replicas.judging import ReplicaDifference, ReplicaJudge
from sexton.replicas.records import CorruptBytes, RecordComparison, RecordOf, compare_records
from sexton.replicas.sides import ReplicaSide, Sides, differing, everything
from sexton.replicas.states import ReplicaState, caught_up, state_of
from sexton.tables import REPLICA_DIFFERENCES, REPLICA_STATE

CAP_BYTES = 64 << 20
Work = tuple[list[ReplicaLog], ReplicaLog | None]
"""The replicas of one log partition, and its log in the archive. Can be pickled."""
_DIFFERENCES = REPLICA_DIFFERENCES.arrow_schema(with_run=False)
_STATE = REPLICA_STATE.arrow_schema(with_run=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaComparison:
    """The result of a comparison, as tables (REPLICA_DIFFERENCES, REPLICA_STATE), and notes on what was left out."""

    differences: pa.Table
    state: pa.Table
    notes: list[str] = field(default_factory=list)

    @classmethod
    def join(cls, parts: Sequence["ReplicaComparison"]) -> "ReplicaComparison":
        """The comparisons of several log partitions as one."""
        return cls(
            differences=pa.concat_tables([_DIFFERENCES.empty_table(), *(part.differences for part in parts)]),
            state=pa.concat_tables([_STATE.empty_table(), *(part.state for part in parts)]),
            notes=[note for part in parts for note in part.notes],
        )

    @property
    def alarms(self) -> pa.Table:
        """The differences that any leader change would expose."""
        return self.differences.filter(pa.compute.invert(self.differences["needs_unclean_election"]))

    @property
    def is_corrupt(self) -> bool:
        return "corrupt" in self.state["status"].to_pylist()

    def counts(self) -> dict[str, int]:
        """Number of differences by kind, the most frequent kind first."""
        return dict(Counter(self.differences["kind"].to_pylist()).most_common())


def compare(
    replicas: Sequence[ReplicaFolder],
    *,
    profile: Profile = NEWEST,
    archived: Mapping[int, ReplicaLog] | None = None,
    cap_bytes: int = CAP_BYTES,
    spread: Callable[[Callable[[Work], ReplicaComparison], list[Work]], Iterable[ReplicaComparison]] = map,
) -> ReplicaComparison:
    """Compare every log partition that any replica has; `archived` has the log partitions in the archive.

    `spread` runs the work of each log partition, by default in this process.
    """
    work = work_of(replicas, archived or {})
    return ReplicaComparison.join([*spread(partial(compare_partition, profile=profile, cap_bytes=cap_bytes), work)])


def work_of(replicas: Sequence[ReplicaFolder], archived: Mapping[int, ReplicaLog]) -> list[Work]:
    """For each log partition its logs: those of the replicas that have it, and the one in the archive."""
    found = [log_partitions(folder) for folder in replicas]
    numbers = sorted({number for logs in found for number in logs})
    return [([logs[number] for logs in found if number in logs], archived.get(number)) for number in numbers]


def compare_partition(work: Work, *, profile: Profile = NEWEST, cap_bytes: int = CAP_BYTES) -> ReplicaComparison:
    """Compare the replicas of one log partition."""
    return _Partition(*work, profile, cap_bytes).compare()


class _Partition:
    """One log partition while it is compared."""

    def __init__(
        self, logs: Sequence[ReplicaLog], archived: ReplicaLog | None, profile: Profile, cap_bytes: int
    ) -> None:
        self.logs = {log.replica: log for log in logs}
        self.present = [log for log in logs if not log.is_empty]
        self.witnesses = [*self.present, *([archived] if archived else [])]
        """Logs that serve as evidence: the replicas and the archive, except those that are corrupt."""
        self.profile, self.cap_bytes = profile, cap_bytes
        self.stop = 0
        self.own: dict[str, ReplicaState] = {}
        self.corrupt: dict[str, list[CorruptBytes]] = {}

    def compare(self) -> ReplicaComparison:
        if not self.present:
            return self._answer([], {})
        leader = leader_of(self.present)
        self.stop = leader.high_watermark
        records = self._compare_records()
        sound = [log for log in self.present if log.replica not in self.corrupt]
        if leader not in sound and sound:
            leader = leader_of(sound)
        states: dict[str, ReplicaState] = {}
        for log in self.present:
            # Records that an earlier leader acknowledged are compared even if the current leader's log ends below them.
            stop = max(self.stop, log.high_watermark) if self._is_diverged(log) else self.stop
            own, fold = state_of(log, stop=stop, profile=self.profile, cap_bytes=self.cap_bytes)
            self.own[log.replica] = own
            if log in sound:
                states[log.replica] = caught_up(
                    log, leader, own=(own, fold), stop=self.stop, profile=self.profile, cap_bytes=self.cap_bytes
                )
            del fold
        return self._answer(self._differences(states, leader, records), states)

    def _compare_records(self) -> RecordComparison:
        """Compare the records of the witnesses; drop corrupt witnesses, and compare the others again.

        No CRC covers a base offset: in a log with corrupt bytes, even good batches may have wrong log_offsets.
        """
        records = RecordComparison()
        while self.witnesses:
            records = compare_records(self.witnesses, stop=self.stop, cap_bytes=self.cap_bytes)
            found = {name: parts for name, parts in records.corrupt.items() if parts}
            if not found:
                break
            self.corrupt |= found
            self.witnesses = [log for log in self.witnesses if log.replica not in found]
        return records

    # --- what differs

    def _differences(
        self, states: Mapping[str, ReplicaState], leader: ReplicaLog, records: RecordComparison
    ) -> list[ReplicaDifference]:
        differences = self._compared([*states.values()], records)
        differences += [*_conflicts(records, set(states))]
        named = {(part.key, name) for part in differences for name in part.wrong}
        for name, own in self.own.items():
            if name in states and own is not states[name]:
                # The other replicas that are neither behind nor diverged.
                others = [state for other, state in states.items() if other != name and self.own[other] is state]
                behind = self._compared([own, *(others or [states[leader.replica]])], records)
                differences += [
                    replace(part, needs_unclean_election=name in part.wrong)
                    for part in behind
                    if not all((part.key, wrong) in named for wrong in part.wrong)
                    # A difference only because this replica is behind does not count, unless it has diverged.
                    and (name in part.wrong or self._is_diverged(self.logs[name]))
                ]
        return _merged(differences)

    def _is_diverged(self, log: ReplicaLog) -> bool:
        """Whether a replica has records that it would truncate as a follower of `leader_of`."""
        leader = leader_of(self.present)
        return log.diverges_from(leader) < min(log.end, leader.end)

    def _compared(self, states: Sequence[ReplicaState], records: RecordComparison) -> list[ReplicaDifference]:
        """The differences between the given states. From a state that cannot be loaded, nothing is answered."""
        loaded = [state for state in states if state.failure is None]
        failed = [state for state in states if state.failure is not None]
        if not loaded:
            return []
        found = [*_unloadable(everything(loaded), loaded, failed)] if failed else []
        sides = differing(loaded) if len(loaded) > 1 else {}
        if not sides:
            return found
        held = [side for each in sides.values() for side in each.values()]
        rows = [row for side in held for row in (side.committed, *side.pending.values()) if row is not None]
        values: dict[int, set[int]] = {}
        for row in rows:
            if row["producer_id"] >= 0:
                values.setdefault(row["producer_id"], set()).add(row["log_offset"])
        evidence = collect(
            self.witnesses,
            groups=sorted({key[0] for key in sides}),
            values=values,
            stop=self.stop,
            cap_bytes=self.cap_bytes,
        )
        epochs = (pair for log in self.present for pair in itertools.pairwise(log.epochs))
        judge = ReplicaJudge(
            evidence=evidence,
            last_gap=records.last_gap,
            newest_ms=max(state.newest_ms for state in loaded),
            behind=frozenset(name for name, own in self.own.items() if own.reach < self.stop),
            without_leader=tuple(sorted({at for (old, _), (new, at) in epochs if new > old + 1})),
        )
        return found + judge.judge(sides)

    # --- tables

    def _answer(
        self, differences: Sequence[ReplicaDifference], states: Mapping[str, ReplicaState]
    ) -> ReplicaComparison:
        number = next(iter(self.logs.values())).log_partition
        rows = [self._row(index, part) for index, part in enumerate(differences)]
        wrong = {name for part in differences if not part.needs_unclean_election for name in part.wrong}
        return ReplicaComparison(
            differences=pa.Table.from_pylist([{"log_partition": number, **row} for row in rows], _DIFFERENCES),
            state=pa.Table.from_pylist([*self._state_rows(wrong, states)], _STATE),
            notes=[*self._notes(number)],
        )

    def _notes(self, number: int) -> Iterator[str]:
        if len(self.present) < 2:
            yield f"log partition {number}: only {', '.join(self.logs)} has it, nothing to compare"
        for name, found in self.corrupt.items():
            yield f"log partition {number}: {name} is corrupt and was left out: {found[0]}"

    def _state_rows(self, wrong: set[str], states: Mapping[str, ReplicaState]) -> Iterator[dict[str, Any]]:
        for name, log in self.logs.items():
            row: dict[str, Any] = {
                "log_partition": log.log_partition,
                "replica": name,
                "status": self._status(name, wrong, states),
                "leader_epochs": [{"leader_epoch": epoch, "start_offset": at} for epoch, at in log.epochs],
                "corrupt_bytes": [str(one) for one in self.corrupt.get(name, ())],
                "folder": log.folder,
            }
            if (own := self.own.get(name)) is not None:
                row |= {
                    "log_start_offset": log.start,
                    "high_watermark": log.high_watermark,
                    "log_end_offset": log.end,
                    "last_stable_offset": own.last_stable_offset,
                    "open_transactions": own.transactions.num_rows,
                    "record_count": own.record_count,
                    "batch_count": own.batch_count,
                    "loads": own.failure is None,
                    "load_error": own.failure,
                }
            yield row

    def _status(self, name: str, wrong: set[str], states: Mapping[str, ReplicaState]) -> str:
        log = self.logs[name]
        if log.is_empty:
            return "empty"
        if name in self.corrupt:
            return "corrupt"
        if len(self.present) < 2:
            return "alone"
        if name in wrong:
            return "differs"
        if self.own[name] is not states[name]:
            return "diverged" if self._is_diverged(log) else "behind"
        return "same"

    def _row(self, index: int, part: ReplicaDifference) -> dict[str, Any]:
        group_id, topic, partition = part.key
        return {
            "ordinal": index,
            "group_id": None if part.key == _NO_GROUP else group_id,
            "topic": None if part.key == _NO_GROUP else topic,
            "partition": partition,
            "kind": part.kinds[0],
            "kinds": list(part.kinds),
            "wrong_replicas": list(part.wrong),
            "right_replicas": list(part.right),
            "proof": part.proof,
            "needs_unclean_election": part.needs_unclean_election,
            "answers": [_answer(name, side, part) for name, side in part.sides.items()],
            "log_offsets": list(part.log_offsets),
            "since_log_offset": part.since.log_offset if part.since else None,
            "since_timestamp_ms": part.since.timestamp_ms if part.since else None,
            "next_commit_offset": part.next_commit,
            "next_abort_offset": part.next_abort,
            "evidence": part.evidence,
            "noticed_by": NOTICED_BY[part.kinds[0]],
            "advice": advice_for(part, self.logs, open_from=self._open_from(part)),
        }

    def _open_from(self, part: ReplicaDifference) -> list[int]:
        """First log_offset of each transaction that is open on the first wrong replica and on no right replica."""
        wrong = next((name for name in part.wrong if name in part.sides and name in self.own), None)
        if wrong is None:
            return []
        ended = set(part.sides[wrong].pending) - {
            one for name in part.right if name in part.sides for one in part.sides[name].pending
        }
        rows = self.own[wrong].transactions.select(["producer_id", "first_log_offset"]).to_pylist()
        return [row["first_log_offset"] for row in rows if row["producer_id"] in ended]


_NO_GROUP: GroupKey = ("", "", None)
"""The key of differences that belong to no group: transaction markers."""


def _answer(name: str, side: ReplicaSide, part: ReplicaDifference) -> dict[str, Any]:
    """The answer of a replica for the key of a difference."""
    failed = part.kinds[0] == "unloadable" and name in part.wrong
    row: dict[str, Any] = {"replica": name, "error": "NOT_COORDINATOR" if failed else None}
    if failed:
        return row
    names = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp_ms", "log_offset")
    if side.committed is not None:
        row |= {column: side.committed[column] for column in names}
    if side.pending:
        last = max(side.pending.values(), key=lambda pending: pending["log_offset"])
        row |= {
            "pending_offset": last["committed_offset"],
            "pending_log_offset": last["log_offset"],
            "producer_id": last["producer_id"],
            "error": "UNSTABLE_OFFSET_COMMIT",
        }
    if side.group is not None:
        row |= {"group_type": side.group["group_type"], "group_state": side.group["state"]}
        row["member_ids"] = sorted(side.members)
    return row


def _unloadable(
    keys: Mapping[GroupKey, Sides], loaded: Sequence[ReplicaState], failed: Sequence[ReplicaState]
) -> Iterator[ReplicaDifference]:
    """A difference for every key and group of a log partition that the `failed` replicas cannot load."""
    wrong, right = tuple(state.replica for state in failed), tuple(state.replica for state in loaded)
    text = "; ".join(f"a load of {state.replica} fails: {state.failure}" for state in failed)
    for key, sides in keys.items():
        whole = {state.replica: ReplicaSide(reach=state.reach) for state in (*loaded, *failed)} | {**sides}
        yield ReplicaDifference(key, whole, ("unloadable",), wrong, right, "load", text)


def _conflicts(records: RecordComparison, replicas: set[str]) -> Iterator[ReplicaDifference]:
    """A difference for each key with log_offsets at which replicas have different records, or the same record with
    different leader epochs."""
    found: dict[tuple[GroupKey, tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for log_offset, held in records.conflicts.items():
        mine = {name: record for name, record in held.items() if name in replicas}
        if len(set(mine.values())) < 2:
            continue
        newest = max(record.leader_epoch for record in mine.values())
        right = tuple(name for name, record in mine.items() if record.leader_epoch == newest)
        if len({mine[name] for name in right}) > 1:  # right are those with the record of the majority
            record, count = Counter(mine.values()).most_common(1)[0]
            right = tuple(name for name, one in mine.items() if one == record) if 2 * count > len(mine) else ()
        wrong = tuple(name for name in mine if name not in right)
        for key in {_key_of(record) for record in mine.values()}:
            found.setdefault((key, wrong, right), []).append(log_offset)
    for (key, wrong, right), log_offsets in found.items():
        text = (
            f"log_offset {', '.join(map(str, log_offsets[:5]))}{' ...' if len(log_offsets) > 5 else ''} has another "
            f"record on {' and '.join(wrong)}" + (f" than on {' and '.join(right)}" if right else "")
        )
        proof = "leader_epoch" if right else "unknown"
        yield ReplicaDifference(key, {}, ("conflict",), wrong, right, proof, text, log_offsets=tuple(log_offsets))


def _key_of(record: RecordOf) -> GroupKey:
    if record.is_control or record.record.key is None:
        return _NO_GROUP
    return key_of(record.record.key) or _NO_GROUP


def _merged(differences: Sequence[ReplicaDifference]) -> list[ReplicaDifference]:
    """The differences, with those of the same key merged: first those that differ only in the right replicas, then
    those that differ only in the wrong replicas."""
    found: dict[tuple[Any, ...], ReplicaDifference] = {}
    for part in differences:
        same = (part.key, part.kinds, part.wrong, part.needs_unclean_election, part.log_offsets)
        known = found.get(same, part)
        right = tuple(dict.fromkeys((*known.right, *part.right)))
        found[same] = replace(known, right=right, sides={**part.sides, **known.sides})
    merged: dict[tuple[Any, ...], ReplicaDifference] = {}
    for part in found.values():
        same = (part.key, part.kinds, part.right, part.needs_unclean_election, part.log_offsets)
        known = merged.get(same, part)
        is_said = known is part or part.evidence in known.evidence
        evidence = known.evidence if is_said else f"{known.evidence}. {part.evidence}"
        wrong = tuple(dict.fromkeys((*known.wrong, *part.wrong)))
        merged[same] = replace(known, wrong=wrong, evidence=evidence, sides={**part.sides, **known.sides})
    return list(merged.values())
