"""`OffsetWriter`: restores committed offsets without overwriting a newer commit, in a transaction without a group
member.

The values are written as pending: they are in the log but have no effect yet. Then the log is read up to them. If it
has nothing newer than the compared values, the transaction ends with COMMIT, else with ABORT. A commit after the
pending record has a higher log_offset and wins. A pending commit of another transaction, before the pending record,
would lose: the preflight check (require_stable, each offset by name) and the log show such a commit.

Not here: the preflight check of the group, and reading back the result of a write (restore, delete).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sexton.coordinator.api.view import TopicPartition
from sexton.execution.engine import Answer, ApplyContext, error_text
from sexton.execution.group_records import GroupRecord, GroupTail
from sexton.failpoints import failpoint
from sexton.kafka.admin import GroupError
from sexton.kafka.failures import NotAllowed, TransientError, Unsettled
from sexton.kafka.group_state import CommittedValue
from sexton.kafka.offset_transactions import ProducerIdentity
from sexton.ledger.entries import ItemId, Result

NO_LOG = "the log is not shown"
PREFIX = "sexton-"
"""Prefix of Sexton's transactional ids: the ACL is granted for it."""
_ID_CHARS = 32
_MARKER_TRIES = 11
_MARKER_WAIT_S = 0.005
"""Wait for the marker that ends a transaction in the log, in growing steps: about 10 s in total."""
DELETED = "it was deleted since"

Values = Mapping[ItemId, tuple[TopicPartition, CommittedValue]]
"""Values to write for a group, by item."""


@dataclass(slots=True, kw_only=True)
class OffsetWriter:
    """Writes offsets for one attempt. `plain_because` is why it can only send an OffsetCommit, which compares nothing;
    None where it compares and sets. With `among_members` it also writes to groups with members, but only for topics to
    which the members do not subscribe."""

    context: ApplyContext
    plan_id: str
    plain_because: str | None = None
    among_members: bool = False
    _producer: ProducerIdentity | None = None
    _is_open: bool = False

    def begin(self) -> None:
        """End transactions that an earlier attempt at the same plan left open, before anything is read."""
        if self._producer is None and self.plain_because is None:
            try:
                self._begin()
            except (GroupError, NotAllowed) as error:
                self.plain_because = error_text(error)
            except TransientError as error:
                self.plain_because = error.message

    @property
    def warnings(self) -> list[str]:
        """A warning about values that were written without a comparison."""
        if self.plain_because is None:
            return []
        return [f"offsets are put back by plain commits, which may replace a newer one: {self.plain_because}"]

    @property
    def checks(self) -> dict[str, object]:
        """Values for the ledger's `checks`: how offsets are written."""
        if self._producer is None:
            return {"plain_because": self.plain_because}
        return {"producer_id": self._producer.producer_id, "transactional_id": self._producer.transactional_id}

    def write(self, group_id: str, log_partition: int, values: Values, *, since: int | None) -> Answer:
        """Write the values of a group, which were compared when the log ended at `since`.

        The answer's `decided` are the results of offsets that were left unchanged. After `settle` the log shows the
        results of all other offsets.
        """
        if self._producer is None:
            answers = self.context.client.commit_offsets(group_id, dict(values.values()))
            return Answer(by_item={item_id: answers.get(key) for item_id, (key, _) in values.items()})
        assert since is not None
        tail = GroupTail(self.context.client, log_partition, cut=since, group_ids=(group_id,))
        left, decided, is_committed = dict(values), list[Result](), False
        while left and not is_committed:
            objections, is_committed = self._transaction(self._producer, group_id, tail, left)
            decided += objections
            left = {item_id: left[item_id] for item_id in left.keys() - {result.item_id for result in objections}}
        return Answer(is_settled=False, decided=decided)

    def settle(self) -> None:
        """End a transaction whose outcome is unknown after a write, so that the log shows its end."""
        if self._is_open:
            self.context.ledger.check_claim()
            self._begin()

    def _begin(self) -> None:
        transactional_id = PREFIX + self.plan_id[:_ID_CHARS]
        self._producer = self.context.client.begin_transactions(transactional_id)
        self._is_open = False

    def _transaction(
        self, producer: ProducerIdentity, group_id: str, tail: GroupTail, values: Values
    ) -> tuple[list[Result], bool]:
        """One transaction: the results of values that must not be written, and whether the others were committed."""
        self._is_open = True
        refused = self.context.client.pend_offsets(producer, group_id, dict(values.values()))
        failpoint("apply.pended")
        tail.read()
        now = self.context.client.group_now(group_id)
        has_members, subscribed = (now.state or "Empty") != "Empty", None
        if has_members and self.among_members:
            subscribed = self.context.client.subscribed_topics(group_id, now.group_type or "classic")
        aborted = tail.transactions.aborted
        offsets = [one for one in tail.records(group_id) if one.is_offset and one.log_offset not in aborted]
        found: list[Result] = []
        for item_id, (key, value) in values.items():
            records = [record for record in offsets if record.topic_partition == key]
            if (error := refused.get(key)) is not None:
                found.append(Result.of(item_id, "refused", error))
            elif result := _objection(item_id, records, producer.producer_id, value):
                found.append(result)
            elif has_members and (subscribed is None or key[0] in subscribed):
                found.append(Result.of(item_id, "refused", "UNKNOWN_MEMBER_ID"))
        # A refused value is not pending. Any other value that must not be written ends the whole transaction.
        is_committed = len(found) < len(values) and all(result.error in refused.values() for result in found)
        try:
            self.context.client.end_transaction(producer, committed=is_committed)
            failpoint("apply.committed")
            self._await_end(tail, producer)
        except (GroupError, TransientError) as error:
            raise Unsettled(error.message, where=error.where) from None
        return found, is_committed

    def _await_end(self, tail: GroupTail, producer: ProducerIdentity) -> None:
        """Read on until the log has the end of the transaction: the coordinator answers before the marker is
        written."""
        for number in range(_MARKER_TRIES):
            tail.read()
            if producer.producer_id not in tail.transactions.open:
                self._is_open = False
                return
            self.context.clocks.sleep(_MARKER_WAIT_S * 2**number)
        raise Unsettled("the end of the transaction is not in the log")


def _objection(
    item_id: ItemId, records: Sequence[GroupRecord], producer_id: int, value: CommittedValue
) -> Result | None:
    """Why a pending value must not be committed, judged by its offset's records in the log; None when it may."""
    if others := [record for record in records if record.producer_id != producer_id]:
        newer = others[-1].value
        error = DELETED if newer is None else f"{newer.committed_offset} was committed since"
        return Result.of(item_id, "changed_since", error, found=newer)
    ours = records[-1].value if records else None
    if ours is None or ours.as_committed != value:
        return Result.of(item_id, "refused", "the log does not have what was sent, byte for byte")
    return None
