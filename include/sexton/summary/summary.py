"""`Summary`: the result of a run, small enough to read, mail and keep; written as DIR/summary.json.

`summarize` counts it from the tables of a run folder. Names are as in the tables: whoever shows them makes them safe
(report.names). report.run_page (HTML) and report.terminal show a summary.
"""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from sexton.as_text import some
from sexton.runs.folder import LagCounts, LostGroups, ReplicaCounts, TransactionCounts

Row = TypeVar("Row", bound=BaseModel)


class SummaryPart(BaseModel):
    """Base of all parts: frozen; ignores unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TopRows(SummaryPart, Generic[Row]):
    """The first rows of a list of `total` rows."""

    rows: list[Row]
    total: int

    @property
    def hidden(self) -> int:
        return self.total - len(self.rows)


class RunInfo(SummaryPart):
    """The part of run.json that a reader of the report needs. `cuts`: log partition -> log_offset."""

    run_id: str
    cluster_id: str
    topic_id: str
    as_of_ms: int
    taken_at_ms: int
    profile: str
    profile_source: str
    retention_ms: int
    retention_source: str
    source: str
    partition_count: int | None
    log_partitions: list[int]
    missing_log_partitions: list[int]
    cuts: dict[int, int]
    coverage: str
    coverage_reason: str = ""
    knows_places: bool = Field(description="whether the log was read, so that the log position of each row is known")
    plan_id: str | None
    code_version: str


class GroupCount(SummaryPart):
    """Groups of one type in one state, and their committed offsets."""

    group_type: str
    state: str
    groups: int
    offsets: int


class OffsetCounts(SummaryPart):
    """Live, pending and unreachable offsets; `unreachable` by reason."""

    live: int
    pending: int
    unreachable: dict[str, int]


class Bucket(SummaryPart):
    """Live offsets that expire after the previous bucket and at most `up_to_ms` after as_of (None: later)."""

    label: str
    up_to_ms: int | None
    offsets: int


class Timeline(SummaryPart):
    """Live offsets by expiry: bar i is the span of `bin_ms` that starts i spans after as_of.

    `due` offsets are in no bar; `later` ones expire after the last bar.
    """

    bin_ms: int
    offsets: list[int]
    due: int
    later: int


class Expiring(SummaryPart):
    """Each verdict is counted once: in a bucket, in `never` (reason -> offsets) without an expiry date at as_of, or in
    `unknown` (reason -> offsets) if admin snapshots do not decide. With them, a date is the latest possible one.

    There are verdicts on live offsets, and on offsets of misplaced groups that the broker would sweep.
    """

    buckets: list[Bucket]
    never: dict[str, int]
    due_by_reason: dict[str, int]
    unknown: dict[str, int] = {}
    timeline: Timeline


class TombstoneCount(SummaryPart):
    """Planned tombstones of one cause and record type."""

    cause: str
    record_type: int
    record_name: str
    tombstones: int


class GroupLine(SummaryPart):
    """One group; `due` offsets expire at the broker's next sweep, the first other offset at `next_expiry_ms`."""

    group_id: str
    log_partition: int
    group_type: str
    state: str
    members: int
    offsets: int
    pending: int
    due: int
    next_expiry_ms: int | None


class TransactionLine(SummaryPart):
    """A producer with pending offsets; `age_ms` is the age at as_of, None if its first record has no timestamp."""

    producer_id: int
    producer_epoch: int
    log_partition: int
    first_log_offset: int
    age_ms: int | None
    pending_offsets: int
    group_ids: list[str]
    group_count: int


class UndecodableRow(SummaryPart):
    """Bytes that could not be decoded, by position."""

    log_partition: int
    base_offset: int | None
    log_offset: int | None
    record_type: int | None
    reason: str
    detail: str


class LogPartition(SummaryPart):
    """The load of one log partition; `garbage_share` is the fraction of records that are not live."""

    log_partition: int
    bytes: int
    records: int
    live_records: int
    garbage_share: float | None
    largest_batch_bytes: int
    first_log_offset: int | None
    next_log_offset: int | None
    skew: float | None
    hot_groups: list[str]
    hottest_group_share: float | None
    misplaced_groups: int | None
    first_unstable_log_offset: int | None
    predicted_load_ms: int | None
    undecodable: int
    load_would_fail: bool
    load_failure: str | None
    load_outcome: str
    sweep_blocked_by: str | None
    sweep_blocked_from_ms: int | None
    blocked: str | None


