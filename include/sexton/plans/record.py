"""What a plan says of itself (plan.json), the columns of its two tables, and the plan as it is read.

Where the files are and how they are read is in files.py; what a plan holds in content.py.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from sexton.log.entry import CodecName
from sexton.tables import TABLES

MANIFEST = "plan.json"
TOMBSTONES_FILE, UNDO_FILE, PAGE_FILE = "tombstones.parquet", "undo.parquet", "plan.html"

# Spelled out, though the tables are declared elsewhere: what was kept years ago must still be read.
TOMBSTONES = pa.schema(
    [
        TABLES["tombstones"].column(name).field
        for name in (
            "plan_id",
            "log_partition",
            "position",
            "record_type",
            "group_id",
            "topic",
            "partition",
            "member_id",
            "regular_expression",
            "key",
            "cause",
            "target_log_offset",
            "target_committed_offset",
            "target_log_partition",
        )
    ]
)
"""Columns of tombstones.parquet: those of the table, by log_partition and position."""

UNDO = pa.schema(
    [
        TABLES["committed_offsets"].column(name).field
        for name in (
            "group_id",
            "topic",
            "partition",
            "committed_offset",
            "leader_epoch",
            "metadata",
            "commit_timestamp_ms",
            "expire_timestamp_ms",
            "topic_id",
            "log_partition",
            "log_offset",
        )
    ]
)
"""Columns of undo.parquet: the value that each offset tombstone removes, in the order of the tombstones.

`log_partition` and `log_offset` are where the value was read; NULL means what it means in committed_offsets.
"""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Losses(_Part):
    """What goes for one cause: `offsets` committed offsets of `groups` groups, and the groups that go as a whole.

    `owner`, `reason` and `ticket` are the rule's, None where no rule is the cause. `deleted_groups` are those whose
    last offset goes for this cause, or that have none and go for it.
    """

    cause: str
    owner: str | None = None
    reason: str | None = None
    ticket: str | None = None
    offsets: Count
    groups: Count
    deleted_groups: Count


class Batches(_Part):
    """The record batches of one log partition, as a coordinator would write them."""

    log_partition: Count
    tombstones: Count
    batches: Count
    size_bytes: Count
    largest_batch_bytes: Count


class Beyond(_Part):
    """What a plan takes that the broker would keep at that instant: committed offsets, and the groups they are of."""

    offsets: Count
    groups: Count


class PlanRecord(_Part):
    """plan.json: what a plan is of, by which rules, and the SHA-256 of each of its files.

    `counts` are tombstones, offsets (of them), group_records (the others), groups_losing, groups_deleted, groups_total,
    held_expiring (offsets under a hold that the broker takes before it ends). `max_message_bytes` is None where nobody
    told the topic's. A plan with `over_limits` is never applied, nor is one by another retention than the broker's own.
    `codec` and `record_format` (magic) are those of the batches: the broker's own, as they were recorded with the
    snapshot, else Kafka's defaults; a plan of an early release has no codec, and None for the newest format.
    `broker_retention_ms` is that as it was recorded with the snapshot, None where nothing recorded it; then `beyond` is
    None as well. A plan's age counts from `as_of_ms`.
    """

    format: Literal[1] = 1
    plan_id: Sha256
    cluster_id: str
    topic_id: str
    as_of_ms: int
    cuts: dict[int, int]
    profile: str
    retention_ms: int
    broker_retention_ms: int | None = None
    policy_sha256: str | None
    code_version: str
    counts: dict[str, int]
    beyond: Beyond | None = None
    losses: list[Losses]
    batches: list[Batches]
    largest_batch_bytes: Count
    max_message_bytes: int | None
    codec: CodecName = "none"
    record_format: Annotated[int, Field(ge=0, le=2)] | None = None
    over_limits: list[str]
    warnings: list[str]
    files: dict[str, Sha256]

    @property
    def is_empty(self) -> bool:
        return self.counts["tombstones"] == 0

    @property
    def is_what_if(self) -> bool:
        """Whether it was made by another retention than the one that was recorded of the broker."""
        return self.broker_retention_ms not in (None, self.retention_ms)

    def to_json(self) -> bytes:
        return (self.model_dump_json(indent=1) + "\n").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that was read and found whole. `tombstones` and `undo` have the columns TOMBSTONES and UNDO."""

    record: PlanRecord
    sha256: str
    folder: str
    tombstones: pa.Table
    undo: pa.Table
