"""Reports for people: report.html and terminal output of a run, the page of a plan, texts for approvers.

run_page.py     report.html of a summary (run.html, charts.py); terminal.py: the same on a terminal
rehearsal_page.py    rehearsal.html, a rehearsal of another release
incident_page.py     incident.html, what happened to a group
plan_page.py    plan.html, the page of a plan; approval_page.py: what people read before they approve
meanings.py     what the codes in the tables mean, and sentences about plans
names.py        names made safe to show; templates.py: Jinja2

Jinja2 is imported when a report is written, so that --help is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sexton.summary import write_summary

if TYPE_CHECKING:
    from sexton.archive.folder import Folder
    from sexton.summary.summary import Summary

__all__ = ["write_report"]


def write_report(root: "Folder | Path | str") -> "Summary":
    """Write summary.json and report.html of the finished run folder at `root`; returns the summary."""
    from sexton.archive.folder import Folder
    from sexton.report.run_page import render_page

    folder = root if isinstance(root, Folder) else Folder(root)
    summary = write_summary(folder)
    folder.write(render_page(summary).encode("utf-8"), "report.html")
    return summary
