"""What each code in the tables means, in plain words: one place for the page, the terminal and the glossary."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sexton.report.figures import duration, instant, some
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.expiry import SweepBlock
    from sexton.plans.plan import PlanRecord

BROKER_REASONS: Mapping[str, str] = {
    "expired": "the retention has passed since its base timestamp",
    "expired_explicit": "the expire timestamp that the client set has passed",
    "not_due": "its time has not come",
    "subscribed": "the group is subscribed to the topic: kept as long as that lasts",
    "group_active": "the group has members and its subscription is unknown to the broker (Connect, for example)",
    "pending_transaction": "an open transaction has written this very offset: kept until it ends",
    "sweep_blocked": "when it is due, the broker's sweep of this log partition fails: nothing expires there",
    "share_group": "share groups keep their state elsewhere: the coordinator never expires it here",
}

UNREACHABLE_REASONS: Mapping[str, str] = {
    "group_removed": "the group was removed after this offset was written: no fetch finds it, no sweep cleans it up",
    "share_group": "its group is a share group, which answers no OffsetFetch and whose offsets no sweep cleans up",
    "stray": "it lies in a log partition that its group id does not hash to: no client is ever routed there",
}

ORPHANS: Mapping[str, str] = {
    "topic_gone": "the topic did not exist when the cluster's topics were recorded",
    "topic_recreated": "the topic has another id than when it was committed: a new one of the same name",
    "partition_gone": "the topic has no such partition",
}

CAUSES: Mapping[str, str] = {
    "broker_retention": "the broker's own retention",
    "group_empty": "the group has no members and nothing left to keep",
}

UNDECODABLE_REASONS: Mapping[str, str] = {
    "torn_segment": "the segment ends within a batch and another one follows: it was cut",
    "unread_record": "it lies behind the first record of a control batch, which coordinators up to 3.9 do not read",
    "bad_crc": "the checksum of the batch is wrong (the broker does not check it when loading)",
    "zeros": "zeros at the end of a segment that another one follows: the broker's load fails there",
    "out_of_order": "a batch that is doubled or out of order with its neighbours (the broker replays it where it lies)",
    "skipped_bytes": "bytes that seem to begin a batch longer than the segment: the broker goes on with the next one",
    "malformed_batch": "bytes that are no record batch",
    "bad_codec": "the batch could not be decompressed",
    "inflated_too_large": "the batch inflates beyond the cap",
    "malformed_record": "a record's lengths do not fit its batch",
    "malformed_control": "a transaction marker that cannot be read",
    "null_key": "a record without a key",
    "short_key": "a key too short to name its type",
    "malformed_key": "a key that does not fit its type",
    "malformed_value": "a value that does not fit its type and version",
    "unknown_value_version": "a value of a version that no known Kafka writes",
    "malformed_subscription": "a member's subscription that cannot be read",
    "too_many_items": "a value of more items than are decoded, which a coordinator may well load",
}

FATES: Mapping[str, str] = {
    "live": "clients can fetch it",
    "superseded": "overwritten by a newer commit",
    "tombstoned": "deleted by a tombstone",
    "aborted": "its transaction was aborted",
    "pending": "its transaction is open",
    "cancelled": "its transaction is open, but a tombstone came",
    "unreachable": "in the log, but no client can fetch it",
    "undecodable": "could not be decoded",
}

GLOSSARY: Mapping[str, str] = {
    "as of": (
        "The instant this report describes. Every number is what a coordinator would hold after reading the "
        "log up to there; nothing that happened later is in it."
    ),
    "log partition": (
        "A partition of __consumer_offsets. A group's offsets all live in one, chosen by hashing the group id."
    ),
    "live offset": ("A committed offset that a client can fetch."),
    "pending offset": (
        "An offset written in a transaction that neither committed nor aborted. Fetches that ask for stable "
        "offsets fail until it ends, and the broker does not expire the offset it would replace."
    ),
    "unreachable offset": (
        "An offset that is in the log but that no client can fetch. It costs load time and is never cleaned "
        "up by the broker."
    ),
    "expired": (
        "The broker's next cleanup would delete it: its retention has passed and neither a subscription, nor "
        "members, nor an open transaction protects it."
    ),
    "base timestamp": (
        "When the retention starts to count: for an empty classic group the moment it became empty, otherwise "
        "the commit itself."
    ),
    "tombstone": (
        "A record with a key and no value, which deletes. The plan is the list of tombstones that the "
        "broker's cleanup would write at this instant; writing the plan down deletes nothing."
    ),
    "garbage": (
        "The share of records in a log partition that no longer count: overwritten, deleted or aborted. A "
        "coordinator reads them all again at each load, until compaction removes them."
    ),
    "load would fail": (
        "A coordinator that loads this log partition would stop with an error, and its groups would be "
        "unavailable. Nothing is planned for such a partition."
    ),
    "undecodable record": (
        "Bytes that could not be understood. They are listed with their place and reason, and nothing is "
        "planned for a log partition that has one."
    ),
    "cut": ("The log_offset where reading of a log partition stopped."),
    "orphan": (
        "An offset about nothing that the cluster still has: its topic was gone, another one of the same name, or had "
        "no such partition when the cluster's topics were recorded."
    ),
    "pinned": "An offset of which an open transaction holds a newer value: the broker keeps it until that ends.",
    "hold": (
        "An entry of the policy that nothing may be taken from. It stops this tool, never the broker, whose own "
        "retention goes on."
    ),
}


OUTCOMES = {
    "not_coordinator": "answers NOT_COORDINATOR for its groups",
    "empty_cache": "serves an empty cache: consumers start over",
    "prefix": "serves what it had read before",
    "never_ends": "loads for ever: every question is answered COORDINATOR_LOAD_IN_PROGRESS",
}


def cause_meaning(cause: str) -> str:
    """A tombstone's cause; `rule:<name>` speaks for itself."""
    return CAUSES.get(cause, f"rule {cause.removeprefix('rule:')}" if cause.startswith("rule:") else cause)


