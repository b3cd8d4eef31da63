"""plan.html: who would lose what, for the person who approves it (templates.py makes pages safe).

The page shows the first rows of the groups that lose most; the plan's files have every row. The page uses no
clock: the same plan has the same page, and its hash is part of what is approved.
"""

from collections import Counter, defaultdict
from typing import Any

from sexton.coordinator.batches import MAX_BATCH_BYTES
from sexton.plans.plan import Losses, PlanRecord
from sexton.plans.plan_content import PlanContent
from sexton.report import meanings
from sexton.report.templates import render

PARTITIONS_SHOWN = 60
WARNINGS_SHOWN = 30


def render_plan(content: PlanContent) -> bytes:
    """The page of a plan, as HTML in UTF-8."""
    record = content.record
    shown = content.shown
    html = render(
        "plan.html",
        p=record,
        status=_status(record),
        owners=owners_of(record.losses),
        groups=shown.groups,
        groups_with_offsets=shown.groups_with_offsets,
        bare=shown.bare,
        bare_count=shown.bare_count,
        most_bytes=record.max_message_bytes or MAX_BATCH_BYTES,
        partitions=record.batches[:PARTITIONS_SHOWN],
        warnings=record.warnings[:WARNINGS_SHOWN],
        meanings=meanings,
    )
    return html.encode("utf-8")


def owners_of(losses: list[Losses]) -> list[dict[str, Any]]:
    """Numbers of losses by owner of the rules (None: the broker's retention), the largest first."""
    sums: dict[str | None, Counter[str]] = defaultdict(Counter)
    for loss in losses:
        sums[loss.owner].update(offsets=loss.offsets, deleted_groups=loss.deleted_groups)
    found = [{"owner": owner, **own} for owner, own in sums.items()]
    return sorted(found, key=lambda loss: (-loss["offsets"], loss["owner"] or ""))


def _status(record: PlanRecord) -> tuple[str, str]:
    """(CSS class, label) of the plan's status."""
    if record.is_empty:
        return "good", "nothing to do"
    if record.is_what_if:
        return "bad", "a what-if: never applied"
    if record.over_limits:
        return "bad", "over its limits: never applied"
    return ("warn", "to be approved, with warnings") if record.warnings else ("good", "to be approved")
