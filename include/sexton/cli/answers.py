"""What each command prints with --json: the declarations behind `--json-schema` and docs/json.md.

Only what prints schemas imports this module, because it imports everything that the commands import when they run. A
field that is a column of a table has the column's name.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field

from sexton.analysis.forecast_result import Horizon, OffsetForecast
from sexton.analysis.what_if import ComparedGroup, ComparedOffset, ComparedRule
from sexton.archive.inventory import ClusterInventory
from sexton.archive.time_points import OffsetLookup
from sexton.archive.verify import Verified
from sexton.cli.groups_coordinator import PENDING_FIELDS
from sexton.cli.json_schema import ABSENT, Answer, Row
from sexton.cli.show import RUN_FIELDS
from sexton.coordinator.api.abandonment import AbandonmentStep
from sexton.coordinator.api.console import MemberRow, OffsetRow
from sexton.coordinator.api.fetch import FetchedOffset
from sexton.coordinator.api.find_coordinator import FoundCoordinator
from sexton.coordinator.api.view import LoadedGroup
from sexton.coordinator.expiry import SweepBlock
from sexton.doctor import Check
from sexton.execution.delete.summary import ApplySummary
from sexton.execution.restore.restore_plan import OffsetValue, RestoreRow
from sexton.execution.standing_approval import Terms
from sexton.execution.windows import Windows
from sexton.history.events import Event, NextVerdict
from sexton.incident.callers import Who
from sexton.incident.document import Incident
from sexton.kafka.group_state import GroupListing
from sexton.kafka.replicas import ReplicaProbe
from sexton.lag.measure_lag import OF_AUDITS
from sexton.ledger.entries import Value
from sexton.pipeline.build_history import History
from sexton.pipeline.import_log import Imported
from sexton.pipeline.snapshot_log import TakenSnapshot
from sexton.plans.plan import Beyond, PlanRecord
from sexton.policy.diagnostics import Diagnostic
from sexton.policy.inputs import GroupInput, OffsetInput, RuleTrace
from sexton.policy.limits import Limits
from sexton.policy.testing import PolicyTestResult
from sexton.rehearsal.answers import GroupAnswers, OffsetChange
from sexton.rehearsal.faults import Fault
from sexton.rehearsal.features import RefusedLevel
from sexton.rehearsal.readiness import Readiness
from sexton.rehearsal.rehearse import Loads, Written
from sexton.rehearsal.way_back import UnreadableRecords
from sexton.replicas.copy import ReplicaCopy
from sexton.summary.summary import Summary
from sexton.tables import REPLICA_DIFFERENCES, REPLICA_STATE, TABLES, TIME_LAG, TRANSACTIONAL_IDS, TRANSACTIONS
from sexton.transactions.ids import Family, IdForecast

Fields = dict[str, Any]
Change = Literal["appeared", "changed", "disappeared"]


def _of(model: type[Answer]) -> Fields:
    """The fields of a model, with their meanings, for a Row."""
    return {name: Annotated[own.annotation, own] for name, own in model.model_fields.items()}


class Failure(Answer):
    """The last line on stderr of a command that failed. A failed check, a refusal and the like are answers, with an
    exit code of their own; then there is no such line."""

    error: str
    """What happened."""
    where: str | None
    """The file, option, group or broker concerned."""
    fix: str | None
    """What to do."""
    exit_code: int


class ProgressLine(Answer):
    """A line on stderr with --progress-json: at the beginning of each phase, and whenever another hundredth is done."""

    type: Literal["progress"]
    phase: str
    """The name of the phase, for people; may change."""
    done: int
    """Steps, tasks or bytes."""
    total: int | None
    """null where it is not known."""


class KafkaError(Answer):
    error: str
    """Kafka's name of the error in the broker's answer; NONE if there is none."""
    error_code: int
    """Kafka's code of that error."""


_ERROR = _of(KafkaError)


