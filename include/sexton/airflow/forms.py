"""The trigger forms of the DAGs that change a cluster: what a run is asked for, and nothing that a rule decides.

A field that may stay empty allows null: Airflow's form counts any other empty field as missing and sends nothing. It
still takes an empty text, which is what the form gave until it allowed null; who reads a field treats both alike.
"""

from airflow.sdk import Param

from sexton.airflow.change_tasks import DRY_RUN_SINK, SINKS
from sexton.airflow.formats import INSTANT, ISO_OR_MS, RE2

SHA256 = r"^[0-9a-f]{64}$"
SHA256_OR_NONE = r"^$|^[0-9a-f]{64}$"
NAMES_AT_MOST = 1_000
NAME_CHARS = 32_767


def applying_params() -> dict[str, Param]:
    """The trigger form of apply_tombstones."""
    return {
        "plan_id": Param(
            type="string",
            pattern=SHA256,
            title="Plan",
            description="plan_id of a plan that the archive keeps: 64 digits, as its page and the table runs have it.",
            section="What to apply",
        ),
        "sink": Param(
            DRY_RUN_SINK,
            type="string",
            enum=list(SINKS),
            title="Sink",
            description="dry_run: only say what would be done, ask nobody. coordinator: delete through the group "
            "coordinators. log: write offset tombstones into the offsets topic itself, for what coordinators refuse.",
            section="What to apply",
        ),
        "allow_log_sink": Param(
            False,
            type="boolean",
            title="Allow the sink log",
            description="The sink log has to be asked for here as well, and by the setting SEXTON_ALLOW_LOG_SINK.",
            section="What to apply",
        ),
    }


def restoring_params() -> dict[str, Param]:
    """The trigger form of restore_offsets."""
    return {
        "from_ledger": Param(
            None,
            type=["null", "string"],
            pattern=SHA256_OR_NONE,
            title="What an applied plan took",
            description="plan_id: put back what the ledger says was deleted for it. One of these three.",
            section="From where",
        ),
        "from_plan": Param(
            None,
            type=["null", "string"],
            pattern=SHA256_OR_NONE,
            title="What a plan names",
            description="plan_id: put back every value of its undo file, whoever deleted it.",
            section="From where",
        ),
        "as_of": Param(
            None,
            type=["null", "string"],
            format=INSTANT,
            pattern=ISO_OR_MS,
            title="As of",
            description="Put back what was committed at this instant, replayed from the archive: ISO 8601 (UTC unless "
            "it says otherwise) or epoch milliseconds.",
            section="From where",
        ),
        "groups": _names("Groups", "Only these groups, each by its exact id."),
        "pattern": Param(
            None,
            type=["null", "string"],
            format=RE2,
            title="Pattern of groups",
            description="Only groups whose whole id matches this regular expression (RE2).",
            section="What to restore",
        ),
        "topics": _names("Topics", "Only these topics, `topic` or `topic:partition`."),
        "clamp": Param(
            False,
            type="boolean",
            title="Move into the log",
            description="Move offsets that are before the start or beyond the end of their partition's log to it.",
            section="How",
        ),
        "overwrite": Param(
            False,
            type="boolean",
            title="Overwrite newer commits",
            description="Also put back what has been committed anew since.",
            section="How",
        ),
    }


def _names(title: str, description: str) -> Param:
    # An empty name would be an empty option, and no option at all means everything.
    one = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS}
    return Param(
        [],
        type=["null", "array"],
        items=one,
        maxItems=NAMES_AT_MOST,
        title=title,
        description=f"{description} Empty: all.",
        section="What to restore",
    )
