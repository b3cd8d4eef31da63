"""incident.html: what happened to a group, as one page (templates.py makes pages safe)."""

import hashlib
import json

from sexton.incident.callers import Certainty
from sexton.incident.document import Incident
from sexton.report import meanings
from sexton.report.templates import render

ROWS_SHOWN = 500
_CERTAINTIES = {
    Certainty.CERTAIN: ("good", "certain"),
    Certainty.LIKELY: ("warn", "likely"),
    Certainty.CANDIDATES: ("warn", "candidates"),
    Certainty.NOT_LOGGED: ("", "not logged"),
}


def render_incident(incident: Incident, *, json_text: str, json_name: str) -> str:
    """The page of an incident, as HTML text. `json_text` is the same document, kept in the file `json_name`."""
    return render(
        "incident.html",
        i=incident,
        who=[(one, *_CERTAINTIES[one.certainty]) for one in incident.who],
        events=incident.events[-ROWS_SHOWN:],
        evidence=[
            (one, None if one.record is None else json.dumps(one.record.get("value"), ensure_ascii=False))
            for one in incident.evidence[-ROWS_SHOWN:]
        ],
        rows_shown=ROWS_SHOWN,
        json_name=json_name,
        json_sha256=hashlib.sha256(json_text.encode()).hexdigest(),
        meanings=meanings,
    )