class ViewAnswer(Answer):
    """The answer of a coordinator, according to the log that was read."""

    operation: str
    """The Kafka request that is answered, or the command."""
    profile: str
    """The coordinator whose rules apply."""
    is_proven: bool
    """Whether that release was compared with real brokers."""
    as_of_ms: int | None
    """The instant up to which the log was read; null: all of it."""
    warnings: list[str]


class InFlight(Answer):
    """What a later fetch answers for a partition whose commit is in flight: an offset, or the name of an error."""

    topic: str
    partition: int
    if_appended: int | str | None
    if_failed: int | str | None
    if_committed: int | str | None = ABSENT
    if_aborted: int | str | None = ABSENT


class FetchAnswer(ViewAnswer, KafkaError):
    """The offsets of a group, as OffsetFetch answers them."""

    group_id: str
    log_partition: int | None
    offsets: list[Annotated[Fields, Row(FetchedOffset, _ERROR)]]
    waits: bool
    """Whether the coordinator delays the answer until the commits in flight are replicated."""
    in_flight: list[InFlight] = ABSENT
    """With --in-flight."""


_CHANGE = dict.fromkeys(("log_partition", "changed_after_ms", "changed_by_ms", "as_of_ms"), NotRequired[int | None])
_CHANGE |= dict.fromkeys(("cluster_id", "run_id"), NotRequired[str])
"""Changes from a log lack the first three; changes from published runs also have the columns of every table."""


class ReplacedOffset(Answer):
    """An offset that a reset or a restore committed, and the value that it replaced."""

    topic: str
    partition: int
    old_committed_offset: int | None
    new_committed_offset: int
    log_offset: int
    timestamp_ms: int | None


_CHANGES = {"offsets": list[Annotated[Fields, Row(TABLES["offset_changes"], _CHANGE)] | ReplacedOffset]}


class ExplainAnswer(Answer):
    """The history of a group. Without a log it has a `cluster_id` instead of a `profile`."""

    operation: Literal["explain"]
    profile: str = ABSENT
    is_proven: bool = ABSENT
    cluster_id: str = ABSENT
    coverage: str = ABSENT
    """`admin` where admin snapshots answer in place of the log."""
    as_of_ms: int | None
    group_id: str
    log_partition: int | None
    state: str | None
    """null if the group does not exist."""
    is_held: bool
    """Whether a coordinator has this state in memory: false where the load of the log partition fails or never ends."""
    sweep_blocked: SweepBlock | None
    events: list[Annotated[Fields, Row(Event, _CHANGES)]]
    next: list[NextVerdict]
    transactions: list[Annotated[Fields, Row(TRANSACTIONS, {"audited_at_ms": int | None}, without={"held_bytes"})]]
    """Open transactions that hold offsets of the group."""
    who: list[Who] = ABSENT
    """With --authorizer-log."""
    warnings: list[str] = ABSENT


class ListedGroups(ViewAnswer, KafkaError):
    """The groups in a log."""

    groups: list[Annotated[Fields, Row(LoadedGroup, {"log_partition": int, "is_misplaced": bool})]]


class FailedBroker(Answer):
    broker: int
    error: str


class LiveGroups(Answer):
    """The groups that the brokers report."""

    operation: Literal["ListGroups"]
    groups: list[GroupListing]
    failed_brokers: list[FailedBroker]
    """Brokers that failed; their groups are missing."""
    warnings: list[str]


class MissingGroup(KafkaError):
    """A group that does not exist or is not served."""

    group_id: str
    state: str
    log_partition: int | None
    coordinator: int | None
    """The broker that leads the log partition, if recorded."""
    members: list[MemberRow]
    offsets: list[Annotated[Fields, Row(OffsetRow, {"lag": int | None})]]


_DESCRIBED = _of(MissingGroup)


class DescribedGroups(ViewAnswer):
    groups: list[Annotated[Fields, Row(LoadedGroup, _DESCRIBED)] | MissingGroup]


class FoundCoordinators(ViewAnswer):
    partition_count: int | None
    groups: list[Annotated[Fields, Row(FoundCoordinator, _ERROR)]]


