"""The meanings of the codes in the tables, the glossary, and sentences about plans, for pages and terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sexton.as_text import count, duration, instant, some
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.expiry import SweepBlock
    from sexton.plans.plan import PlanRecord
    from sexton.runs.folder import LagCounts, ReplicaCounts, TransactionCounts

BROKER_REASONS: Mapping[str, str] = {
    "expired": "the retention has passed since its base timestamp",
    "expired_explicit": "the expire timestamp that the client set has passed",
    "not_due": "the retention has not passed yet",
    "subscribed": "the group is subscribed to the topic: kept while that lasts",
    "group_active": "the group has members and its subscription is unknown to the broker (Connect, for example)",
    "pending_transaction": "an open transaction has written this offset: kept until the transaction ends",
    "sweep_blocked": "when it is due, the broker's sweep of this log partition fails, so nothing expires there",
    "load_would_fail": "no coordinator holds it: the load of this log partition would fail or never end",
    "share_group": "share groups keep their state elsewhere: the coordinator never expires it here",
    "between_snapshots": "committed, or its group emptied, between two admin snapshots: it may be due or not",
    "overdue": "it should be gone and is there: a commit or a member that no admin snapshot saw, or a longer retention",
    "not_answered": "the coordinator did not answer about the group, or refused",
}

UNREACHABLE_REASONS: Mapping[str, str] = {
    "group_removed": "the group was removed after this offset was written: no fetch returns it and no sweep deletes it",
    "share_group": "its group is a share group, which answers no OffsetFetch and whose offsets no sweep deletes",
    "misplaced": "it is in a log partition that its group id does not hash to, so no client is routed there",
    "undetermined": "its group is in several log partitions: the number of log partitions decides which copy is read",
}

ORPHANS: Mapping[str, str] = {
    "topic_gone": "the topic did not exist when the cluster's topics were recorded",
    "topic_recreated": "the topic was deleted and created again: its id differs from the one at the commit",
    "partition_gone": "the topic has no such partition",
}

TOMBSTONE_CAUSES: Mapping[str, str] = {
    "broker_retention": "the broker's own retention",
    "group_empty": "the group has no members and nothing left to keep",
}

UNDECODABLE_REASONS: Mapping[str, str] = {
    "torn_segment": "the segment ends within a batch and another segment follows: it was truncated",
    "unread_record": "it comes after the first record of a control batch; coordinators up to 3.9 read only the first",
    "bad_crc": "the checksum of the batch is wrong (the broker does not check it when loading)",
    "zeros": "zeros at the end of a segment that another segment follows: the broker's load fails there",
    "out_of_order": "a batch that is duplicated or out of order (the broker replays it at its position)",
    "negative_end": "the last batch ends the log below log_offset 0: a broker deletes the log when it starts",
    "skipped_bytes": "the start of a batch that is longer than the segment: the broker continues with the next segment",
    "malformed_batch": "bytes that are not a record batch",
    "bad_codec": "the batch could not be decompressed",
    "inflated_too_large": "the batch decompresses to more than the limit",
    "malformed_record": "a record's lengths do not fit its batch",
    "malformed_control": "a transaction marker that cannot be read",
    "null_key": "a record without a key",
    "short_key": "a key too short to name its type",
    "malformed_key": "a key that does not fit its type",
    "malformed_value": "a value that does not fit its type and version",
    "unknown_value_version": "a value of a version that this release does not read",
    "malformed_subscription": "a member's subscription that cannot be read",
    "too_many_items": "a value with more items than Sexton decodes; a coordinator may load it",
}

FATES: Mapping[str, str] = {
    "live": "clients can fetch it",
    "superseded": "overwritten by a newer commit",
    "tombstoned": "deleted by a tombstone",
    "aborted": "its transaction was aborted",
    "pending": "its transaction is open",
    "cancelled": "its transaction is open, but a tombstone was written since",
    "unreachable": "in the log, but no client can fetch it",
    "undecodable": "could not be decoded",
}

GLOSSARY: Mapping[str, str] = {
    "as of": "The instant this report describes. Every number is what a coordinator would hold after reading the log "
    "up to that instant.",
    "log partition": "A partition of __consumer_offsets. All offsets of a group are in the one that its group id "
    "hashes to.",
    "live offset": "A committed offset that a client can fetch.",
    "pending offset": "An offset written in a transaction that neither committed nor aborted. Fetches that ask for "
    "stable offsets fail until it ends, and the broker does not expire the offset it would replace.",
    "unreachable offset": "An offset in the log that no client can fetch. It costs load time, and the broker never "
    "deletes it.",
    "expired": "The broker's next cleanup would delete it: its retention has passed and neither a subscription, nor "
    "members, nor an open transaction protects it.",
    "base timestamp": "When the retention starts: for an empty classic group when it became empty, in all other cases "
    "at the commit.",
    "tombstone": "A record with a key and no value: it deletes the key. The plan lists the tombstones that the "
    "broker's cleanup would write at this instant. Making a plan deletes nothing.",
    "garbage": "The share of records in a log partition that no longer count: overwritten, deleted or aborted. A "
    "coordinator reads them all again at each load, until compaction removes them.",
    "load would fail": "A coordinator that loads this log partition would stop with an error, and its groups would be "
    "unavailable. Nothing is planned for such a partition.",
    "undecodable record": "Bytes that could not be decoded. They are listed with position and reason, and nothing is "
    "planned for a log partition that has any.",
    "cut": "The log_offset where reading of a log partition stopped.",
    "orphan": "An offset whose topic or partition no longer existed when the cluster's topics were recorded, or whose "
    "topic had been deleted and created again.",
    "pinned": "An offset with a newer value in an open transaction: the broker keeps it until the transaction ends.",
    "hold": "An entry of the policy whose groups lose nothing to the policy. It stops Sexton, never the broker, whose "
    "own retention continues.",
}


OUTCOMES = {
    "not_coordinator": "answers NOT_COORDINATOR for its groups",
    "empty_cache": "serves an empty cache: consumers start again by auto.offset.reset",
    "prefix": "serves what it had read before the failure",
    "never_ends": "never finishes loading: every request is answered COORDINATOR_LOAD_IN_PROGRESS",
}


def cause_meaning(cause: str) -> str:
    """The meaning of a tombstone's cause."""
    return TOMBSTONE_CAUSES.get(cause, f"rule {cause.removeprefix('rule:')}" if cause.startswith("rule:") else cause)


