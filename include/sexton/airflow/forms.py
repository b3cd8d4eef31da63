"""The trigger forms of all DAGs: fields with their titles, help and schemas.

An optional field allows null, because Airflow's form treats an empty field that does not as missing and sends nothing.
An empty text is valid as well: runs triggered by older forms or by the API send it. Tasks treat both as empty.
"""

from typing import Any

from airflow.sdk import Param

from sexton.airflow.formats import INSTANT, ISO_OR_MS, RE2
from sexton.settings import Cluster, settings

DRY_RUN_SINK, LOG_SINK = "dry_run", "log"
SINKS = (DRY_RUN_SINK, "coordinator", LOG_SINK)
"""Where tombstones go: nowhere, through the group coordinators, or into the log itself."""
SHA256 = r"^[0-9a-f]{64}$"
SHA256_OR_NONE = r"^$|^[0-9a-f]{64}$"
MAX_NAMES = 1_000
NAME_CHARS = 32_767


def retention_params(cluster: Cluster) -> dict[str, Param]:
    """The form of offset_retention."""
    return {
        "as_of": _instant(
            "As of",
            "The instant to describe: ISO 8601 (UTC unless it has a zone) or epoch milliseconds. "
            "Empty: the end of the run's data interval, or the time of triggering if it has none.",
            section="What to describe",
        ),
        "since": _instant(
            "Changes since",
            "Start of the interval whose changes go to offset_changes. Empty: the start of the run's data interval; "
            "no changes if `as_of` is not the end of that interval.",
            section="What to describe",
        ),
        "retention_minutes": Param(
            cluster.retention_minutes,
            type=["null", "integer"],
            exclusiveMinimum=0,  # the form silently replaces 0 by 1 where a minimum is given
            title="Retention in minutes",
            description="Judge with this retention instead of the broker's offsets.retention.minutes. The plan of such "
            "a run is a what-if: only plans by the broker's own retention are applied.",
            section="How to judge",
        ),
        "profile": Param(
            "auto",
            type="string",
            pattern=r"^(auto|(group_coordinator|group_metadata_manager|offset_manager)(:\d+(\.\d+)*)?)$",
            title="Profile",
            description="Whose rules: group_coordinator (Kafka 4.x), group_metadata_manager (0.10.1 to 3.9) or "
            "offset_manager (0.8.2 to 0.10.0), with or without `:RELEASE`; auto: the recorded broker's, else what the "
            "log proves, else the newest.",
            section="How to judge",
        ),
        "policy": _text(
            "Policy",
            "Judge by another policy than the deployment's: the name of a file next to SEXTON_POLICY. The plan of such "
            "a run is a what-if: only plans by the deployment's policy are applied.",
            section="How to judge",
            pattern=r"^$|^(?!\.)[A-Za-z0-9_.-]{1,128}$",
        ),
        "full": _flag(
            "Replay in full",
            "Read the whole log up to the instant instead of starting from the nearest published checkpoint. "
            "The result is the same.",
            section="How to replay",
        ),
    }


def maintenance_params() -> dict[str, Param]:
    """The form of maintenance."""
    return {
        "delete": _flag(
            "Delete",
            "Delete published runs that no rule keeps, old Iceberg snapshots and branches, and old run folders. "
            "Without it expire_runs and compact_tables only report what they would delete.",
            section="What to do",
            default=settings().maintenance_deletes,
        ),
        "subset": _text(
            "Part of the archive to read",
            "n/t reads part n of t, 1/1 everything. Empty: the part after the last one.",
            section="What to do",
            pattern=r"^$|^\d{1,9}/\d{1,9}$",
        ),
    }


def replicas_params() -> dict[str, Param]:
    """The form of audit_replicas."""
    return {
        "log_partitions": _text(
            "Log partitions",
            "Numbers separated by commas, such as 7,12. Empty: all.",
            section="What to compare",
            pattern=r"^$|^\d{1,9}(,\d{1,9})*$",
        ),
    }


def apply_params() -> dict[str, Param]:
    """The form of apply_tombstones."""
    return {
        "plan_id": Param(
            type="string",
            pattern=SHA256,
            title="Plan",
            description="plan_id of a plan in the archive: 64 digits, from its page or the table runs.",
            section="What to apply",
        ),
        "sink": Param(
            DRY_RUN_SINK,
            type="string",
            enum=list(SINKS),
            title="Sink",
            description="dry_run: only report what would be done, ask nobody. coordinator: delete through the group "
            "coordinators. log: write offset tombstones into the offsets topic itself, for offsets that coordinators "
            "refuse to delete.",
            section="What to apply",
        ),
        "allow_log_sink": _flag(
            "Allow the sink log",
            "Required for the sink log, together with the setting SEXTON_ALLOW_LOG_SINK.",
            section="What to apply",
        ),
    }


def restore_params() -> dict[str, Param]:
    """The form of restore_offsets."""
    return {
        "from_ledger": _text(
            "What an applied plan deleted",
            "plan_id: restore what the ledger recorded as deleted for it. Give one of these three.",
            section="From where",
            pattern=SHA256_OR_NONE,
        ),
        "from_plan": _text(
            "What a plan names",
            "plan_id: restore every value of its undo file, whoever deleted it.",
            section="From where",
            pattern=SHA256_OR_NONE,
        ),
        "as_of": _instant(
            "As of",
            "Restore what was committed at this instant, replayed from the archive: ISO 8601 (UTC unless it has a "
            "zone) or epoch milliseconds.",
            section="From where",
        ),
        "groups": _names("Groups", "Only these groups, each by its exact id."),
        "pattern": _text(
            "Pattern of groups",
            "Only groups whose whole id matches this regular expression (RE2).",
            section="What to restore",
            format=RE2,
        ),
        "topics": _names("Topics", "Only these topics, `topic` or `topic:partition`."),
        "clamp": _flag(
            "Move into the log",
            "Move offsets that are before the start or beyond the end of their partition's log to that start or end.",
            section="How",
        ),
        "overwrite": _flag(
            "Overwrite newer commits", "Also restore offsets that were committed again since.", section="How"
        ),
    }


def _text(title: str, description: str, *, section: str, **schema: Any) -> Param:
    return Param(None, type=["null", "string"], title=title, description=description, section=section, **schema)


def _instant(title: str, description: str, *, section: str) -> Param:
    return _text(title, description, section=section, format=INSTANT, pattern=ISO_OR_MS)


def _flag(title: str, description: str, *, section: str, default: bool = False) -> Param:
    return Param(default, type="boolean", title=title, description=description, section=section)


def _names(title: str, description: str) -> Param:
    # An empty name would become an empty option, which is dropped, and without options everything is restored.
    one = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS}
    return Param(
        [],
        type=["null", "array"],
        items=one,
        maxItems=MAX_NAMES,
        title=title,
        description=f"{description} Empty: all.",
        section="What to restore",
    )