class UnloadAnswer(ViewAnswer):
    """What a broker removes from its memory when it unloads a log partition."""

    log_partition: int
    leader: int | None
    groups: list[str]
    offsets: int
    """The number of cached offsets that are removed."""
    pending: list[Annotated[Fields, Row(TABLES["pending_offsets"], {"producer_id": int}, only=PENDING_FIELDS)]]
    """Offsets of open transactions; the next coordinator loads them again."""
    staying: list[str]
    """Groups of other log partitions, which stay in memory."""


class PartitionError(KafkaError):
    topic: str
    partition: int


class KeyAndValue(Answer):
    key: str
    """Hexadecimal."""
    value: str
    """Hexadecimal."""


class Append(Answer):
    base_offset: int
    """The log_offset at which the batch would be appended."""
    batch: str | None
    """Hexadecimal; null where nothing would be appended."""
    required_acks: int
    commit_timeout_ms: int


class CheckedCommit(ViewAnswer, Append):
    group_id: str
    partitions: list[PartitionError]
    records: list[KeyAndValue]
    after_failed_append: dict[str, list[PartitionError]]
    """The answer to the client, by the error of the append."""
    makes_group: bool


class GroupRecord(ViewAnswer, KafkaError, KeyAndValue, Append):
    group_id: str
    is_new: bool
    version: int
    after_failed_append: dict[str, KafkaError]
    """The answer to the members, by the error of the append."""


class NoGroupRecord(ViewAnswer, KafkaError):
    """Where the coordinator cannot describe the group; `error` says why."""

    group_id: str
    state: str


class JoinedMember(Answer):
    member_id: str
    awaits_sync: bool
    sync_error: str | None
    session_ends_at_ms: int | None
    """null: the member is kept alive."""


class CheckedJoin(ViewAnswer, KafkaError):
    group_id: str
    state: str | None
    """The state of the group afterwards."""
    generation: int | None
    makes_group: bool
    writes_record: bool
    members: list[JoinedMember] = ABSENT


class SweptLogPartition(Answer):
    log_partition: int
    offsets: int
    records: int
    """Tombstones, including those of groups."""


class Sweep(Answer):
    coordinator: int | None
    """The broker; null where it is not recorded."""
    offsets: int
    log_lines: list[str]
    log_partitions: list[SweptLogPartition]


class KeptInFlight(Answer):
    """An offset; if `topic` is null, the group itself."""

    group_id: str
    topic: str | None
    partition: int | None


class FailedAppend(Answer):
    log_partition: int
    log_lines: list[str]
    leaves_cache: bool
    """Whether the offsets are removed from the cache nevertheless."""


class PastSweep(Answer):
    coordinator: int | None
    started_at_ms: int
    last_ms: int
    """When its last log partition was swept."""
    offsets: int
    certain_offsets: int
    log_partitions: int


class CheckedSweep(Answer):
    """What each broker's next sweep removes."""

    operation: Literal["check-sweep"]
    as_of_ms: int
    sweeps: list[Sweep]
    kept_by_commits_in_flight: list[KeptInFlight]
    if_the_append_fails: list[FailedAppend]
    blocked: list[str]
    past_sweeps: list[PastSweep]
    warnings: list[str]


class ChangedGroup(Answer):
    group_id: str
    change: Change
    before: str | None
    """Type, state and number of members."""
    after: str | None
    cause: str | None
    """Kinds of offset_changes, joined by ` or `."""


class ChangedOffset(Answer):
    group_id: str
    topic: str
    partition: int
    change: Change
    before: int | None
    after: int | None


class Changes(Answer):
    operation: Literal["diff"]
    before: str
    """The first instant or run folder, as requested."""
    after: str
    counts: dict[Literal["groups", "offsets"], dict[Change, int]]


class FailedLoads(Answer):
    before: list[int]
    after: list[int]