KEEP_STATUS: Mapping[str, str] = {
    "kept": "the broker does not expire them before the second run from now",
    "due": "the broker expires them before the second run from now; `sexton keep` has its turn",
    "not_kept": "the broker expires them before the second run from now, and they could not be kept",
    "ended": "no longer kept: the time given in the hold has passed",
}


def until_text(kept_until_ms: int | None) -> str:
    """Until when a hold keeps an offset alive, in words; None and FOREVER_MS mean without an end."""
    from sexton.policy.field_types import FOREVER_MS

    return "without an end" if kept_until_ms in (None, FOREVER_MS) else f"until {instant(kept_until_ms)}"


def beyond_broker_sentence(plan: "PlanRecord") -> str:
    """How much a plan deletes that the broker would keep: the first line that an approver reads."""
    if plan.broker_retention_ms is None or plan.beyond is None:
        return (
            "The broker's retention was not recorded, so nobody knows how much of this the broker would keep. "
            f"The plan assumes {duration(plan.retention_ms)}; confirm it with the broker."
        )
    own = f"broker retention: {duration(plan.broker_retention_ms)}"
    if plan.beyond.offsets:
        taken = f"{some(plan.beyond.offsets, 'offset')} of {some(plan.beyond.groups, 'group')}"
        sentence = f"Deletes {taken} that the broker would keep ({own})."
    elif plan.is_what_if or plan.policy_sha256 is not None:
        sentence = f"Deletes 0 offsets that the broker would keep: it would delete all of these too ({own})."
    else:
        sentence = f"Deletes exactly what the broker would delete, 0 offsets more ({own})."
    return f"{sentence} {what_if_sentence(plan)}" if plan.is_what_if else sentence


