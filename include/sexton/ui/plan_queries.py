"""Plans as they are kept, how each differs from the one before, and what became of it.

What a plan says of itself comes from its plan.json in the archive; its rows come from the published table `tombstones`,
a page at a time. Reading a kept plan without trust, file by file, is the business of whoever applies it
(`plans.read_plan.read_plan`): a page says whether plan.json is the one that its run published, no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sexton.errors import Refused, SextonError, UsageError
from sexton.lake.read import PublishedRun
from sexton.ui.database import Rows, marks, text
from sexton.ui.group_queries import Page
from sexton.ui.published_tables import PublishedTables

PLANS_A_PAGE = 50
DIFFERENCES = 100
"""Rows of each side of a difference that a page shows."""
_MOST_BYTES = 16 * 1024 * 1024
_KEY = ("log_partition", "record_type", "group_id", "topic", "partition", "member_id", "regular_expression")
_OPEN = "open"
_LEFT = ("refused", "not_done", _OPEN)
"""Outcomes of items that may be tried again, as `ApplySummary.left` counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """A plan in a list: its run's facts, and what its ledger says, outcome -> items."""

    run: PublishedRun
    plan_id: str
    plan_sha256: str | None
    tombstones: int
    outcomes: Mapping[str, int]

    @property
    def status(self) -> str:
        """empty, made (never applied), tried (nothing came of it), partly, or applied: nothing is left to do."""
        if not self.tombstones or not self.outcomes:
            return "made" if self.tombstones else "empty"
        left = sum(items for outcome, items in self.outcomes.items() if outcome in _LEFT)
        settled = sum(self.outcomes.values()) - left
        if settled >= self.tombstones and not left:
            return "applied"
        return "partly" if settled else "tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDetail:
    """A plan: `record` is its plan.json, None where the archive has none that can be read; `problem` says why.

    `added` and `removed` are rows that it has and the plan of the run before has not, and the other way round; None
    where there is no run before.
    """

    line: PlanLine
    record: Mapping[str, Any] | None
    sha256: str | None
    problem: str | None
    rows: Page
    before: PlanLine | None
    added: Page | None
    removed: Page | None


def plan_lines(tables: PublishedTables, runs: Sequence[PublishedRun]) -> list[PlanLine]:
    """The plans of `runs`, the newest first."""
    planned = [run for run in reversed(runs) if run.row.get("plan_id")]
    outcomes = _outcomes(tables, [run.row["plan_id"] for run in planned])
    return [_line(run, outcomes.get(run.row["plan_id"], {})) for run in planned]