class LogDiff(Changes):
    """A diff of logs or of runs."""

    failed_loads: FailedLoads
    """Log partitions that no coordinator can load."""
    groups: list[ChangedGroup]
    offsets: list[ChangedOffset]


class Between(Answer):
    changed_after_ms: int | None
    changed_by_ms: int | None
    candidates: list[str]
    """All possible causes."""


class GroupChangedBetween(ChangedGroup, Between):
    pass


class OffsetChangedBetween(ChangedOffset, Between):
    cause: str | None
    plan_ids: list[str]
    """Plans of Sexton that may have deleted it."""


class AdminDiff(Changes):
    """A diff of admin snapshots."""

    coverage: str
    admin_snapshots: int
    """The number of admin snapshots that were read."""
    groups_left_out: int
    groups: list[GroupChangedBetween]
    offsets: list[OffsetChangedBetween]


class Judged(Answer):
    operation: str
    cluster_id: str
    as_of_ms: int
    warnings: list[str]


class ForecastGroup(Answer):
    group_id: str
    within_1_days: int
    """Offsets that expire within a day."""
    within_7_days: int
    within_30_days: int
    whole_within_days: int | None
    """1, 7 or 30: the whole group is deleted within that number of days."""
    first_expires_at_ms: int
    by: list[str]
    """`broker`, or `rule:<name>`."""


class ForecastAnswer(Judged):
    retention_ms: int
    policy_sha256: str | None
    horizons: list[Horizon]
    groups: list[ForecastGroup]


class DueOffset(Answer):
    topic: str
    partition: int
    expires_at_ms: int | None


class Abandoned(Answer):
    """If the coordinator loads the group now and its members never come back."""

    empty_at_ms: int
    sweep_blocked: SweepBlock | None
    steps: list[AbandonmentStep]
    offsets: list[DueOffset]


class GroupForecast(Judged):
    """With the argument GROUP."""

    retention_ms: int
    policy_sha256: str | None
    group_id: str
    offsets: list[OffsetForecast]
    if_abandoned: Abandoned | None


class RulesUsed(Answer):
    retention_ms: int
    retention_source: str
    policy_sha256: str | None


class WhatIfAnswer(Judged):
    in_force: RulesUsed
    proposed: RulesUsed
    counts: dict[str, int]
    rules: list[ComparedRule]
    groups: list[ComparedGroup]
    offsets: list[ComparedOffset]


class ReleaseUsed(Answer):
    profile: str
    is_proven: bool


class ReleaseNow(ReleaseUsed):
    source: str
    """How the release was found."""


class ChangedByRelease(Answer):
    """A group about which the two releases answer differently."""

    group_id: str
    log_partition: int
    changes: list[str]
    is_breaking: bool
    before: Annotated[Fields, Row(GroupAnswers, {"members": int, "offsets": int})] = Field(alias="from")
    after: Annotated[Fields, Row(GroupAnswers, {"members": int, "offsets": int})] = Field(alias="to")
    offsets: list[OffsetChange]


class WayBack(Answer):
    """What the old release cannot read."""

    log_partitions: list[UnreadableRecords]
    to_come: list[UnreadableRecords]
    refused_levels: list[RefusedLevel]


class RehearseAnswer(Answer):
    operation: Literal["rehearse"]
    verdict: Literal["safe", "safe_no_way_back", "not_safe"]
    verdict_text: str
    reasons: list[str]
    exit_code: int
    before: ReleaseNow = Field(alias="from")
    after: ReleaseUsed = Field(alias="to")
    as_of_ms: int
    loads: list[Loads]
    faults: list[Annotated[Fields, Row(Fault, {"when_text": str, "answer_text": str})]]
    faults_of_from: list[Annotated[Fields, Row(Fault, {"when_text": str, "answer_text": str})]]
    groups: list[ChangedByRelease]
    writes: list[Written]
    back: WayBack
    refused_levels: list[RefusedLevel] | None
    """null where the input has no metadata log."""
    readiness: list[Readiness]
    unreadable_bytes: int
    warnings: list[str]


