"""The parameters of each job and each DAG: one model each, whose fields are declared here and nowhere else.

Each field yields the option of the file in spark_jobs/ (pipeline/job.py), the field of the DAG's trigger form
(airflow/forms.py), and the argument that a task passes (airflow/spark_tasks.py). The stage takes the model itself.

An optional field of a form allows null. Otherwise Airflow's form would treat the empty field as missing, and would not
send the form. An empty text is valid as well: runs triggered by older forms or by the API send it. Tasks treat null and
an empty text alike.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from sexton.as_text import now_ms
from sexton.numbers import INSTANT, RE2
from sexton.settings import settings
from sexton.topics import OFFSETS_TOPIC

ISO_OR_MS = r"^$|^\d{1,16}$|^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?([Zz]|[+-]\d{2}:?\d{2})?$"
SHA256, SHA256_OR_NONE = r"^[0-9a-f]{64}$", r"^$|^[0-9a-f]{64}$"
DRY_RUN_SINK, LOG_SINK = "dry_run", "log"
SINKS = (DRY_RUN_SINK, "coordinator", LOG_SINK)
"""Where tombstones go: nowhere, through the group coordinators, or into the log itself."""
INPUT, MODE = "input", "mode"
"""Two groups of mutually exclusive options: one option of INPUT is required, one of MODE may be given."""
_NAME = {"type": "string", "minLength": 1, "maxLength": 32_767}
"""An empty name would become an empty option, which is dropped, and without options everything is restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Where the value of a field comes from. `name` is by default the field's: --settle-ms for settle_ms.

    A job has the option if `help` is given. In a DAG run the value comes from the field of the trigger form (`form` is
    the field's JSON schema), from the Jinja expression `task`, or from the `setting`; for a field of a form the setting
    is the default. `read` parses the option's text; `one_of` is INPUT or MODE.
    """

    help: str | None = None
    metavar: str | None = None
    name: str = ""
    one_of: str | None = None
    read: Callable[[str], Any] | None = None
    form: Mapping[str, Any] | None = None
    task: str = ""
    setting: str = ""


# `help` is argparse's word.
def option(default: Any, help: str | None = None, metavar: str | None = None, **others: Any) -> Any:  # noqa: A002
    """Declare a field with its Option; `default` may be a function, or `...` for a field that is required."""
    asked: Any = Option(help=help, metavar=metavar, **others)
    given: dict[str, Any] = {"default_factory": default} if callable(default) else {"default": default}
    return Field(**given, json_schema_extra={"option": asked})


class JobRequest(BaseModel):
    """The parameters of a job; this one has none, and needs only its run folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def options(cls) -> Iterator[tuple[str, Option, FieldInfo]]:
        """Yield name, Option and FieldInfo of each field that has an Option, in the order of declaration."""
        for name, field in cls.model_fields.items():
            if isinstance(field.json_schema_extra, dict):
                yield name, field.json_schema_extra["option"], field  # type: ignore[misc]

    @classmethod
    def like(cls, other: "JobRequest", **own: Any) -> Self:
        """Return a request of this class: the fields that `other` has, too, with their values, and `own` values."""
        shared = cls.model_fields.keys() & type(other).model_fields.keys()
        return cls(**{**{name: getattr(other, name) for name in shared}, **own})


def form(section: str, title: str, description: str, **schema: Any) -> dict[str, Any]:
    """Return the schema of a field of a form: an optional text, unless `schema` has another type."""
    return {"type": ["null", "string"], "title": title, "description": description, "section": section, **schema}


def form_field(default: Any, section: str, title: str, description: str, **schema: Any) -> Any:
    """Declare a field that no job has as an option, only the form of a DAG."""
    return option(default, form=form(section, title, description, **schema))


FLAG: dict[str, Any] = {"type": "boolean"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
NAMES: dict[str, Any] = {"type": ["null", "array"], "items": _NAME, "maxItems": 1_000}
INSTANT_SCHEMA: dict[str, Any] = {"format": INSTANT, "pattern": ISO_OR_MS}


def numbers(texts: str) -> list[int]:
    """Return the numbers of `7,12`."""
    return [int(number) for number in texts.split(",")]


Rate = Annotated[int | None, AfterValidator(lambda rate: rate or None)]
"""A limit per second; 0 and None: no limit."""
AS_OF_TASK, ATTEMPT = "as_of_ms(dag_run, params)", "run_id ~ '.' ~ ti.try_number"
DESCRIBE, JUDGE = "What to describe", "Which rules to use"
APPLY, RESTORE, ALLOW = "What to apply", "What to restore", "What to allow"


class KafkaRequest(JobRequest):
    """A job that talks to a live cluster. `config` is a `kafka.client.ClientConfig`, made from --bootstrap-servers and
    --client-config."""

    config: Any = option(...)
    topic: str = option(OFFSETS_TOPIC, "default: %(default)s", "NAME")


class SnapshotRequest(KafkaRequest):
    """What to copy, and where to. With `as_of_ms` the snapshot is taken at or after as_of_ms + settle_ms.

    `bytes_per_second` limits the total read rate, `groups_per_second` the rate of an admin snapshot; None: as fast as
    the brokers allow. With `admin_only` the log is not read. A cluster with another id than `cluster_id` is refused
    before anything is archived.
    """

    archive: str = option(..., "folder or URI where segments are kept", "URI", setting="archive_uri")
    as_of_ms: int | None = option(
        None, "wait until this instant has settled (default: now)", "MS", name="as_of", task=AS_OF_TASK
    )
    settle_ms: int = option(
        60_000, "how long after --as-of late appends may arrive (default: %(default)s)", "MS", setting="settle_ms"
    )
    bytes_per_second: Rate = option(
        None, "read no faster than this (default: as brokers allow)", "N", setting="fetch_bytes_per_second"
    )
    groups_per_second: Rate = option(
        None, "groups per second of an admin snapshot", "N", setting="admin_groups_per_second"
    )
    admin_only: bool = option(False, "take an admin snapshot, do not read the log", setting="admin_only")
    cluster_id: str | None = option(
        None, "refuse any other cluster (default: whichever answers)", "ID", setting="cluster_id"
    )


class RulesRequest(JobRequest):
    """The retention, and the coordinator whose rules apply."""

    retention_minutes: int | None = option(
        None,
        "default: the broker's, else Kafka's",
        "N",
        setting="retention_minutes",
        form=form(
            JUDGE,
            "Retention in minutes",
            "Use this retention instead of the broker's offsets.retention.minutes. The plan of such a run is "
            "only a trial: a plan with another retention than the broker's is never applied.",
            type=["null", "integer"],
            exclusiveMinimum=0,  # the form silently replaces 0 by 1 where a minimum is given
        ),
    )
    profile: str = option(
        "auto",
        "whose rules: group_coordinator, group_metadata_manager, offset_manager or auto (default: %(default)s)",
        "NAME[:RELEASE]",
        form=form(
            JUDGE,
            "Profile",
            "Whose rules: group_coordinator (Kafka 4.x), group_metadata_manager (0.10.1 to 3.9) or offset_manager "
            "(0.8.2 to 0.10.0), with or without `:RELEASE`; auto: the recorded broker's, else what the log proves, "
            "else the newest.",
            type="string",
            pattern=r"^(auto|(group_coordinator|group_metadata_manager|offset_manager)(:\d+(\.\d+)*)?)$",
        ),
    )


class ReplayRequest(RulesRequest):
    """What to replay: exactly one of `segments` (a broker's log directories) and `archive`.

    Without `as_of_ms` the whole log is read. `profile` is a name, with or without a release, or `auto`. `cluster_id`
    selects a cluster in an archive of several. `is_full` ignores checkpoints. `settle_ms` defaults to the setting. With
    `since_ms` and an archive the run also writes offset_changes from `since_ms` to `as_of_ms`. `load_buffer_bytes` and
    `codec` (the compression of the plan's batches) default to what the archive recorded, else to Kafka's defaults. Only
    the job uses `check`.
    """

    archive: str | None = option(None, "archive filled by snapshot_log", "URI", one_of=INPUT, setting="archive_uri")
    segments: str | list[str] | None = option(
        None, "a broker's log directory, or a backup of one; may be repeated", "DIR", one_of=INPUT
    )
    as_of_ms: int | None = option(
        None,
        "instant to describe (default: the log's end)",
        "MS",
        name="as_of",
        task=AS_OF_TASK,
        form=form(
            DESCRIBE,
            "As of",
            "The instant to describe: ISO 8601 (UTC unless it has a zone) or epoch milliseconds. Empty: the end of the "
            "run's data interval, or the time of triggering if it has none.",
            **INSTANT_SCHEMA,
        ),
    )
    since_ms: int | None = option(
        None,
        "also write what changed from here to --as-of",
        "MS",
        name="since",
        task="since_ms(dag_run, params)",
        form=form(
            DESCRIBE,
            "Changes since",
            "Start of the interval whose changes go to offset_changes. Empty: the start of the run's data interval; "
            "no changes if `as_of` is not the end of that interval.",
            **INSTANT_SCHEMA,
        ),
    )
    run_id: str = option("manual", "name of this attempt (default: manual)", "ID", task=ATTEMPT)
    topics_file: str | None = option(None, "topics as JSON lines, if the archive has none", "FILE", name="topics")
    cluster_id: str | None = option(
        None, "default: that of this run's snapshot, or the archive's only", "ID", setting="cluster_id"
    )
    settle_ms: int | None = option(
        None, "how long after --as-of a snapshot settles it (default: SEXTON_SETTLE_MS)", "MS", setting="settle_ms"
    )
    is_full: bool = option(
        False,
        "read the whole log instead of starting from a checkpoint",
        name="full",
        one_of=MODE,
        form=form(
            "How to replay",
            "Replay in full",
            "Read the whole log up to the instant instead of starting from the nearest published checkpoint. The "
            "result is the same.",
            **FLAG,
        ),
    )
    check: bool = option(
        False,
        "replay in full and compare with the checkpoint of --as-of (default: the newest); exit code 3 if they differ",
        one_of=MODE,
    )
    taken_at_ms: int = Field(default_factory=now_ms)
    partition_count: int | None = None
    load_buffer_bytes: int | None = None
    codec: int | None = None


class JudgeRequest(JobRequest):
    """The policy by which offsets are judged, in addition to the broker's retention."""

    policy: Path | None = option(
        None,
        "retention rules and holds (docs/policy.md)",
        "FILE",
        task="policy_file(params)",
        form=form(
            JUDGE,
            "Policy",
            "Use another policy than the deployment's: the name of a file next to SEXTON_POLICY. The plan of such "
            "a run is only a trial: a plan with another policy than the deployment's is never applied.",
            pattern=r"^$|^(?!\.)[A-Za-z0-9_.-]{1,128}$",
        ),
    )


class HistoryRequest(JudgeRequest, RulesRequest):
    """The instants of a history: from `from_ms` to at most `to_ms`, `step_minutes` apart, for one cluster of an
    archive."""

    archive: str = option(..., "folder or URI of the archive", "URI", setting="archive_uri")
    from_ms: int = option(
        ...,
        "the first instant",
        "MS",
        name="from",
        task="instant('from', params)",
        form=form(
            DESCRIBE,
            "From",
            "The first instant: ISO 8601 (UTC unless it has a zone) or epoch milliseconds.",
            **{"type": "string", **INSTANT_SCHEMA},
        ),
    )
    to_ms: int | None = option(
        None,
        "the latest possible instant (default: now)",
        "MS",
        name="to",
        task="instant('to', params) or now_ms(dag_run)",
        form=form(DESCRIBE, "To", "The latest possible instant. Empty: the time of triggering.", **INSTANT_SCHEMA),
    )
    step_minutes: int = option(
        60,
        "minutes between instants (default: %(default)s)",
        "N",
        form=form(DESCRIBE, "Minutes between instants", "60: hourly.", type="integer", minimum=1),
    )
    run_id: str = option("manual", "name of the runs (default: %(default)s)", "ID", task=ATTEMPT)
    cluster_id: str | None = option(None, "default: the archive's only", "ID", setting="cluster_id")
    settle_ms: int | None = option(None, "how long after an instant a snapshot settles it", "MS", setting="settle_ms")


class ValidateRequest(JobRequest):
    """Where the tables are checked."""

    no_lake: bool = option(False, "check the run folder itself, with DuckDB: neither Iceberg nor Great Expectations")


class PublishRequest(JobRequest):
    """Where the run's checkpoint goes."""

    archive: str | None = option(
        None, "archive for the run's checkpoint (default: the run's archive)", "URI", setting="archive_uri"
    )


class AgesRequest(JobRequest):
    """The instant at which ages are measured."""

    now: int = option(now_ms, "instant at which ages are measured (default: now)", "MS", task="now_ms(dag_run)")


class ArchiveRequest(AgesRequest):
    """The archive, and the cluster in it."""

    archive: str = option(..., "folder or URI of the archive", "URI", setting="archive_uri")
    cluster_id: str | None = option(None, "this cluster only (default: all of the archive)", "ID", setting="cluster_id")


class CleanupRequest(AgesRequest):
    """Whether old data is deleted."""

    delete: bool = option(
        False,
        "delete; without it only report what would be deleted",
        setting="maintenance_deletes",
        form=form(
            "What to do",
            "Delete",
            "Delete published runs that no rule keeps, old Iceberg snapshots and branches, and old run folders. "
            "Without it expire_runs and compact_tables only report what they would delete.",
            **FLAG,
        ),
    )


class ExpireRequest(CleanupRequest, ArchiveRequest):
    """Which runs are expired."""


class VerifyRequest(ArchiveRequest):
    """Which part of the archive is read."""

    subset: str | None = option(
        None,
        "read part N of T (default: the part after the last one)",
        "N/T",
        form=form(
            "What to do",
            "Part of the archive to read",
            "n/t reads part n of t, 1/1 everything. Empty: the part after the last one.",
            pattern=r"^$|^\d{1,9}/\d{1,9}$",
        ),
    )


class ReconcileRequest(KafkaRequest, ArchiveRequest):
    """The cluster to query, and its archive."""


class LiveAuditRequest(ReconcileRequest):
    """The cluster to audit, its archive, and the run_id of the audit's rows."""

    run_id: str = option("manual", "name of the rows (default: %(default)s)", "ID", task=ATTEMPT)


class LagRequest(LiveAuditRequest):
    """The cluster, and its archive. Messages that will be lost unread within `alert_hours` raise an alert; 0: none."""

    alert_hours: int = option(
        lambda: settings().lag_alert_hours,
        "alert about messages that are lost unread within this many hours (default: %(default)s)",
        "N",
    )


class TransactionRequest(LiveAuditRequest):
    """The cluster, and its archive. `bytes_per_second` limits the read rate of the copy."""

    bytes_per_second: Rate = option(None, "read no faster than this", "N", setting="fetch_bytes_per_second")


class ReplicaRequest(LiveAuditRequest):
    """The cluster, its archive, and the log partitions to compare. `bytes_per_second` limits the total read rate."""

    log_partitions: list[int] | None = option(
        None,
        "only these (default: all)",
        "N,...",
        read=numbers,
        form=form(
            "What to compare",
            "Log partitions",
            "Numbers separated by commas, such as 7,12. Empty: all.",
            pattern=r"^$|^\d{1,9}(,\d{1,9})*$",
        ),
    )
    bytes_per_second: Rate = option(None, "read no faster than this in total", "N", setting="fetch_bytes_per_second")


class ApplyTombstones(JobRequest):
    """What apply_tombstones deletes, and how."""

    plan_id: str = form_field(
        ...,
        APPLY,
        "Plan",
        "plan_id of a plan in the archive: 64 hexadecimal digits, from its page or the table runs.",
        type="string",
        pattern=SHA256,
    )
    sink: str = form_field(
        DRY_RUN_SINK,
        APPLY,
        "Sink",
        "dry_run: only report what would be done, without approval. coordinator: delete through the group "
        "coordinators. log: write offset tombstones into the offsets topic itself, for offsets that coordinators "
        "refuse to delete.",
        type="string",
        enum=list(SINKS),
    )
    allow_log_sink: bool = form_field(
        False,
        APPLY,
        "Allow the sink log",
        "Required for the sink log, together with the setting SEXTON_ALLOW_LOG_SINK.",
        **FLAG,
    )


class RestoreOffsets(JobRequest):
    """What restore_offsets restores: options of `sexton restore`."""

    from_ledger: str | None = form_field(
        None,
        "From where",
        "What an applied plan deleted",
        "plan_id: restore what the ledger recorded as deleted for it. Fill in exactly one of this section.",
        pattern=SHA256_OR_NONE,
    )
    from_plan: str | None = form_field(
        None,
        "From where",
        "What a plan names",
        "plan_id: restore every value of its undo file, whoever deleted it.",
        pattern=SHA256_OR_NONE,
    )
    as_of: str | None = form_field(
        None,
        "From where",
        "As of",
        "Restore what was committed at this instant, replayed from the archive: ISO 8601 (UTC unless it has a zone) or "
        "epoch milliseconds.",
        **INSTANT_SCHEMA,
    )
    groups: list[str] = form_field(
        [], RESTORE, "Groups", "Only these groups, each by its exact id. Empty: all.", **NAMES
    )
    pattern: str | None = form_field(
        None,
        RESTORE,
        "Pattern of groups",
        "Only groups whose whole id matches this regular expression (RE2).",
        format=RE2,
    )
    topics: list[str] = form_field(
        [], RESTORE, "Topics", "Only these topics, `topic` or `topic:partition`. Empty: all.", **NAMES
    )
    clamp: bool = form_field(
        False,
        "How",
        "Move into the log",
        "Move offsets that are before the start or beyond the end of their partition's log to that start or end.",
        **FLAG,
    )
    overwrite: bool = form_field(
        False, "How", "Overwrite newer commits", "Also restore offsets that were committed again since.", **FLAG
    )


class ApproveKeep(JobRequest):
    """The terms of a standing approval for `sexton keep`, or its revocation."""

    patterns: list[str] = form_field(
        [".*"],
        ALLOW,
        "Groups",
        "The groups covered, among those under a hold with `keep`: regular expressions (RE2), each for the whole id.",
        **{"type": "array", "items": {**_NAME, "format": RE2}, "minItems": 1, "maxItems": 100},
    )
    max_offsets: int = form_field(
        10_000, ALLOW, "Offsets an hour", "Maximum number of offsets committed again.", **COUNT
    )
    max_joins: int = form_field(
        1_000, ALLOW, "Joins an hour", "Maximum number of Empty groups joined and left.", **COUNT
    )
    days: int = form_field(
        30, ALLOW, "Days", "Days from the answer until the approval ends.", type="integer", minimum=1, maximum=90
    )
    revoke: bool = form_field(
        False,
        "How to end it",
        "Revoke",
        "End the standing approval that is in force, without asking anybody.",
        **FLAG,
    )


STAGES = ("snapshot_log", "replay_groups", "find_expired", "plan_tombstones", "validate_tables", "publish_tables")
"""The jobs of a run of offset_retention, in their order."""
REQUESTS: Mapping[str, type[JobRequest]] = {
    "snapshot_log": SnapshotRequest,
    "replay_groups": ReplayRequest,
    "find_expired": JudgeRequest,
    "plan_tombstones": JobRequest,
    "validate_tables": ValidateRequest,
    "publish_tables": PublishRequest,
    "build_history": HistoryRequest,
    "verify": VerifyRequest,
    "check_checkpoint": ArchiveRequest,
    "expire_runs": ExpireRequest,
    "compact_tables": CleanupRequest,
    "reconcile": ReconcileRequest,
    "audit_replicas": ReplicaRequest,
    "audit_transactions": TransactionRequest,
    "audit_lag": LagRequest,
    "apply_tombstones": ApplyTombstones,
    "restore_offsets": RestoreOffsets,
    "approve_keep": ApproveKeep,
}
"""Name of a job, or of a DAG that runs commands -> its parameters."""
