"""What a broker answers about the groups that it has loaded, and what Sexton says that it answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

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
Answers: TypeAlias = dict[tuple[str, str], Any]
"""By group id and question; a question that was not put is missing."""
TASK_KINDS = {"active_tasks": "", "standby_tasks": " (standby)", "warmup_tasks": " (warmup)"}


@dataclass(frozen=True)
class Asker:
    """A member that fetches offsets: its id, None where the request has none, and its epoch."""

    member_id: str | None
    epoch: int

    def __str__(self) -> str:
        return f"fetch by {self.member_id} at epoch {self.epoch}"


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
                answer = fetch(coordinator, group_id, member_id=asker.member_id, member_epoch=asker.epoch)
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
    members = {
        one.member_id: (
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.member_metadata,
            one.member_assignment,
        )
        for one in answer.members
    }
    return answer.group.protocol_type or "", answer.protocol or "", members


def _modern(answer: DescribedGroup) -> Any:
    assert answer.group is not None
    members = {
        one.member_id: (
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.member_epoch,
            set(one.assignment or ()),
        )
        for one in answer.members
    }
    return answer.group.generation, members


# --- the broker


class Inquiry:
    """What is asked of a broker whose clients' jar is among `jars`."""

    def __init__(self, session: ClusterSession, jars: Sequence[Path]) -> None:
        self._session = session
        (self._clients,) = (jar for jar in jars if jar.name.startswith("kafka-clients-"))
        (self._node_id,) = session.broker_ids
        self._fetches_alone = (session.broker_version or "").startswith(("0.", "1.", "2."))

    def ask(self, group_ids: Sequence[str], asking: Mapping[str, Sequence[Asker]]) -> Answers:
        """Everything about the groups; that of `asking` by its members."""
        found: Answers = {}
        for question, stable in (("fetch", False), ("fetch stable", True)):
            for some in _runs(group_ids):
                found.update(self._fetch(some, question, require_stable=stable))
        by_member = [(group_id, asker) for group_id, some in asking.items() for asker in some]
        for group_id, asker in by_member:
            found.update(self._fetch([group_id], str(asker), asker=asker))
        listed = {group.group_id: group for group in groups_at(self._session, self._node_id)}
        for group_id in group_ids:
            group = listed.get(group_id)
            found[group_id, "listed"] = group and (group.group_type or CLASSIC, group.state, group.protocol_type)
        kinds: dict[str, list[str]] = {}
        for group_id in group_ids:
            kind = group.group_type if (group := listed.get(group_id)) else ""
            kinds.setdefault(kind or CLASSIC, []).append(group_id)
        for kind, of_kind in kinds.items():
            for some in _runs(of_kind):
                found.update(self._describe(kind, some))
        return found

    def _fetch(
        self, group_ids: Sequence[str], question: str, *, require_stable: bool = False, asker: Asker | None = None
    ) -> Answers:
        if self._fetches_alone:
            return {(group_id, question): self._fetch_alone(group_id, require_stable) for group_id in group_ids}
        Asked = OffsetFetchRequest.OffsetFetchRequestGroup
        by = {} if asker is None else {"member_id": asker.member_id, "member_epoch": asker.epoch}
        request = OffsetFetchRequest(
            groups=[Asked(group_id=group_id, topics=None, **by) for group_id in group_ids],
            require_stable=require_stable,
            max_version=OFFSET_FETCH_BY_NAME,
        )
        groups = self._session.call(request, node_id=self._node_id).groups
        return {(group.group_id, question): _answered_offsets(group) for group in groups}

    def _fetch_alone(self, group_id: str, require_stable: bool) -> Any:
        """By a broker before 3.0, which takes one group at a time."""
        request = OffsetFetchRequest(
            group_id=group_id, topics=None, require_stable=require_stable, max_version=OFFSET_FETCH_OF_ONE
        )
        return _answered_offsets(self._session.call(request, node_id=self._node_id))

    def _describe(self, kind: str, group_ids: Sequence[str]) -> Answers:
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
        if failed and len(group_ids) > 1:
            for half in (failed[::2], failed[1::2]):
                found.update(self._describe(kind, half) if half else {})
        return found


def _runs(group_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(group_ids), GROUPS_A_REQUEST):
        yield group_ids[start : start + GROUPS_A_REQUEST]


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
    members = {
        one.member_id: (
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.member_metadata,
            one.member_assignment,
        )
        for one in group.members
    }
    return group.protocol_type, group.protocol_data, members


def _answered_modern(group: Any) -> Any:
    members = {
        one.member_id: (
            getattr(one, "instance_id", None),
            one.client_id,
            one.client_host,
            one.member_epoch,
            {
                f"{kafka_uuid(part.topic_id)}-{number}"
                for part in one.assignment.topic_partitions
                for number in part.partitions
            },
        )
        for one in group.members
    }
    return group.group_epoch, members


def _answered_streams(group: Any) -> Any:
    members = {
        one.member_id: (
            one.instance_id,
            one.client_id,
            one.client_host,
            one.member_epoch,
            {
                f"{part.subtopology_id}{suffix}-{number}"
                for tasks, suffix in TASK_KINDS.items()
                for part in getattr(one.assignment, tasks)
                for number in part.partitions
            },
        )
        for one in group.members
    }
    return group.group_epoch, members


_OF_MEMBERS: Mapping[str, tuple[Callable[[DescribedGroup], Any], str | None, Callable[[Any], Any]]] = {
    "Classic": (_classic, None, _answered_classic),
    "Consumer": (_modern, "ConsumerGroupDescribe", _answered_modern),
    "Share": (_modern, "ShareGroupDescribe", _answered_modern),
    "Streams": (_modern, "StreamsGroupDescribe", _answered_streams),
}
"""By type of group: what Sexton's description says, the request (None: DescribeGroups), what its answer says."""
