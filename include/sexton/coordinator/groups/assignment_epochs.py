"""The owner of each partition or task in an assignment, and Kafka's exceptions when two members own the same one.

Compaction keeps the newest record of every member, so the record with which a member takes a partition may come before
the record with which the previous owner releases it. Coordinators before KAFKA-19862 then throw, whatever the epochs.
Follows ConsumerGroup.currentPartitionEpoch and StreamsGroup.current...TaskToProcessId. If Kafka throws, no owner
changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from sexton.coordinator.groups.group import Member, id_text
from sexton.errors import TransitionError

Tasks = Mapping[tuple[str, str], frozenset[int]]
"""Partitions by kind of task (see TASK_KINDS) and subtopology."""

TASK_KINDS = ("active_tasks", "standby_tasks", "warmup_tasks")
_ACTIVE = TASK_KINDS[0]
_NULL_SET = (
    'Cannot invoke "java.util.Set.remove(Object)" because the return value of '
    '"org.apache.kafka.timeline.TimelineHashMap.get(Object)" is null'
)


class PartitionOwners:
    """The epoch since which each partition of a consumer group is owned."""

    def __init__(self, *, newer_owners_win: bool) -> None:
        self._newer_owners_win = newer_owners_win
        self._epochs: dict[UUID, dict[int, int]] = {}

    def move(self, old: Member | None, new: Member | None) -> None:
        """Move ownership from the old state of a member to the new one; None where the member did not exist, or is
        removed.

        A second member may claim a partition only at a higher epoch; before KAFKA-19862 Kafka throws at any epoch.
        """
        if old is not None and not self._newer_owners_win:
            self._refuse_release(old)
        if new is not None:
            self._refuse_claims(old, new)
        if old is not None:
            self._release(old)
        if new is not None:
            self._claim(new)

    def _refuse_release(self, member: Member) -> None:
        """Throw if one of the member's topics has no owned partition left: only possible if the record lists none for
        it."""
        left = {topic_id: len(self._epochs[topic_id]) for topic_id, _ in _parts(member) if topic_id in self._epochs}
        for topic_id, partitions in _parts(member):
            if topic_id not in left:
                raise TransitionError(
                    f"Cannot remove the epoch {member.member_epoch} from {id_text(topic_id)} because it does not have "
                    "any epoch"
                )
            left[topic_id] -= len(partitions)
            if not left[topic_id]:
                del left[topic_id]

    def _refuse_claims(self, old: Member | None, new: Member) -> None:
        released = set(self._held(old)) if old is not None else set()
        claimed = set[tuple[UUID, int]]()
        epoch = _epoch(new)
        for claim in _claims(new):
            topic_id, partition = claim
            since = epoch if claim in claimed else None if claim in released else self._since(claim)
            if since is not None and (since >= epoch or not self._newer_owners_win):
                raise TransitionError(
                    f"Cannot set the epoch of {id_text(topic_id)}-{partition} to {epoch} because the partition is "
                    f"still owned at epoch {since}"
                )
            claimed.add(claim)

    def _since(self, claim: tuple[UUID, int]) -> int | None:
        topic_id, partition = claim
        return self._epochs.get(topic_id, {}).get(partition)

    def _held(self, member: Member) -> Iterator[tuple[UUID, int]]:
        """The member's partitions that no other member has taken over at a higher epoch."""
        return (claim for claim in _claims(member) if self._since(claim) == member.member_epoch)

    def _release(self, member: Member) -> None:
        for topic_id, partition in list(self._held(member)):
            del self._epochs[topic_id][partition]
        for topic_id, _ in _parts(member):
            if not self._epochs.get(topic_id, True):
                del self._epochs[topic_id]

    def _claim(self, member: Member) -> None:
        for topic_id, partitions in _parts(member):
            self._epochs.setdefault(topic_id, {}).update(dict.fromkeys(partitions, _epoch(member)))


