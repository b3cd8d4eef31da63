"""A plan: plan.json (PlanRecord), the columns of its two tables, and the plan as it is read (Plan).

write_plan writes the files, read_plan reads and checks them, plan_content computes what is in them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from sexton.log.entry import CodecName
from sexton.plans.basis import Basis, basis_of
from sexton.tables import TABLES

FOLDER = "plan"
MANIFEST = "plan.json"
TOMBSTONES_FOLDER, UNDO_FOLDER, BATCHES_FOLDER, PAGE_FILE = "tombstones", "undo", "batches", "plan.html"
"""The folders have one file per log partition with planned rows."""


def columns_of(table: str, names: Iterable[str]) -> pa.Schema:
    """Some columns of a table, as declared."""
    return pa.schema([TABLES[table].column(name).field for name in names])


# Listed here, although the tables are declared elsewhere: plans of this format must stay readable.
_RECORD = ("log_partition", "position", "record_type", "group_id", "topic", "partition", "member_id")
_TARGET = ("target_log_offset", "target_committed_offset", "target_log_partition")
TOMBSTONES = columns_of("tombstones", ("plan_id", *_RECORD, "regular_expression", "key", "cause", *_TARGET))
"""Columns of planned records, as in the table `tombstones`. Rows are in order of log_partition and position."""
WRITTEN_TOMBSTONES = TOMBSTONES.remove(TOMBSTONES.get_field_index("plan_id"))
"""Columns of tombstones/<N>.parquet: without plan_id, which is the same in every row and only known at the end."""

_VALUE = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp_ms", "expire_timestamp_ms", "topic_id")
UNDO = columns_of("committed_offsets", ("group_id", "topic", "partition", *_VALUE, "log_partition", "log_offset"))
"""Columns of undo/<N>.parquet, as in the table `committed_offsets`: the value that each offset tombstone removes.

Rows are in the order of the tombstones. `log_partition` and `log_offset` are the log position of the value.
"""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Losses(_Part):
    """The deletions for one cause: `offsets` committed offsets of `groups` groups, and the groups deleted entirely
    (`deleted_groups`).

    A deleted group counts for the cause of its last offset tombstone, if it has one. `owner`, `reason` and `ticket`
    come from the rule; None if the cause is not a rule.
    """

    cause: str
    owner: str | None = None
    reason: str | None = None
    ticket: str | None = None
    offsets: Count
    groups: Count
    deleted_groups: Count


class PlannedBatches(_Part):
    """The record batches of one log partition, as a coordinator would write them."""

    log_partition: Count
    tombstones: Count
    batches: Count
    size_bytes: Count
    largest_batch_bytes: Count


class PlanSnapshot(_Part):
    """The admin snapshot behind a plan: when it began, and the SHA-256 of each of its files."""

    taken_at_ms: int
    sha256: dict[str, Sha256]


class Beyond(_Part):
    """Committed offsets that a plan removes although the broker would keep them at that instant, and their groups."""

    offsets: Count
    groups: Count


class PlanRecord(_Part):
    """plan.json: cluster, instant and rules of a plan, its counts, and the SHA-256 of each of its files.

    `counts` has `tombstones`, of which `offsets` remove an offset and `group_records` do not; groups_losing,
    groups_deleted, groups_total (a group counts in every log partition that has it); held_expiring (offsets under a
    hold that the broker removes before the hold ends).

    A plan with `over_limits` is never applied, nor is a plan that uses another retention than the broker's. `codec` and
    `record_format` (magic) describe the batches. `max_message_bytes` and `broker_retention_ms` are from the snapshot,
    None if it did not record them; without the retention `beyond` is None as well. A plan's age counts from `as_of_ms`.
    `coverage` is the run's; with `admin` the plan names its `admin_snapshot`, and only removes committed offsets.
    """

    format: Literal[2] = 2
    plan_id: Sha256
    cluster_id: str
    topic_id: str
    as_of_ms: int
    coverage: str = "complete"
    admin_snapshot: PlanSnapshot | None = None
    cuts: dict[int, int]
    profile: str
    retention_ms: int
    broker_retention_ms: int | None = None
    policy_sha256: str | None
    code_version: str
    counts: dict[str, int]
    beyond: Beyond | None = None
    losses: list[Losses]
    batches: list[PlannedBatches]
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
    def basis(self) -> Basis:
        return basis_of({"coverage": self.coverage})

    @property
    def is_what_if(self) -> bool:
        """Whether it uses another retention than the recorded retention of the broker."""
        return self.broker_retention_ms not in (None, self.retention_ms)

    def to_json(self) -> bytes:
        return (self.model_dump_json(indent=1) + "\n").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that was read and checked. `tombstones` and `undo` have the columns TOMBSTONES and UNDO."""

    record: PlanRecord
    sha256: str
    folder: str
    tombstones: pa.Table
    undo: pa.Table