def plan_detail(
    tables: PublishedTables, runs: Sequence[PublishedRun], plan_id: str, *, archive: str, page: int, size: int
) -> PlanDetail | None:
    """A plan that one of `runs` published; None where none of them did. `archive` is where plans are kept."""
    numbers = [number for number, run in enumerate(runs) if run.row.get("plan_id") == plan_id]
    if not numbers:
        return None
    number = numbers[-1]
    line, run = plan_lines(tables, [runs[number]])[0], runs[number]
    record, sha256, problem = _read_plan_json(archive, run.key.cluster_id, plan_id)
    before = next((each for each in reversed(runs[:number]) if each.row.get("plan_id") != plan_id), None)
    rows = tables.of_run(run, "tombstones")
    first = min((page - 1) * size, max(line.tombstones - 1, 0) // size * size)
    listed = tables.rows(
        f"""SELECT log_partition, position, record_type, group_id, topic, partition, cause, target_log_offset,
            target_committed_offset FROM {rows} ORDER BY log_partition, position LIMIT {size} OFFSET {first}"""
    )
    return PlanDetail(
        line=line,
        record=record,
        sha256=sha256,
        problem=problem,
        rows=Page(rows=listed, total=line.tombstones, first=first, size=size),
        before=plan_lines(tables, [before])[0] if before and before.row.get("plan_id") else None,
        added=_without(tables, rows, tables.of_run(before, "tombstones")) if before else None,
        removed=_without(tables, tables.of_run(before, "tombstones"), rows) if before else None,
    )


def ledger_summary(tables: PublishedTables, cluster_id: str) -> Rows:
    """What was applied and restored, a row for each plan or restore, the newest first."""
    return tables.rows(
        f"""SELECT plan_id, "action", min(intent_at_ms) AS first_ms, max(outcome_at_ms) AS last_ms,
            max(attempt) AS attempts, count(DISTINCT group_id) AS "groups", count(*) AS items,
            count(*) FILTER (outcome IN ('done', 'raced')) AS done,
            count(*) FILTER (outcome IN ('changed_since', 'gone')) AS left_alone,
            count(*) FILTER (outcome IN ('refused', 'not_done')) AS not_done,
            count(*) FILTER (outcome IS NULL) AS open, list_sort(list(DISTINCT approved_by)) AS approved_by,
            max(window_ms) AS window_ms
            FROM {_last_attempts(tables, cluster_id)} GROUP BY ALL ORDER BY first_ms DESC, plan_id"""
    )


def ledger_of(tables: PublishedTables, cluster_id: str, plan_id: str, *, page: int, size: int) -> Page:
    """Every attempt at every item of a plan or restore, in the order of the plan."""
    source = f"{tables.current('apply_ledger')} WHERE cluster_id = {text(cluster_id)} AND plan_id = {text(plan_id)}"
    total = tables.rows(f"SELECT count(*) AS total FROM {source}")[0]["total"]
    first = min((page - 1) * size, max(total - 1, 0) // size * size)
    rows = tables.rows(
        f"""SELECT * EXCLUDE (cluster_id, as_of_ms, run_id) FROM {source}
            ORDER BY log_partition, position, attempt LIMIT {size} OFFSET {first}"""
    )
    return Page(rows=rows, total=total, first=first, size=size)


def _last_attempts(tables: PublishedTables, cluster_id: str) -> str:
    """Each item as its last attempt left it."""
    return f"""(SELECT * FROM {tables.current("apply_ledger")} WHERE cluster_id = {text(cluster_id)}
        QUALIFY row_number() OVER (PARTITION BY plan_id, log_partition, position ORDER BY attempt DESC) = 1)"""


def _outcomes(tables: PublishedTables, plan_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    rows = tables.rows(
        f"""SELECT plan_id, coalesce(outcome, '{_OPEN}') AS outcome, count(*) AS items
            FROM (SELECT * FROM {tables.current("apply_ledger")}
                WHERE plan_id IN ({marks(plan_ids)}) AND "action" = 'tombstone'
                QUALIFY row_number() OVER (PARTITION BY plan_id, log_partition, position ORDER BY attempt DESC) = 1)
            GROUP BY ALL ORDER BY outcome""",
        *plan_ids,
    )
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["plan_id"], {})[row["outcome"]] = row["items"]
    return found


def _line(run: PublishedRun, outcomes: Mapping[str, int]) -> PlanLine:
    counted = {each["table"]: each["rows"] for each in run.row["counts"] or ()}
    return PlanLine(
        run=run,
        plan_id=run.row["plan_id"],
        plan_sha256=run.row.get("plan_sha256"),
        tombstones=counted.get("tombstones", 0),
        outcomes=outcomes,
    )


def _without(tables: PublishedTables, rows: str, others: str) -> Page:
    """The rows of one plan whose records another does not have."""
    same = " AND ".join(f"a.{column} IS NOT DISTINCT FROM b.{column}" for column in _KEY)
    source = f"{rows} a ANTI JOIN {others} b ON {same}"
    total = tables.rows(f"SELECT count(*) AS total FROM {source}")[0]["total"]
    listed = tables.rows(
        f"""SELECT group_id, topic, partition, record_type, cause FROM {source}
            ORDER BY group_id, topic NULLS LAST, partition LIMIT {DIFFERENCES}"""
    )
    return Page(rows=listed, total=total, first=0, size=DIFFERENCES)


def _read_plan_json(
    archive: str, cluster_id: str, plan_id: str
) -> tuple[dict[str, Any] | None, str | None, str | None]:
    """(plan.json, its SHA-256, why there is none)."""
    from pyarrow import fs as pafs
    from pydantic import ValidationError

    from sexton.plans.plan import MANIFEST, PlanRecord
    from sexton.plans.read_plan import plan_folder, plan_sha256
    from sexton.runs.source import filesystem

    try:
        fs, root = filesystem(archive)
        place = f"{plan_folder(root, cluster_id, plan_id)}/{MANIFEST}"
        info = fs.get_file_info(place)
        if info.type != pafs.FileType.File:
            raise UsageError("the archive keeps no such plan")
        if (info.size or 0) > _MOST_BYTES:
            raise Refused("plan.json is too large")
        with fs.open_input_stream(place) as file:
            data: bytes = file.read()
        record = PlanRecord.model_validate_json(data)
    except ValidationError:
        return None, None, "plan.json is not a plan"
    except (SextonError, OSError) as error:
        return None, None, str(error)
    return record.model_dump(mode="json"), plan_sha256(data), None
