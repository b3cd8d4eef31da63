"""What to do about a difference, in words: who notices it, and steps that repair it. Nothing is done automatically."""

from collections.abc import Mapping

from sexton.replicas.folders import ReplicaLog
from sexton.replicas.judging import Difference

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
"""Kind -> who would notice if a wrong replica led."""


def advice_for(difference: Difference, logs: Mapping[str, ReplicaLog]) -> str:
    """The steps that repair what a row is about."""
    if difference.kinds[0] == "conflict" and not difference.right:
        return "find out which broker's disk is faulty; then replace its copy as for the other kinds"
    if difference.needs_unclean_election:
        behind = ", ".join(difference.wrong)
        return (
            f"let {behind} catch up before any leader change, and keep unclean.leader.election.enable=false; "
            f"if it leads already, commit again with `sexton restore` from the archive"
        )
    steps = [replace_copy(logs[name]) for name in difference.wrong if name in logs]
    return "; ".join([*steps, _when_leading(difference)])


def replace_copy(log: ReplicaLog) -> str:
    """How one replica gets a new copy of a log partition."""
    name = f"__consumer_offsets-{log.log_partition}"
    return (
        f"{log.replica}: make sure that it does not lead {name} and that a right replica does, stop the broker, move "
        f"{log.folder} away, start the broker: it fetches the log anew"
    )


def _when_leading(difference: Difference) -> str:
    """What to do where a wrong replica leads already."""
    group_id, topic, partition = difference.key
    elect = "if it leads already: elect a right replica first (kafka-leader-election.sh, or a reassignment)"
    if difference.kinds[0] in ("resurrected", "committed_hidden", "stuck", "aborted_to_committed"):
        what = f"--delete-offsets --topic {topic}:{partition}" if topic is not None else "--delete"
        return f"{elect}, or delete through the coordinator: kafka-consumer-groups.sh {what} --group {group_id}"
    if difference.kinds[0] in ("lost", "committed_to_aborted"):
        select = f" --topic {topic}:{partition}" if topic is not None else ""
        return f"{elect}, or put it back: sexton restore --group {group_id}{select} --as-of INSTANT --archive URI"
    return elect
