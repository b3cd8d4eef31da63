"""Plans, how each differs from the previous one, and the ledger of what was applied and restored.

A plan's description comes from its plan.json in the archive, its rows from the published table `tombstones`. A page
only shows whether plan.json is the file that the plan's run published; every file is verified before a plan is applied
(`plans.read_plan`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sexton.errors import Refused, SextonError, UsageError
from sexton.lake.database import Rows, marks, text
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun
from sexton.tables.apply_ledger import RETRYABLE_OUTCOMES
from sexton.ui.paging import Page, page_of

PLANS_A_PAGE = 50
DIFFERENCES = 100
"""A page shows at most this many `added` and this many `removed` rows."""
_MAX_BYTES = 16 * 1024 * 1024
_KEY = ("log_partition", "record_type", "group_id", "topic", "partition", "member_id", "regular_expression")
_OPEN = "open"
_LEFT = (*RETRYABLE_OUTCOMES, _OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """A plan in a list: its run, its status (`status_of`), and how many items have each outcome in the ledger."""

    plan_id: str
    plan_sha256: str | None
    as_of_ms: int
    run_id: str
    tombstones: int
    status: str
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDetail(PlanLine):
    """A plan: `record` is its plan.json, `kept_sha256` the hash of that file; `problem` is why it could not be read.

    `before` is the id of the plan of the last earlier run with another plan. `added` are rows that only this plan has,
    `removed` rows that only the earlier plan has; None without an earlier run.
    """

    record: Mapping[str, Any] | None
    kept_sha256: str | None
    problem: str | None
    rows: Page
    before: str | None
    added: Page | None
    removed: Page | None


def status_of(tombstones: int, outcomes: Mapping[str, int]) -> str:
    """A plan's status: empty, made (never applied), tried (nothing was done), partly, or applied (nothing is left)."""
    if not tombstones or not outcomes:
        return "made" if tombstones else "empty"
    left = sum(items for outcome, items in outcomes.items() if outcome in _LEFT)
    settled = sum(outcomes.values()) - left
    if settled >= tombstones and not left:
        return "applied"
    return "partly" if settled else "tried"


def plan_lines(tables: PublishedTables, runs: Sequence[PublishedRun]) -> list[PlanLine]:
    """The plans of `runs`, the newest first."""
    planned = [run for run in reversed(runs) if run.row.get("plan_id")]
    every = _outcomes(tables, [run.row["plan_id"] for run in planned])
    lines = []
    for run in planned:
        plan_id, outcomes = run.row["plan_id"], every.get(run.row["plan_id"], {})
        tombstones = {each["table"]: each["rows"] for each in run.row["counts"] or ()}.get("tombstones", 0)
        lines.append(
            PlanLine(
                plan_id=plan_id,
                plan_sha256=run.row.get("plan_sha256"),
                as_of_ms=run.key.as_of_ms,
                run_id=run.key.run_id,
                tombstones=tombstones,
                status=status_of(tombstones, outcomes),
                outcomes=outcomes,
            )
        )
    return lines


def plan_detail(
    tables: PublishedTables, runs: Sequence[PublishedRun], plan_id: str, *, archive: str, page: int, size: int
) -> PlanDetail | None:
    """A plan that one of `runs` published, or None; `archive` is where plans are kept."""
    numbers = [number for number, run in enumerate(runs) if run.row.get("plan_id") == plan_id]
    if not numbers:
        return None
    run = runs[numbers[-1]]
    record, sha256, problem = _read_plan_json(archive, run.key.cluster_id, plan_id)
    before = next((each for each in reversed(runs[: numbers[-1]]) if each.row.get("plan_id") != plan_id), None)
    rows = tables.of_run(run, "tombstones")
    rows_before = tables.of_run(before, "tombstones") if before else None
    return PlanDetail(
        **asdict(plan_lines(tables, [run])[0]),
        record=record,
        kept_sha256=sha256,
        problem=problem,
        rows=page_of(
            tables,
            "log_partition, position, record_type, group_id, topic, partition, cause, target_log_offset, "
            "target_committed_offset",
            rows,
            order="log_partition, position",
            page=page,
            size=size,
        ),
        before=before.row.get("plan_id") if before else None,
        added=_missing_in(tables, rows_before, rows) if rows_before else None,
        removed=_missing_in(tables, rows, rows_before) if rows_before else None,
    )