def what_if_sentence(plan: "PlanRecord") -> str:
    """Why a plan with another retention than the broker's is not applied."""
    return f"This is a what-if with a retention of {duration(plan.retention_ms)}: it is never applied."


def replicas_text(found: "ReplicaCounts") -> str:
    """The result of the newest audit of replicas, and the replicas that must not lead."""
    compared = f"{some(sum(found.statuses.values()), 'replica')} of {some(found.log_partitions, 'log partition')}"
    start = f"Audit of replicas, {instant(found.as_of_ms)}, {compared}"
    left_out = found.statuses.get("corrupt", 0) + found.statuses.get("empty", 0)
    notes = [f"{some(left_out, 'replica')} not compared"] if left_out else []
    if found.behind:
        notes.append(f"{count(found.behind)} more would differ only after an unclean election")
    further = "".join(f"; {note}" for note in notes)
    if not found.kinds:
        return f"{start}: any of them may lead{further}."
    kinds = ", ".join(f"{kind} {count(number)}" for kind, number in found.kinds.items())
    wrong = ", ".join(f"{replica} (serves {count(number)} wrongly)" for replica, number in found.wrong.items())
    return f"{start}: {some(sum(found.kinds.values()), 'difference')} ({kinds}). Must not lead: {wrong}{further}."


def transactions_text(found: "TransactionCounts") -> str:
    """The result of the newest audit of transactions, and the hanging ones."""
    held = some(sum(found.verdicts.values()), "open transaction")
    others = ", ".join(f"{name} {count(number)}" for name, number in found.verdicts.items() if name != "hanging")
    overdue = f"; {count(found.overdue)} should have ended by now" if found.overdue else ""
    start = f"Audit of transactions, {instant(found.as_of_ms)}: {held}"
    if not found.hanging:
        return f"{start}{f' ({others})' if others else ''}, none hangs{overdue}."
    since = "" if found.hanging_since_ms is None else f", the oldest since {instant(found.hanging_since_ms)}"
    groups = f"{some(found.hanging_offsets, 'offset')} of {some(found.hanging_groups, 'group')}"
    verb = "hangs and holds" if found.hanging == 1 else "hang and hold"
    rest = f" (and {others})" if others else ""
    return f"{start}, {count(found.hanging)} {verb} {groups}{since}{rest}{overdue}. Only an operator ends what hangs."


def lag_text(found: "LagCounts") -> str:
    """The result of the newest audit of lag: the largest lag, what is lost, what would reset."""
    late = f"the largest lag is at least {duration(found.longest_ms)}" if found.longest_ms else "none lags for certain"
    notes = [f"Audit of lag, {instant(found.as_of_ms)}: {some(found.offsets, 'offset')}, {late}"]
    if found.losing:
        verb = "loses" if found.losing == 1 else "lose"
        groups = some(found.losing_groups, "group")
        notes.append(f"{some(found.losing, 'offset')} of {groups} {verb} unread messages within a day")
    if found.resets:
        reasons = ", ".join(f"{reason} {count(number)}" for reason, number in found.resets.items())
        notes.append(f"{count(sum(found.resets.values()))} would not continue ({reasons})")
    return f"{'; '.join(notes)}."


def sweep_block_text(block: "SweepBlock") -> str:
    """Why nothing in a log partition expires; for a failing sweep also since when, for which group, and what to do."""
    if block.group_id is None:
        return (
            "A coordinator's load of this log partition would fail or never end: no coordinator has what is on the "
            "disk, and nothing in it expires."
        )
    since = "" if block.from_ms is None else f" from {instant(block.from_ms)} on"
    return (
        f"The broker's sweep of this log partition fails{since}, so nothing in it expires. The cause is "
        f"group {short(block.group_id)}; what to do: docs/operations.md, A log partition in which nothing expires."
    )