class PlanAnswer(PlanRecord):
    """The fields of plan.json, and where the plan is kept."""

    operation: Literal["plan"]
    plan_sha256: str
    kept_at: str | None
    not_kept_because: str | None
    folder: str
    kafka_commands: list[str]
    """Kafka's own commands, for the first groups."""


_THEN = {
    **{"then": OffsetValue, "then_commit_timestamp_ms": int | None, "then_expire_timestamp_ms": int | None},
    **{"then_topic_id": str | None, "then_empty_since_ms": NotRequired[int]},  # the latter: only for a `join`
}
_OUTCOME = {"outcome": str, "error": str | None, "found": Value | None, "written_log_offset": int | None}


class Restore(Answer):
    operation: Literal["restore", "keep"]
    restore_id: str | None
    """null where nothing would be written."""
    cluster_id: str
    source: str
    overwrites: bool
    clamps: bool
    would: dict[str, int]
    """The number of offsets by action."""
    cannot_come_back: list[str]
    counts: dict[str, int]
    """The number of offsets by action; once applied, by outcome."""
    warnings: list[str]


class RestoreShown(Restore):
    is_applied: Literal[False]
    offsets: list[Annotated[Fields, Row(RestoreRow, _THEN)]]
    kafka_commands: list[str]
    """Kafka's own commands that commit the same offsets."""


class RestoreApplied(Restore):
    """With --apply."""

    is_applied: Literal[True]
    offsets: list[Annotated[Fields, Row(RestoreRow, {**_THEN, **_OUTCOME}, called="RestoredRow")]]
    attempt: int
    """0 where nothing was left to do."""
    windows: Windows


class RevokedApproval(Answer):
    """With --revoke."""

    operation: Literal["revoke"]
    approval_id: str


class TransactionsAnswer(Answer):
    operation: Literal["transactions"]
    cluster_id: str
    as_of_ms: int
    read_at_ms: int | None
    """When the states of transactions were read; null where they were not."""
    counts: dict[str, int]
    """Transactions by verdict."""
    transactions: list[Annotated[Fields, Row(TRANSACTIONS, {"abort_command": str | None})]]
    forecasts: list[IdForecast]
    floods: list[Family]
    transactional_ids: list[Annotated[Fields, Row(TRANSACTIONAL_IDS)]] = ABSENT
    """With --ids."""
    notes: list[str]


class LagAnswer(Judged):
    lookup: Annotated[Fields, Row(OffsetLookup, {"questions": int}, without={"topics", "cluster_id"})] | None
    """The queries to the brokers; null without brokers."""
    offsets: list[Annotated[Fields, Row(TIME_LAG, without=OF_AUDITS)]]


class ProbedReplicas(Answer):
    replicas: list[ReplicaProbe]
    warnings: list[str]


class ReplicaDiff(Answer):
    operation: Literal["replicas diff"]
    profile: str
    replicas: list[str]
    alarms: int
    """Differences that any leader change would show."""
    counts: dict[str, int]
    differences: list[Annotated[Fields, Row(REPLICA_DIFFERENCES)]]
    state: list[Annotated[Fields, Row(REPLICA_STATE)]]
    notes: list[str]


class PolicyIdentity(Answer):
    sha256: str
    holds: int
    rules: int


class ValidPolicy(PolicyIdentity):
    is_valid: Literal[True]
    limits: Limits
    tests: int
    warnings: list[Diagnostic]


class InvalidPolicy(Answer):
    is_valid: Literal[False]
    mistakes: list[Diagnostic]


class TestedPolicy(PolicyIdentity):
    passed: int
    failed: int
    tests: list[Annotated[Fields, Row(PolicyTestResult, {"holds": bool})]]


class DecisionOnGroup(Answer):
    """The decision on a group without offsets."""

    policy_verdict: Literal["keep", "expire", "hold"]
    policy_reason: str
    policy_rule: str | None
    policy_expires_at_ms: int | None
    considered: list[RuleTrace]


