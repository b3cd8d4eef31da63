"""DIR/report.html: the summary as one page (templates.py makes pages safe)."""

from sexton.as_text import some
from sexton.report import meanings
from sexton.report.charts import bar_rows, timeline_plot
from sexton.report.templates import render
from sexton.summary.summary import LogPartition, Summary

LOG_PARTITIONS_SHOWN = 50
CHART_ROWS = 12


def render_page(summary: Summary) -> str:
    """The page of `summary`, as HTML text."""
    return render(
        "run.html",
        s=summary,
        status=status_of(summary),
        plot=timeline_plot(summary.expiring.timeline, as_of_ms=summary.run.as_of_ms),
        timeline_span=summary.expiring.timeline.bin_ms * len(summary.expiring.timeline.offsets),
        group_bars=bar_rows(
            [(f"{one.group_type} · {one.state}", some(one.offsets, "offset"), one.groups, 0) for one in summary.groups]
        ),
        biggest_bars=bar_rows(
            [(one.group_id, one.state, one.offsets, one.due) for one in summary.biggest_groups.rows[:CHART_ROWS]]
        ),
        tombstone_bars=bar_rows(
            [
                (one.record_name, f"{one.cause} · type {one.record_type}", one.tombstones, 0)
                for one in summary.tombstones
            ]
        ),
        fate_bars=bar_rows([(fate, meanings.FATES.get(fate, ""), values, 0) for fate, values in summary.fates.items()]),
        log_partitions=troubled_first(summary.log_partitions)[:LOG_PARTITIONS_SHOWN],
        meanings=meanings,
    )


def status_of(summary: Summary) -> tuple[str, str]:
    """(CSS class, label) of how the run ended."""
    match summary.exit_code:
        case 0 if summary.warnings or summary.failed_checks or summary.run.coverage != "complete":
            return "warn", "complete, with warnings"
        case 0:
            return "good", "complete"
        case 3:
            return "bad", "data quality failed"
        case 5:
            return "bad", "undecodable input"
        case code:
            return "bad", f"exit {code}"


def troubled_first(partitions: list[LogPartition]) -> list[LogPartition]:
    """Log partitions with problems, then the others in order."""
    return sorted(partitions, key=lambda p: (not (p.load_would_fail or p.undecodable or p.blocked), p.log_partition))
