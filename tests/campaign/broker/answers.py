"""What a broker answers about the groups that it has loaded, and what Sexton says that it answers."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import FetchAnswer, fetch
from sexton.coordinator.api.listing import DescribedGroup, describe_group, list_groups
from sexton.coordinator.api.view import LoadedMember
from sexton.errors import BrokerError
from sexton.kafka.group_state import OFFSET_FETCH_BY_NAME, groups_at
from sexton.kafka.session import ClusterSession
from sexton.records import kafka_uuid
from tests.integration.streams_client import request_class

GROUPS_A_REQUEST = 500
OFFSET_FETCH_OF_ONE = 7
"""The last version that asks for one group."""
NOBODY = "nobody"
CLASSIC = "classic"
"""The type of every group where a listing has no types (up to 3.7)."""
UNSUPPORTED = "IncompatibleBrokerVersion"
"""The client's own error where a broker does not take a request."""
T = TypeVar("T")
Answers: TypeAlias = dict[tuple[str, str], Any]
"""By group id and question; a question that was not put is missing."""
TASK_KINDS = {"active_tasks": "", "standby_tasks": " (standby)", "warmup_tasks": " (warmup)"}


@dataclass(frozen=True)
class Asker:
    """A member that fetches offsets: its id, None where the request has none, and its epoch."""

    member_id: str | None
    member_epoch: int

    def __str__(self) -> str:
        return f"fetch by {self.member_id} at epoch {self.member_epoch}"


def askers(members: Iterable[LoadedMember]) -> Iterator[Asker]:
    """Each member with its epoch and with the next one, somebody else, and nobody with an epoch."""
    for member in members:
        epoch = 0 if member.member_epoch is None else member.member_epoch
        yield Asker(member.member_id, epoch)
        yield Asker(member.member_id, epoch + 1)
    yield Asker(NOBODY, 1)
    yield Asker(None, 0)


# --- Sexton


def told_by_sexton(coordinator: Coordinator, group_ids: Iterable[str]) -> tuple[Answers, dict[str, list[Asker]]]:
    """What a broker has to answer, and the members of each group that are to ask."""
    found: Answers = {}
    asking: dict[str, list[Asker]] = {}
    listed = {one.group.group_id: one.group for one in list_groups(coordinator).groups}
    for group_id in group_ids:
        found[group_id, "fetch"] = _fetched(fetch(coordinator, group_id))
        found[group_id, "fetch stable"] = _fetched(fetch(coordinator, group_id, require_stable=True))
        group = listed.get(group_id)
        found[group_id, "listed"] = group and (group.group_type.lower(), group.state, group.protocol_type or "")
        described = describe_group(coordinator, group_id)
        found[group_id, "described"] = _described(described)
        if group is not None and group.group_type in ("Consumer", "Streams"):
            asking[group_id] = list(askers(described.members))
            for asker in asking[group_id]:
                answer = fetch(coordinator, group_id, member_id=asker.member_id, member_epoch=asker.member_epoch)
                found[group_id, str(asker)] = _fetched(answer)
    return found, asking


def _fetched(answer: FetchAnswer) -> Any:
    return answer.error.value, {
        (one.topic, one.partition): (one.committed_offset, one.leader_epoch, one.metadata, one.error.value)
        for one in answer.offsets
    }


def _described(answer: DescribedGroup) -> Any:
    if answer.error is not Error.NONE:
        return answer.error.value
    if answer.group is None:
        return answer.state, ("", "", {})
    return answer.state, _OF_MEMBERS[answer.group.group_type][0](answer)


def _classic(answer: DescribedGroup) -> Any:
    assert answer.group is not None
    return answer.group.protocol_type or "", answer.protocol or "", _members(answer.members, _of_classic)


def _modern(answer: DescribedGroup) -> Any:
    assert answer.group is not None
    return answer.group.generation, _members(answer.members, lambda one: (one.member_epoch, set(one.assignment or ())))


