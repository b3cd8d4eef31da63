"""rehearsal.html: a rehearsal as one page, with its verdict on top (templates.py makes pages safe)."""

import json

from sexton.rehearsal.answers import MEANINGS
from sexton.rehearsal.faults import ANSWERS, WHEN
from sexton.rehearsal.rehearse import NO_WAY_BACK, NOT_SAFE, SAFE, VERDICTS, Rehearsal
from sexton.report.templates import render

ROWS_SHOWN = 200
_CLASSES = {SAFE: "good", NO_WAY_BACK: "warn", NOT_SAFE: "bad"}


def render_rehearsal(found: Rehearsal) -> str:
    """The page of a rehearsal, as HTML text."""
    troubled = {one.log_partition for one in found.faults}
    return render(
        "rehearsal.html",
        r=found,
        status=(_CLASSES[found.verdict], VERDICTS[found.verdict]),
        loads=sorted(found.loads, key=lambda one: (one.log_partition not in troubled, one.log_partition))[:ROWS_SHOWN],
        faults=[
            (one, WHEN[one.when], ANSWERS.get(one.answer, one.answer), json.dumps(one.record, indent=2).splitlines())
            for one in found.faults
        ],
        groups=sorted(found.groups, key=lambda one: (not one.is_breaking, one.group_id))[:ROWS_SHOWN],
        ready=sorted(found.readiness, key=lambda one: (one.converts, one.group_id))[:ROWS_SHOWN],
        ready_count=sum(one.converts for one in found.readiness),
        meanings=MEANINGS,
        rows_shown=ROWS_SHOWN,
    )