def beyond_broker_sentence(plan: "PlanRecord") -> str:
    """By how much a plan goes beyond what the broker itself would remove: the first line that an approver reads."""
    if plan.broker_retention_ms is None or plan.beyond is None:
        return (
            "Nothing tells by how much this goes beyond what the broker would remove: its own retention was not "
            f"recorded. The plan was made by {duration(plan.retention_ms)}, which the broker has to confirm."
        )
    own = f"its own retention is {duration(plan.broker_retention_ms)}"
    if plan.beyond.offsets:
        taken = f"{some(plan.beyond.offsets, 'offset')} of {some(plan.beyond.groups, 'group')}"
        told = f"Goes beyond the broker by {taken} that it would keep ({own})."
    elif plan.is_what_if or plan.policy_sha256 is not None:
        told = f"Goes beyond the broker by 0 offsets: it would remove all of these itself ({own})."
    else:
        told = f"Exactly what the broker would remove itself, 0 offsets beyond it ({own})."
    return f"{told} {what_if_sentence(plan)}" if plan.is_what_if else told


def what_if_sentence(plan: "PlanRecord") -> str:
    """Why a plan by another retention than the broker's is not applied."""
    return f"It is a what-if by a retention of {duration(plan.retention_ms)}: it is never applied."


def sweep_block_text(block: "SweepBlock") -> str:
    """That the sweep of a log partition fails, from when on, for which group, and where to read what to do."""
    since = "" if block.from_ms is None else f" from {instant(block.from_ms)} on"
    return (
        f"The broker's sweep of this log partition fails{since}, and nothing in it expires then. The cause is "
        f"group {short(block.group_id)}; what to do: docs/operations.md, A log partition in which nothing expires."
    )
