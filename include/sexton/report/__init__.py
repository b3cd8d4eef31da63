"""What a run found, told to people: counted once (`Summary`), then as summary.json, report.html and on a terminal.

Imports of pyarrow and Jinja2 happen when a report is written: the command line's --help does not wait for them.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sexton.report.summary import Summary

__all__ = ["read_summary", "write_report"]


def write_report(root: Path | str) -> "Summary":
    """Count the finished run folder at `root`, write DIR/summary.json and DIR/report.html, and return the summary."""
    from sexton.report.run_page import render_page
    from sexton.report.summarize import summarize
    from sexton.runs.folder import write_bytes

    summary = summarize(root)
    # ASCII, so that no terminal is harmed by looking at the file: names in it are whatever somebody chose.
    write_bytes(Path(root) / "summary.json", summary_json(summary).encode("ascii"))
    write_bytes(Path(root) / "report.html", render_page(summary).encode("utf-8"))
    return summary


def read_summary(root: Path | str) -> "Summary":
    """The summary that `write_report` left in the run folder at `root`."""
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
    """The summary as machine output: indented JSON in pure ASCII, one newline at its end."""
    import json

    return json.dumps(summary.model_dump(mode="json"), indent=2) + "\n"