def ledger_summary(tables: PublishedTables, cluster_id: str) -> Rows:
    """A row for each plan or restore that was applied, the newest first."""
    return tables.rows(
        f"""SELECT plan_id, "action", min(intent_at_ms) AS first_ms, max(outcome_at_ms) AS last_ms,
            max(attempt) AS attempts, count(DISTINCT group_id) AS "groups", count(*) AS items,
            count(*) FILTER (outcome IN ('done', 'raced')) AS done,
            count(*) FILTER (outcome IN ('changed_since', 'gone')) AS left_alone,
            count(*) FILTER (outcome IN ('refused', 'not_done')) AS not_done,
            count(*) FILTER (outcome IS NULL) AS open, list_sort(list(DISTINCT approved_by)) AS approved_by,
            max(window_ms) AS window_ms
            FROM {_last_attempts(tables, f"cluster_id = {text(cluster_id)}")}
            GROUP BY ALL ORDER BY first_ms DESC, plan_id"""
    )


def ledger_of(tables: PublishedTables, cluster_id: str, plan_id: str, *, page: int, size: int) -> Page:
    """Every attempt at every item of a plan or restore, in the order of the plan."""
    ledger = tables.current("apply_ledger")
    return page_of(
        tables,
        "* EXCLUDE (cluster_id, as_of_ms, run_id)",
        f"{ledger} WHERE cluster_id = {text(cluster_id)} AND plan_id = {text(plan_id)}",
        order="log_partition, position, attempt",
        page=page,
        size=size,
    )


def _last_attempts(tables: PublishedTables, where: str) -> str:
    """SQL for the last attempt at each item."""
    return f"""(SELECT * FROM {tables.current("apply_ledger")} WHERE {where}
        QUALIFY row_number() OVER (PARTITION BY plan_id, log_partition, position ORDER BY attempt DESC) = 1)"""


def _outcomes(tables: PublishedTables, plan_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    wanted = f"""plan_id IN ({marks(plan_ids)}) AND "action" = 'tombstone'"""
    rows = tables.rows(
        f"""SELECT plan_id, coalesce(outcome, '{_OPEN}') AS outcome, count(*) AS items
            FROM {_last_attempts(tables, wanted)} GROUP BY ALL ORDER BY outcome""",
        *plan_ids,
    )
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["plan_id"], {})[row["outcome"]] = row["items"]
    return found


def _missing_in(tables: PublishedTables, others: str, rows: str) -> Page:
    """A page of those `rows` of a plan whose records the rows `others` of another plan do not have."""
    same = " AND ".join(f"a.{column} IS NOT DISTINCT FROM b.{column}" for column in _KEY)
    return page_of(
        tables,
        "group_id, topic, partition, record_type, cause",
        f"{rows} a ANTI JOIN {others} b ON {same}",
        order="group_id, topic NULLS LAST, partition",
        size=DIFFERENCES,
    )


def _read_plan_json(
    archive: str, cluster_id: str, plan_id: str
) -> tuple[dict[str, Any] | None, str | None, str | None]:
    """(plan.json, its SHA-256, why it cannot be read)."""
    from pyarrow import fs as pafs
    from pydantic import ValidationError

    from sexton.archive.folder import filesystem
    from sexton.plans.plan import MANIFEST, PlanRecord
    from sexton.plans.read_plan import plan_folder, plan_sha256

    try:
        fs, root = filesystem(archive)
        path = f"{plan_folder(root, cluster_id, plan_id)}/{MANIFEST}"
        info = fs.get_file_info(path)
        if info.type != pafs.FileType.File:
            raise UsageError("the archive keeps no such plan")
        if (info.size or 0) > _MAX_BYTES:
            raise Refused("plan.json is too large")
        with fs.open_input_stream(path) as file:
            data: bytes = file.read()
        record = PlanRecord.model_validate_json(data)
    except ValidationError:
        return None, None, "plan.json is not a plan"
    except (SextonError, OSError) as error:
        return None, None, str(error)
    return record.model_dump(mode="json"), plan_sha256(data), None
