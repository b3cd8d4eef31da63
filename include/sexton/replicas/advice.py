"""Advice for a difference, in words: who notices it, and the steps that repair it. Nothing is done automatically."""

import shlex
from collections.abc import Mapping, Sequence

from sexton.kafka_commands import abort_transaction, delete_group, delete_offsets
from sexton.replicas.folders import ReplicaLog
from sexton.replicas.judging import ReplicaDifference

NOTICED_BY: Mapping[str, str] = {
    "unloadable": "every client of every group in this log partition: NOT_COORDINATOR until another replica leads",
    "conflict": "consumers of the group: they read one value or the other, depending on the leader",
    "lost": "consumers of the group: they start from an older offset or by auto.offset.reset",
    "resurrected": "consumers of the group, if it is used again: they start from the deleted offset; tools list it",
    "aborted_to_committed": "consumers that start: UNSTABLE_OFFSET_COMMIT until the producer returns; its next COMMIT "
    "makes them start from an aborted offset",
    "committed_to_aborted": "consumers that start: UNSTABLE_OFFSET_COMMIT until the producer returns; its next ABORT "
    "makes them start from the offset before",
    "committed_hidden": "consumers that start: UNSTABLE_OFFSET_COMMIT until the producer returns; its next COMMIT may "
    "bring a deleted offset back",
    "stuck": "consumers that start: UNSTABLE_OFFSET_COMMIT for good; the group never expires, and the log cleaner of "
    "this replica stops there",
    "ghost_member": "members of the group: a rebalance waits for a member that is gone until its session times out",
}
"""Kind of difference -> who would notice if a wrong replica led."""
MEANING: Mapping[str, str] = {
    "unloadable": "the wrong replica has records at which a load fails",
    "conflict": "the replicas have different records at the same log_offset",
    "lost": "the wrong replica has nothing, or an older value, where others have a newer one",
    "resurrected": "what was deleted is still on the wrong replica: it never received the tombstone",
    "aborted_to_committed": "an aborted transaction is still open on the wrong replica: it never received the ABORT",
    "committed_to_aborted": "a committed transaction is still open on the wrong replica: it never received the COMMIT",
    "committed_hidden": "an ended transaction, whose offsets were committed again or deleted since, is still open on "
    "the wrong replica: it never received the marker",
    "stuck": "a transaction whose producer does not return is open on the wrong replica",
    "ghost_member": "a member that has left is still in the group on the wrong replica",
}
"""Kind of difference -> what it means."""
IF_IT_LEADS = "if it leads already: "

PENDING_KINDS = ("aborted_to_committed", "committed_to_aborted", "committed_hidden", "stuck")


def advice_for(difference: ReplicaDifference, logs: Mapping[str, ReplicaLog], *, open_from: Sequence[int] = ()) -> str:
    """The steps that repair one difference, as text.

    `open_from` has the first log_offset of each transaction that is open only on a wrong replica.
    """
    if difference.kinds[0] == "conflict" and not difference.right:
        return "find out which broker's disk is faulty; then let that broker fetch a new copy of the log partition"
    if difference.needs_unclean_election:
        behind = " and ".join(difference.wrong)
        return (
            f"let {behind} catch up before any leader change, and keep unclean.leader.election.enable=false; "
            "if one leads already, commit the offsets again with `sexton restore` from the archive"
        )
    wrong = [logs[name] for name in difference.wrong if name in logs]
    steps = [replace_copy(log.replica, [log.log_partition]) for log in wrong]
    place = f"abort --topic __consumer_offsets --partition {wrong[0].log_partition if wrong else None}"
    aborts = [f"`{abort_transaction(f'{place} --start-offset {start_offset}')}`" for start_offset in open_from]
    return "; ".join([*steps, _when_leading(difference, aborts)])


def replace_copy(replica: str, log_partitions: Sequence[int]) -> str:
    """The steps that let one replica fetch log partitions anew, as text."""
    names = [f"__consumer_offsets-{number}" for number in log_partitions]
    them = ", ".join(names)
    folders, it = ("folder", "the log") if len(names) == 1 else ("folders", "the logs")
    lead = f"it does not lead {them}" if len(names) == 1 else f"it leads none of {them}"
    return (
        f"{replica}: make sure that {lead} and that a right replica does, stop the broker, move "
        f"its {folders} {them} away, start the broker: it fetches {it} again"
    )


def _when_leading(difference: ReplicaDifference, aborts: Sequence[str]) -> str:
    """The steps if a wrong replica leads already, as text."""
    elect = f"{IF_IT_LEADS}elect a right replica first (kafka-leader-election.sh, or a reassignment)"
    kinds, (group_id, topic, partition) = difference.kinds, difference.key
    steps = []
    if kinds[0] in PENDING_KINDS:
        # Deleting the offset would remove the right committed value along with the pending one.
        steps += [f"end the transaction: {command}" for command in aborts]
    if "resurrected" in kinds:
        command = delete_group(group_id)
        if topic is not None and partition is not None:
            command = delete_offsets(group_id, [(topic, partition)])
        steps.append(f"delete through the coordinator: `{command}`")
    if kinds[0] in ("lost", "committed_to_aborted"):
        place = "" if topic is None else f" --topic {shlex.quote(f'{topic}:{partition}')}"
        command = f"sexton restore --group {shlex.quote(group_id)}{place} --as-of INSTANT --archive URI"
        steps.append(f"put it back: `{command}`")
    return f"{elect}; where there is none, {', then '.join(steps)}" if steps else elect