class CheckResult(SummaryPart):
    """One expectation of the data-quality checks."""

    table: str
    expectation: str
    severity: str
    success: bool
    observed: str | None
    failing_rows: list[str] | None = None
    """Up to 20 of the rows that fail the expectation, as JSON."""


class TopicCount(SummaryPart):
    """Offsets of one topic that are orphans of one kind."""

    topic: str
    offsets: int
    kind: str = "topic_gone"


class Findings(SummaryPart):
    """Counts of offsets with a finding; `pinned_due` would be due without the open transaction.

    Without `sees_all_topics` it is unknown whether a topic is gone.
    """

    pinned: int = 0
    pinned_due: int = 0
    left_topic: int = 0
    behind_log_start: int = 0
    beyond_log_end: int = 0
    orphans_by_kind: dict[str, int] = {}
    sees_all_topics: bool | None = None


class OwnerOutcome(SummaryPart):
    """The groups of the holds and rules of one owner, and their offsets by verdict."""

    owner: str
    groups: int
    expire: int
    keep: int
    hold: int


class EntryOutcome(OwnerOutcome):
    """The groups of one hold or rule, and their offsets by its verdict."""

    name: str
    is_hold: bool
    reason: str
    ticket: str | None


class HoldOutcome(SummaryPart):
    """Offsets with one status under a hold with `keep`, and why they were not kept.

    `commits` and `joins` count the offsets that a commit or join by Sexton keeps now. The hold keeps offsets until
    `until_ms` at the latest (None: without an end). The broker expires the first one at `expires_at_ms`. The last
    attempt to keep them was at `last_ms`.
    """

    hold: str
    status: str
    why: str | None
    groups: int
    offsets: int
    commits: int
    joins: int
    until_ms: int | None
    expires_at_ms: int | None
    last_ms: int | None


class PolicyOutcome(SummaryPart):
    """The policy's verdicts on all offsets; `unmatched` are kept because no rule matches them."""

    sha256: str
    expire: int
    keep: int
    hold: int
    unmatched: int
    entries: TopRows[EntryOutcome]
    owners: TopRows[OwnerOutcome]
    kept: TopRows[HoldOutcome]


class Summary(SummaryPart):
    """The result of a run. `exit_code` is that of the command line, `exit_reason` its reason as a sentence.

    `fates` counts the offset values that were read, by fate.
    """

    exit_code: int
    exit_reason: str
    run: RunInfo
    group_count: int
    groups: list[GroupCount]
    offsets: OffsetCounts
    expiring: Expiring
    tombstone_count: int
    tombstones: list[TombstoneCount]
    biggest_groups: TopRows[GroupLine]
    losing_groups: TopRows[GroupLine]
    open_transactions: TopRows[TransactionLine]
    pinned_groups: int
    undecodable: TopRows[UndecodableRow]
    undecodable_by_reason: dict[str, int]
    log_partitions: list[LogPartition]
    fates: dict[str, int]
    checks: list[CheckResult]
    orphans: TopRows[TopicCount] | None
    orphan_offsets: int
    warnings: list[str]
    oddities: Findings = Findings()
    policy: PolicyOutcome | None = None
    lost: LostGroups | None = None
    replicas: ReplicaCounts | None = None
    """Counts of the newest audit of replicas, which the run itself does not read; None without a lake or audit."""
    transactions: TransactionCounts | None = None
    """Counts of the newest audit of transactions: a run alone does not know which open transactions will end."""
    lag: LagCounts | None = None
    """Counts of the newest audit of lag, for a run before this one."""

    @property
    def due(self) -> int:
        """Live offsets that the broker's next sweep would delete."""
        return self.expiring.timeline.due

    @property
    def failed_checks(self) -> list[CheckResult]:
        return [check for check in self.checks if not check.success]


def outcome(*, undecodable: int, checks: int, failed_critical: int, unloadable: int = 0) -> tuple[int, str]:
    """The exit code of a finished run and its reason; 5 takes precedence over 3."""
    rest = f"; {some(failed_critical, 'critical check')} failed too" if failed_critical else ""
    if undecodable:
        note = "everything else was written; nothing is planned for the affected log partitions"
        return 5, f"{some(undecodable, 'undecodable record')}: {note}{rest}"
    if unloadable:
        note = "no coordinator of this release can load it; everything else was written; nothing is planned for it"
        return 5, f"{some(unloadable, 'log partition')} whose load would fail or never end: {note}{rest}"
    if failed_critical:
        return 3, f"{some(failed_critical, 'critical data-quality check')} failed"
    if not checks:
        return 3, "no data-quality check was run"
    return 0, "all input was read and every critical check passed"
