"""`Summary`: what one run found, small enough to read, mail and keep; written as DIR/summary.json.

It is counted from the Parquet tables of a run folder with pyarrow, so that millions of offsets never become Python
objects; only lists that are cut to `TOP` rows do. Names stand here as they are in the tables: whoever shows them makes
them safe (see `names`). How a summary looks is not here: see `run_page` (HTML) and `terminal`.
"""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from sexton.report.figures import some

TOP = 20
"""Rows kept of every list of which only the first matter."""

Row = TypeVar("Row", bound=BaseModel)


class SummaryPart(BaseModel):
    """Base of everything in a summary: frozen, and forgiving towards fields of later releases."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TopRows(SummaryPart, Generic[Row]):
    """The first rows of a longer list; `total` says how long."""

    rows: list[Row]
    total: int

    @property
    def hidden(self) -> int:
        return self.total - len(self.rows)


class RunInfo(SummaryPart):
    """What was run: the part of run.json that a reader of the report needs. `cuts`: log partition -> log_offset."""

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
    plan_id: str | None
    code_version: str


class GroupCount(SummaryPart):
    """Groups of one type in one state, and their committed offsets."""

    group_type: str
    state: str
    groups: int
    offsets: int


class OffsetCounts(SummaryPart):
    """Offsets by what became of them; `unreachable` by reason."""

    live: int
    pending: int
    unreachable: dict[str, int]


class Bucket(SummaryPart):
    """Live offsets that expire after the bucket before and no later than `up_to_ms` after as_of (None: later)."""

    label: str
    up_to_ms: int | None
    offsets: int


class Timeline(SummaryPart):
    """Live offsets by when they expire: bar i holds the span of `bin_ms` that begins i spans after as_of.

    What is due already is in none of the bars, what expires after the last one is in `later`.
    """

    bin_ms: int
    offsets: list[int]
    due: int
    later: int


class Expiring(SummaryPart):
    """Every verdict once: in one of the buckets, or among `never` (reason -> offsets) as things stand at as_of.

    Verdicts speak of live offsets, and of stray copies that the broker would sweep too.
    """

    buckets: list[Bucket]
    never: dict[str, int]
    due_by_reason: dict[str, int]
    timeline: Timeline


class TombstoneCount(SummaryPart):
    """Planned tombstones of one cause and record type."""

    cause: str
    record_type: int
    record_name: str
    tombstones: int


class GroupLine(SummaryPart):
    """One group; `due` offsets would go at the next cleanup, `next_expiry_ms` is when the first of the others goes."""

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
    """A producer with pending offsets; `age_ms` at as_of, None when its first record has no timestamp."""

    producer_id: int
    producer_epoch: int
    log_partition: int
    first_log_offset: int
    age_ms: int | None
    pending_offsets: int
    group_ids: list[str]
    group_count: int


class UndecodableRow(SummaryPart):
    """Bytes that could not be decoded, by place."""

    log_partition: int
    base_offset: int | None
    log_offset: int | None
    record_type: int | None
    reason: str
    detail: str


class LogPartition(SummaryPart):
    """What loading one log partition costs; `garbage_share` is the fraction of records that no longer count."""

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
    stray_groups: int | None
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


class TopicCount(SummaryPart):
    """Offsets of one topic that are orphans of one kind."""

    topic: str
    offsets: int
    kind: str = "topic_gone"


class Findings(SummaryPart):
    """How many offsets hang on an open transaction (`pinned_due`: would be due but for it), and what else is odd.

    Without `sees_all_topics` nobody can tell that a topic is gone.
    """

    pinned: int = 0
    pinned_due: int = 0
    left_topic: int = 0
    behind_log_start: int = 0
    orphans_by_kind: dict[str, int] = {}
    sees_all_topics: bool | None = None


class EntryOutcome(SummaryPart):
    """What one hold or rule decides: groups it decides about, and their offsets by its verdict."""

    name: str
    is_hold: bool
    owner: str
    reason: str
    ticket: str | None
    groups: int
    expire: int
    keep: int
    hold: int


class OwnerOutcome(SummaryPart):
    """The same of all that one owner answers for."""

    owner: str
    groups: int
    expire: int
    keep: int
    hold: int


class PolicyOutcome(SummaryPart):
    """What the policy makes of all offsets; `unmatched` are those that no rule speaks of, among the kept."""

    sha256: str
    expire: int
    keep: int
    hold: int
    unmatched: int
    entries: TopRows[EntryOutcome]
    owners: TopRows[OwnerOutcome]


class Summary(SummaryPart):
    """What one run found. `exit_code` is what the command line ends with, `exit_reason` says why in a sentence.

    `fates` counts the offset values that were read by what became of each.
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

    @property
    def due(self) -> int:
        """Live offsets that the next cleanup would delete."""
        return self.expiring.timeline.due

    @property
    def failed_checks(self) -> list[CheckResult]:
        return [check for check in self.checks if not check.success]


def outcome(*, undecodable: int, checks: int, failed_critical: int, endless: int = 0) -> tuple[int, str]:
    """The exit code of a run that came to its end, and why; of several reasons the first of 5, 3 decides."""
    if undecodable:
        rest = f"; {some(failed_critical, 'critical check')} failed too" if failed_critical else ""
        told = "everything else was written; nothing is planned for the affected log partitions"
        return 5, f"{some(undecodable, 'undecodable record')}: {told}{rest}"
    if endless:
        rest = f"; {some(failed_critical, 'critical check')} failed too" if failed_critical else ""
        told = "no coordinator of this release can load it; everything else was written; nothing is planned for it"
        return 5, f"{some(endless, 'log partition')} whose load never ends: {told}{rest}"
    if failed_critical:
        return 3, f"{some(failed_critical, 'critical data-quality check')} failed"
    if not checks:
        return 3, "no data-quality check was run"
    return 0, "all input was read and every critical check passed"