def _members(members: Iterable[Any], more: Callable[[Any], Any]) -> dict[str, Any]:
    """By member id what Sexton and every kind of answer say of a member, and `more` of it."""
    return {
        one.member_id: (
            getattr(one, "group_instance_id", getattr(one, "instance_id", None)),
            one.client_id,
            one.client_host,
            more(one),
        )
        for one in members
    }


def _of_classic(member: Any) -> Any:
    return member.member_metadata, member.member_assignment


# --- the broker


class Inquiry:
    """What is asked of a broker whose clients' jar is among `jars`."""

    def __init__(self, session: ClusterSession, jars: Sequence[Path]) -> None:
        self._session = session
        (self._clients,) = (jar for jar in jars if jar.name.startswith("kafka-clients-"))
        (self._node_id,) = session.broker_ids
        version = session.broker_version or ""
        self._fetches_alone = version.startswith(("0.", "1.", "2."))
        self._fails_by_log_partition = not self._fetches_alone and not version.startswith("3.")

    def ask(self, homes: Mapping[str, int], asking: Mapping[str, Sequence[Asker]], failing: Collection[str]) -> Answers:
        """Everything about the groups, whose log partitions are `homes`; that of `asking` by its members.

        Those that are expected to make a request fail are described apart from the others.
        """
        found: Answers = {}
        for question, stable in (("fetch", False), ("fetch stable", True)):
            for some in _runs(list(homes)):
                found.update(self._fetch(dict.fromkeys(some, None), question, require_stable=stable))
        for turn in zip_longest(*([(group_id, one) for one in some] for group_id, some in asking.items())):
            for members in _runs([one for one in turn if one is not None]):
                found.update(self._fetch(dict(members), ""))
        listed = {group.group_id: group for group in groups_at(self._session, self._node_id)}
        kinds: dict[str, list[str]] = {}
        for group_id in homes:
            group = listed.get(group_id)
            found[group_id, "listed"] = group and (group.group_type or CLASSIC, group.state, group.protocol_type)
            kinds.setdefault((group and group.group_type) or CLASSIC, []).append(group_id)
        for kind, of_kind in kinds.items():
            apart = self._apart([name for name in of_kind if name in failing], homes)
            for some in [*_runs([name for name in of_kind if name not in failing]), *apart]:
                found.update(self._describe(kind, some, homes))
        return found

    def _fetch(self, askers_of: Mapping[str, Asker | None], question: str, *, require_stable: bool = False) -> Answers:
        """All offsets of each group, asked for by nobody or by its asker; then that is the question."""
        if self._fetches_alone:
            return {(group_id, question): self._fetch_alone(group_id, require_stable) for group_id in askers_of}
        Asked = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetchRequest(
            groups=[
                Asked(group_id=group_id, topics=None, **({} if asker is None else asdict(asker)))
                for group_id, asker in askers_of.items()
            ],
            require_stable=require_stable,
            max_version=OFFSET_FETCH_BY_NAME,
        )
        found: Answers = {}
        for group in self._session.call(request, node_id=self._node_id).groups:
            asker = askers_of[group.group_id]
            found[group.group_id, question if asker is None else str(asker)] = _answered_offsets(group)
        return found

    def _apart(self, group_ids: Sequence[str], homes: Mapping[str, int]) -> Iterator[Sequence[str]]:
        """Groups each of which makes a request fail, in requests where none fails another."""
        by_home: dict[Any, list[str]] = {}
        for group_id in group_ids:
            by_home.setdefault(self._failing_with(group_id, homes), []).append(group_id)
        for turn in zip_longest(*by_home.values()):
            yield [group_id for group_id in turn if group_id is not None]

    def _failing_with(self, group_id: str, homes: Mapping[str, int]) -> int | None:
        """What fails together: the groups of a log partition, before 4.0 all of a request."""
        return homes[group_id] if self._fails_by_log_partition else None

    def _fetch_alone(self, group_id: str, require_stable: bool) -> Any:
        """By a broker before 3.0, which takes one group at a time."""
        request = OffsetFetchRequest(
            group_id=group_id, topics=None, require_stable=require_stable, max_version=OFFSET_FETCH_OF_ONE
        )
        return _answered_offsets(self._session.call(request, node_id=self._node_id))

    def _describe(self, kind: str, group_ids: Sequence[str], homes: Mapping[str, int]) -> Answers:
        """Described together, and in halves where that fails: a coordinator fails for all if it does for one."""
        request_of = _OF_MEMBERS[kind.capitalize()][1]
        if request_of is None:
            request = DescribeGroupsRequest(groups=list(group_ids), include_authorized_operations=False)
        else:
            try:
                kind_of_request = request_class(self._clients, request_of)
            except KeyError:  # not in that release
                return {}
            request = kind_of_request(group_ids=list(group_ids), include_authorized_operations=False)
        try:
            answered = self._session.call(request, node_id=self._node_id).groups
        except BrokerError as error:
            if UNSUPPORTED in error.message:
                return {}
            raise
        if any(group.error_code == Error.UNSUPPORTED_VERSION for group in answered):
            return {}  # that broker has switched the type of group off
        found: Answers = {}
        for group in answered:
            if group.error_code:  # 4.0.0 also asks the wrong log partitions, and answers GROUP_ID_NOT_FOUND besides
                found.setdefault((group.group_id, "described"), group.error_code)
            else:
                found[group.group_id, "described"] = group.group_state, _OF_MEMBERS[kind.capitalize()][2](group)
        failed = [name for name in group_ids if found[name, "described"] == Error.UNKNOWN_SERVER_ERROR]
        together = Counter(self._failing_with(name, homes) for name in group_ids)
        again = [name for name in failed if together[self._failing_with(name, homes)] > 1]
        for half in (again[::2], again[1::2]):
            found.update(self._describe(kind, half, homes) if half else {})
        return found


