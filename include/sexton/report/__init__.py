"""Reports for people: summary.json, report.html and terminal output of a run, the page of a plan, texts for approvers.

summarize.py    counts a run folder into a Summary (summary.py); verdict_counts.py, arrow_counts.py: parts of it
run_page.py     report.html (run.html, charts.py); terminal.py: the same on a terminal
plan_page.py    plan.html, the page of a plan; approval_text.py: what people read before they approve
meanings.py     what the codes in the tables mean, and sentences about plans
names.py        names made safe to show; templates.py: Jinja2

pyarrow and Jinja2 are imported when a report is written, so that --help is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexton.archive.folder import Folder
    from sexton.report.summary import Summary

__all__ = ["read_summary", "write_report"]


def write_report(root: "Folder | Path | str") -> "Summary":
    """Write summary.json and report.html of the finished run folder at `root`; returns the summary."""
    from sexton.archive.folder import Folder
    from sexton.report.run_page import render_page
    from sexton.report.summarize import summarize

    folder = root if isinstance(root, Folder) else Folder(root)
    summary = summarize(folder)
    # ASCII, so that the file harms no terminal: anybody may choose the names in it.
    folder.write(summary_json(summary).encode("ascii"), "summary.json")
    folder.write(render_page(summary).encode("utf-8"), "report.html")
    return summary


def read_summary(root: Path | str) -> "Summary":
    """The summary in the run folder at `root`."""
    from sexton.errors import UsageError
    from sexton.report.summary import Summary

    path = Path(root) / "summary.json"
    try:
        return Summary.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no summary here: {str(error).splitlines()[0]}", where=path, fix="run `sexton audit` first"
        ) from None


def summary_json(summary: "Summary") -> str:
    """The summary as indented JSON in pure ASCII, with a newline at the end."""
    import json

    return json.dumps(summary.model_dump(mode="json"), indent=2) + "\n"