def _epoch(member: Member) -> int:
    assert member.member_epoch is not None, "members of consumer groups have an epoch from the start"
    return member.member_epoch


def _parts(member: Member) -> Iterator[tuple[UUID, frozenset[int]]]:
    for part in (member.assigned, member.revoking):
        yield from part.items()


def _claims(member: Member) -> Iterator[tuple[UUID, int]]:
    for topic_id, partitions in _parts(member):
        yield from ((topic_id, partition) for partition in partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    """A member of a streams group: its process and its tasks; tasks to be revoked come last."""

    process_id: str | None = None
    tasks: tuple[Tasks, ...] = ()


_Owners = dict[tuple[str, str], Mapping[int, frozenset[str]]]


class TaskOwners:
    """The owner process of each task of a streams group; only needed for releases before KAFKA-19862.

    An active task has one owner, a standby or warm-up task any number. A member without a known process owns nothing;
    Kafka throws when the process becomes known, since it first releases tasks that the member never owned.
    """

    def __init__(self) -> None:
        self._owners: _Owners = {}
        self._holders: dict[str, _Holder] = {}

    def describe(self, member_id: str, process_id: str) -> None:
        self._move(member_id, replace(self._holder(member_id), process_id=process_id))

    def assign(self, member_id: str, *tasks: Tasks) -> None:
        self._move(member_id, replace(self._holder(member_id), tasks=tasks))

    def remove(self, member_id: str) -> None:
        self._move(member_id, _Holder())
        self._holders.pop(member_id, None)

    def _holder(self, member_id: str) -> _Holder:
        return self._holders.get(member_id) or _Holder()

    def _move(self, member_id: str, new: _Holder) -> None:
        owners = dict(self._owners)
        old = self._holder(member_id)
        for tasks in old.tasks:
            _release_tasks(owners, tasks, old.process_id)
        if new.process_id is not None:
            for tasks in new.tasks:
                _claim_tasks(owners, tasks, new.process_id)
        self._owners = owners
        self._holders[member_id] = new


def _release_tasks(owners: _Owners, tasks: Tasks, process_id: str | None) -> None:
    shown_id = "null" if process_id is None else process_id
    for (kind, subtopology_id), partitions in tasks.items():
        if (kind, subtopology_id) not in owners:
            what = "processId" if kind == _ACTIVE else "process ID"
            raise TransitionError(
                f"Cannot remove the process ID {shown_id} from {subtopology_id} because it does not have any {what}"
            )
        owned = dict(owners[kind, subtopology_id])
        for partition in sorted(partitions):
            start = f"Cannot remove the process ID {shown_id} from task {subtopology_id}_{partition} because the "
            if kind == _ACTIVE:
                owner = next(iter(owned.pop(partition, ())), None)
                if owner != process_id:
                    text = "null" if owner is None else owner
                    raise TransitionError(f"{start}partition is still owned at a different process ID {text}")
                continue
            # a task stays known after its last owner has released it; Kafka throws on an unknown task
            if partition not in owned:
                raise TransitionError(_NULL_SET)
            if process_id is None or process_id not in owned[partition]:
                raise TransitionError(f"{start}task is not owned by this process ID")
            owned[partition] -= {process_id}
        if owned:
            owners[kind, subtopology_id] = owned
        else:
            del owners[kind, subtopology_id]


def _claim_tasks(owners: _Owners, tasks: Tasks, process_id: str) -> None:
    for (kind, subtopology_id), partitions in tasks.items():
        owned = dict(owners.get((kind, subtopology_id), {}))
        for partition in sorted(partitions):
            others = owned.get(partition, frozenset())
            if kind == _ACTIVE and others:
                raise TransitionError(
                    f"Cannot set the process ID of {subtopology_id}-{partition} to {process_id} because the partition "
                    f"is still owned by process ID {next(iter(others))}"
                )
            owned[partition] = others | {process_id}
        owners[kind, subtopology_id] = owned
