"""`sexton audit`: replay, judge, plan and validate a log, with no broker and no Airflow."""

import json as jsonlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from sexton.cli.command import Without
from sexton.cli.input_options import ReplayInput
from sexton.cli.options import OUTPUT, Json, read_policy_file, required
from sexton.cli.output import console, print_aside, print_doubts
from sexton.errors import UsageError

MARKER = ".sexton-run"
_OF_A_RUN = (
    *("fold", "partial", "internal", "batches", "plan", "dq", "outcome"),
    *("run.json", "report.html", "summary.json", MARKER),
)
"""What a run writes to its folder in addition to its tables."""


def audit(
    *,
    replay: Annotated[ReplayInput, Without({"run"})],
    out: Path = required(
        "--out DIR", "Receives tables, batches, report.html and summary.json; an earlier run in it is replaced.", OUTPUT
    ),
    json: Json = False,
) -> int:
    """Replay a log, reach a verdict on every offset, plan the tombstones and check the result.

    Needs neither a broker nor Airflow, and changes nothing outside of --out. With --policy the plan is what the rules
    expire and no hold protects; the report also shows what the broker's own sweep would delete.

    # a broker's disk, or a copy of one
    sexton audit --segments /var/kafka-logs --out run

    # as of an instant
    sexton audit --segments backup --as-of 2026-11-21T04:00:00Z --out run

    # what one day of retention would delete
    sexton audit --archive s3://keep/offsets --retention-minutes 1440 --out run

    # a log that a 2.8 broker wrote, by its own rules
    sexton audit --segments backup --profile group_metadata_manager:2.8 --out run

    # what a retention policy would delete
    sexton audit --archive s3://keep/offsets --policy retention.yaml --out run

    # for scripts
    sexton audit --segments backup --out run --json | jq .expiring.buckets
    """
    replay.check("audit")
    rules = read_policy_file(replay.policy)
    claim(out, apart_from=replay.folders)

    # Only now: numba and pyarrow take seconds to import. This process and the engine import them at the same time.
    from sexton.runs.processes import engine_here

    with engine_here(quiet=json, reads=replay.folders) as engine:
        from sexton.pipeline.standalone import run_audit
        from sexton.report import write_report
        from sexton.runs.engine import keep_imports
        from sexton.summary import summary_json

        keep_imports()
        record = run_audit(engine, replay.replay("audit"), out, rules)
    print_doubts(record.profile_doubts)
    summary = write_report(out)
    if json:
        sys.stdout.write(summary_json(summary))
    else:
        from sexton.report.terminal import print_summary

        terminal = console()
        rest = [text for text in summary.warnings if text not in record.profile_doubts]  # printed above
        print_summary(summary.model_copy(update={"warnings": rest}), terminal)
        terminal.print(f"\nreport  {out / 'report.html'}\ntables  {out}/<table>/*.parquet", soft_wrap=True)
    if summary.exit_code:
        print_aside(f"error: {out}: {summary.exit_reason} (see {out / 'report.html'})")
    return summary.exit_code


def claim(out: Path, *, apart_from: Sequence[Path]) -> None:
    """Take `out` for a run: it must be new, empty, or hold nothing but an earlier run; anything else is refused.

    `apart_from` are the folders of the input, which must neither be in `out` nor contain it.
    """
    for folder in apart_from:
        one, other = out.resolve(), folder.resolve()
        if one == other or one in other.parents or other in one.parents:
            raise UsageError("overlaps the input", where=out, fix="give --out a folder of its own")
    if out.exists() and not out.is_dir():
        raise UsageError("is not a folder", where=out, fix="give --out a folder of its own")
    from sexton.tables import TABLES

    found = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    foreign = [name for name in found if name not in {*TABLES, *_OF_A_RUN} or (out / name).is_symlink()]
    if foreign or (found and not _is_run(out)):
        what = f"holds {foreign[0]!r}" if foreign else "is not empty"
        raise UsageError(f"{what} and is no earlier run", where=out, fix="give --out a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    # Written first, so that a run that was killed half way can be replaced too.
    (out / MARKER).write_text("A run folder of Sexton: the next run with this --out replaces it.\n", encoding="utf-8")


def _is_run(out: Path) -> bool:
    if (out / MARKER).is_file():
        return True
    try:
        record = jsonlib.loads((out / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and "run_id" in record
