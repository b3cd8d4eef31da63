"""Counts of a run, small enough to read, mail and keep: summary.json, which the reports show.

summarize.py      counts a run folder into a Summary (summary.py); verdict_counts.py, arrow_counts.py: parts of it
audit_counts.py   counts of the newest audits in the lake, for run.json and the summary

pyarrow is imported when something is counted, so that --help is quick.
"""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexton.archive.folder import Folder
    from sexton.summary.summary import Summary

__all__ = ["summary_json", "write_summary"]

FILE = "summary.json"


def write_summary(folder: "Folder") -> "Summary":
    """Count the finished run folder `folder`, write its summary.json and return the summary."""
    from sexton.summary.summarize import summarize

    summary = summarize(folder)
    # ASCII, so that the file harms no terminal: anybody may choose the names in it.
    folder.write(summary_json(summary).encode("ascii"), FILE)
    return summary


def summary_json(summary: "Summary") -> str:
    """The summary as indented JSON in pure ASCII, with a newline at the end."""
    return json.dumps(summary.model_dump(mode="json"), indent=2) + "\n"