def _runs(asked: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(asked), GROUPS_A_REQUEST):
        yield asked[start : start + GROUPS_A_REQUEST]


def _answered_offsets(answer: Any) -> Any:
    return answer.error_code, {
        (topic.name, one.partition_index): (
            one.committed_offset,
            None if one.committed_leader_epoch < 0 else one.committed_leader_epoch,
            one.metadata or "",
            one.error_code,
        )
        for topic in answer.topics
        for one in topic.partitions
    }


def _answered_classic(group: Any) -> Any:
    return group.protocol_type, group.protocol_data, _members(group.members, _of_classic)


def _answered_modern(group: Any) -> Any:
    def more(member: Any) -> Any:
        parts = member.assignment.topic_partitions
        return member.member_epoch, {f"{kafka_uuid(part.topic_id)}-{n}" for part in parts for n in part.partitions}

    return group.group_epoch, _members(group.members, more)


def _answered_streams(group: Any) -> Any:
    def more(member: Any) -> Any:
        return member.member_epoch, {
            f"{part.subtopology_id}{suffix}-{number}"
            for tasks, suffix in TASK_KINDS.items()
            for part in getattr(member.assignment, tasks)
            for number in part.partitions
        }

    return group.group_epoch, _members(group.members, more)


_OF_MEMBERS: Mapping[str, tuple[Callable[[DescribedGroup], Any], str | None, Callable[[Any], Any]]] = {
    "Classic": (_classic, None, _answered_classic),
    "Consumer": (_modern, "ConsumerGroupDescribe", _answered_modern),
    "Share": (_modern, "ShareGroupDescribe", _answered_modern),
    "Streams": (_modern, "StreamsGroupDescribe", _answered_streams),
}
"""By type of group: what Sexton's description says, the request (None: DescribeGroups), what its answer says."""
