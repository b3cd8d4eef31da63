"""What clients and administrators do in each hour of the scripted day (day.py), and what becomes of every offset.

The broker keeps offsets for a minute. An operation is told by what stands around it in the log, so that it matters what
is swept together: each log partition has its part.

    PAIRS   a group that a sweep takes whole, and one that it takes in part, always due within a millisecond or two
    WHOLES  groups that a sweep takes whole and that an administrator could have deleted just so
    ALONE   what administrators do, and one group at a time that a sweep takes in part
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from sexton.coordinator.partitioner import partition_of
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton_dev.workload import QUIET, TIMEOUT_S, TRANSACTION_TIMEOUT_MS, group_metadata
from tests.clients import joined
from tests.integration.random_work import UNSTABLE_CODE
from tests.integration.test_changes import D, E, G, Script, T
from tests.waiting import until

LOG_PARTITIONS = 3
PAIRS, WHOLES, ALONE = range(LOG_PARTITIONS)
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
SHARE = "shared-by-many"
LONG_MS = 86_400_000
SESSION_TIMEOUT_MS = 1_800_000
"""The longest that a broker allows: a member that stays is not lost on a slow machine, nor are its offsets."""

Step = Callable[[], None]


class DayScript(Script):
    """The clients of a day. `truth` as in Script; `back` are those of its keys that are committed again."""

    def __init__(self, config: ClientConfig, session: ClusterSession) -> None:
        super().__init__(config, session)
        self.back: set[tuple[str, str, int]] = set()
        self._config = config
        self._settings: dict[str, Any] = {**config.for_confluent(), **QUIET}
        self._members: dict[str, Any] = {}
        self._open: tuple[Producer, str, bool] | None = None
        self._producer = self._transactional("day")
        self._pending = self._transactional("day-open")

    def make_topics(self) -> None:
        self._create("a", 2)
        self._create("b", 1)
        producer = Producer(self._settings)
        for part in (0, 1):
            producer.produce("a", value="x", partition=part)
        producer.flush(TIMEOUT_S)

    def night(self) -> None:
        """Before the day begins; these are the first offsets that the broker's retention of a minute takes."""
        self._lasting(0)
        self._pair(0)
        self._whole(0)

    def steps(self, hour: int) -> Iterator[Step]:
        """What happens in an hour, from 1 on: short steps that can be done later, too, but in this order."""
        if hour == 1:
            yield self._join
        if hour == 2:
            yield self._leave
        for step in (
            self._lasting,
            self._settle_transaction,
            self._pair,
            self._whole,
            self._transactions,
            self._delete_offsets,
            self._delete_groups,
            self._delete_topics,
            self._sweep_a_part,
            self._leave_transaction_open,
        ):
            yield partial(step, hour)

    def evening(self) -> None:
        """Nothing is left open, and what the day ended with is replaced in every log partition."""
        self._settle_transaction(0)
        self._lasting(-1)

    def close(self) -> None:
        """Members leave."""
        for member in self._members.values():
            member.close()
        self._members.clear()

    def _lasting(self, hour: int) -> None:
        """Groups that are there all day, with a new value each hour; one group in each log partition."""
        for on in range(LOG_PARTITIONS):
            self.commit_for(LONG_MS, _named("stays", 0, on), A0, B0, value=1_000 + hour)

    def _pair(self, hour: int) -> None:
        """Two groups that one sweep takes in a minute: one of them in part, which no DeleteGroups can do."""
        whole, part = _named("whole", hour, PAIRS), _named("part", hour, PAIRS)
        self.commit_for(LONG_MS, part, B0)
        asked = [
            self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id, _offsets(*places))])
            for group_id, places in ((whole, (A0, B0)), (part, (A0, A1)))
        ]
        for answers in asked:
            for answer in answers.values():
                assert not any(offset.error for offset in answer.result(TIMEOUT_S).topic_partitions)
        self.expect(E, whole, A0, B0)
        self.expect(E, part, A0, A1)

    def _whole(self, hour: int) -> None:
        group_id = _named("idle", hour, WHOLES)
        self.commit(group_id, A0, A1)
        self.expect(E, group_id, A0, A1, like={G})

    def _transactions(self, hour: int) -> None:
        """One that is committed, and is swept in a minute; one that is aborted, which changes nothing."""
        paid, unpaid = _named("paid", hour, WHOLES), _named("unpaid", hour, WHOLES)
        self.commit_for(LONG_MS, unpaid, A0)
        for group_id, end in ((paid, self._producer.commit_transaction), (unpaid, self._producer.abort_transaction)):
            self._producer.begin_transaction()
            self._send(self._producer, group_id, A0)
            end(TIMEOUT_S)
            self._wait_for_markers(group_id)
        self.expect(E, paid, A0, like={G})

    def _leave_transaction_open(self, hour: int) -> None:
        """Over the end of the hour; the next one commits it or aborts it."""
        group_id = _named("open", hour, WHOLES)
        self.commit_for(LONG_MS, group_id, A0)
        self._pending.begin_transaction()
        self._send(self._pending, group_id, A0)
        self._open = self._pending, group_id, hour % 2 == 1

    def _settle_transaction(self, hour: int) -> None:
        if self._open is None:
            return
        producer, group_id, is_committed = self._open
        (producer.commit_transaction if is_committed else producer.abort_transaction)(TIMEOUT_S)
        self._wait_for_markers(group_id)
        if is_committed:
            self.expect(E, group_id, A0, like={G})
        self._open = None

    def _delete_offsets(self, hour: int) -> None:
        """OffsetDelete: of what stays, of what is due beside what is not, and of all that a group had."""
        young, part, bare = (_named(stem, hour, ALONE) for stem in ("young", "due-part", "bare"))
        self.commit_for(LONG_MS, young, A0, B0)
        self.delete_offset(young, *A0)
        self.commit_for(LONG_MS, young, A0)
        self.back.add((young, *A0))
        self.commit_for(LONG_MS, part, B0)
        self.commit_due(part, A0)
        self.delete_offset(part, *A0, like={E})
        self.commit_due(bare, A0)
        self.delete_offset(bare, *A0)  # a sweep would have taken the group, too

    def _delete_groups(self, hour: int) -> None:
        """DeleteGroups: of a group that is not due, of one that is, and of two in one request."""
        young, due = _named("gone", hour, ALONE), _named("due", hour, ALONE)
        self.commit_for(LONG_MS, young, A0, B0)
        self.delete_group(young, A0, B0)
        self.commit_due(due, A0, A1)
        self.delete_group(due, A0, A1, like={E})
        both = [_named(stem, hour, ALONE) for stem in ("one", "two")]
        for group_id in both:
            self.commit_for(LONG_MS, group_id, A0)
            self.expect(G, group_id, A0)
        for deleted in self.admin.delete_consumer_groups(both).values():
            deleted.result(TIMEOUT_S)

    def _delete_topics(self, hour: int) -> None:
        """A topic of two groups; and one of a single group, whose offsets could have been deleted. It may come back."""
        shared, single = f"shared-{hour}", f"single-{hour}"
        losers = [_named(stem, hour, PAIRS) for stem in ("lost", "lost-too")]
        alone = _named("lost-alone", hour, ALONE)
        self._create(shared, 1)
        self._create(single, 1)
        self.commit_for(LONG_MS, alone, B0)
        self.commit(alone, (single, 0))
        self.expect(T, alone, (single, 0), like={D})
        for group_id in losers:
            self.commit_for(LONG_MS, group_id, B0)
            self.commit(group_id, (shared, 0))
            self.expect(T, group_id, (shared, 0))
        for topic, groups in ((shared, losers), (single, [alone])):
            self.admin.delete_topics([topic])[topic].result(TIMEOUT_S)
            until(
                lambda: not any((topic, 0) in committed_offsets(self.session, group_id) for group_id in groups),  # noqa: B023
                f"the offsets of topic {topic} are gone",
            )
        if hour % 2 == 0:
            self._create(single, 1)

    def _sweep_a_part(self, hour: int) -> None:
        """What a sweep takes of a group that keeps something could have been deleted: nothing else was swept."""
        group_id = _named("aged", hour, ALONE)
        self.commit_for(LONG_MS, group_id, B0)
        self.commit_due(group_id, A0)
        self.expect(E, group_id, A0, like={D})
        until(lambda: len(committed_offsets(self.session, group_id)) == 1, "a sweep came")

    def _join(self) -> None:
        """Members of every kind; those that leave at once are swept whole in a minute."""
        for stem, protocol, on in (
            ("classic-leaves", "classic", WHOLES),
            ("consumer-leaves", "consumer", WHOLES),
            ("classic-stays", "classic", PAIRS),
            ("consumer-stays", "consumer", PAIRS),
        ):
            group_id = _named(stem, 0, on)
            consumer = self._member(group_id, protocol)
            if "leaves" in stem:
                consumer.close()
                self.expect(E, group_id, A0, A1, like={G})
            else:
                self._members[group_id] = consumer
        share = self._members[SHARE] = confluent_kafka.ShareConsumer({**self._settings, "group.id": SHARE})
        share.subscribe(["a"])

        def has_joined() -> bool:
            share.poll(0.1)
            return any(
                group.group_id == SHARE and group.state == "Stable" for group in list_groups(self.session).groups
            )

        until(has_joined, "a share member joined")

    def _leave(self) -> None:
        """The share member leaves, the others stay."""
        self._members.pop(SHARE).close()

    def _member(self, group_id: str, protocol: str) -> Consumer:
        own = {"session_timeout_ms": SESSION_TIMEOUT_MS} if protocol == "classic" else {}
        consumer = joined(self._config, group_id, "a", protocol=protocol, max_poll_interval_ms=LONG_MS, **own)
        consumer.commit(offsets=_offsets(A0, A1), asynchronous=False)
        return consumer

    def _send(self, producer: Producer, group_id: str, *places: tuple[str, int]) -> None:
        producer.send_offsets_to_transaction(_offsets(*places), group_metadata(self._settings, group_id), TIMEOUT_S)

    def _wait_for_markers(self, group_id: str) -> None:
        """A transaction is confirmed to its client before its markers are written."""
        until(
            lambda: (
                not any(
                    offset.error_code == UNSTABLE_CODE
                    for offset in committed_offsets(self.session, group_id, require_stable=True).values()
                )
            ),
            f"the transaction of {group_id} has ended",
        )

    def _transactional(self, name: str) -> Producer:
        own = {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        producer = Producer({**self._settings, **own})
        producer.init_transactions(TIMEOUT_S)
        return producer

    def _create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT_S)


def _named(stem: str, hour: int, on: int) -> str:
    """A group id of log partition `on`."""
    names = (f"{stem}-{hour}-{number}" for number in count())
    return next(name for name in names if partition_of(name, LOG_PARTITIONS) == on)


def _offsets(*places: tuple[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, part, 7) for topic, part in places]