_DECISION = _of(DecisionOnGroup)


class PolicyShown(ViewAnswer):
    now_ms: int
    """The instant for which the verdicts are given."""
    policy: PolicyIdentity
    group: GroupInput | None
    decisions: list[Annotated[Fields, Row(OffsetInput, {"committed_offset": int, **_DECISION})] | DecisionOnGroup]


class Shown(Answer):
    cluster_id: str
    id: str
    """plan_id, restore_id, or the SHA-256 of the terms."""
    sha256: str
    """What an approval is bound to."""
    counts: dict[str, int]
    questions: dict[str, str]
    """The question to the approver, by sink."""
    body: str
    """Markdown."""


class ShownApproval(Shown):
    """The terms of a standing approval."""

    kind: Literal["standing approval"]
    terms: Terms


class ShownPlan(Shown):
    kind: Literal["plan"]
    coverage: str
    lead: str
    over_limits: list[str]
    what_if: str | None


class ShownRestore(Shown):
    kind: Literal["restore"]
    over_limits: list[str]


class ArchiveList(Answer):
    archive: str
    clusters: list[ClusterInventory]


class DoctorAnswer(Answer):
    fit: bool
    checks: list[Check]


_APPLIED = {
    **{"left": int, "exit_code": int, "beyond": Beyond | None, "cluster_id": str, "coverage": str},
    **{"plan_sha256": str, "ledger": str, "published_rows": int | None},
}
_VERIFIED = {"archive": str, "subset": str, "exit_code": int, "checkpoints": int, "repaired": list[str]}


class ShownRuns(Answer):
    operation: Literal["show runs"]
    runs: list[Annotated[Fields, Row(TABLES["runs"], {"counts": dict[str, int]}, only=RUN_FIELDS)]]
    """Oldest first."""


class ToolList(Answer):
    tools: list[Fields]
    """The tools in the format of the Model Context Protocol: name, description, inputSchema, outputSchema,
    annotations."""


ANSWERS: Mapping[str, Any] = {
    "audit": Summary,
    "snapshot": TakenSnapshot,
    "fetch": FetchAnswer,
    "explain": ExplainAnswer,
    "incident": Incident,
    "diff": LogDiff | AdminDiff,
    "forecast": ForecastAnswer | GroupForecast,
    "what-if": WhatIfAnswer,
    "rehearse": RehearseAnswer,
    "plan": PlanAnswer,
    "apply": Annotated[Fields, Row(ApplySummary, _APPLIED)],
    "restore": RestoreShown | RestoreApplied,
    "keep": RestoreShown | RestoreApplied | RevokedApproval,
    "transactions": TransactionsAnswer,
    "lag": LagAnswer,
    "mcp": ToolList,
    "demo": Summary,
    "doctor": DoctorAnswer
    | Annotated[dict[str, str], Field(description="With --failpoints: the description of each, by name.")],
    "groups list": ListedGroups | LiveGroups,
    "groups describe": DescribedGroups,
    "groups coordinator": FoundCoordinators,
    "groups unload": UnloadAnswer,
    "groups check-commit": CheckedCommit,
    "groups check-join": CheckedJoin,
    "groups metadata-record": GroupRecord | NoGroupRecord,
    "groups check-sweep": CheckedSweep,
    "replicas probe": ProbedReplicas,
    "replicas copy": ReplicaCopy,
    "replicas diff": ReplicaDiff,
    "history build": History,
    "policy check": ValidPolicy | InvalidPolicy,
    "policy test": TestedPolicy,
    "policy show": PolicyShown,
    "show approval": ShownApproval,
    "show plan": ShownPlan,
    "show restore": ShownRestore,
    "show runs": ShownRuns,
    "archive ls": ArchiveList,
    "archive verify": Annotated[Fields, Row(Verified, _VERIFIED)],
    "archive import": Imported,
}
"""The answer of each command, by its words after `sexton`."""
