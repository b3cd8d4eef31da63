"""A summary on a terminal, for the command line and the demo. Names are made safe (see `names`)."""

from collections.abc import Iterable

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sexton import as_text
from sexton.report import meanings
from sexton.report.names import harmless, short, visible
from sexton.report.run_page import status_of
from sexton.summary.summary import PolicyOutcome, Summary

ROWS = 5
_SENTENCE = 600
"""Maximum length of a sentence that may quote names, in terminal cells."""
_STYLES = {"good": "green", "warn": "yellow", "bad": "red"}


def print_summary(summary: Summary, console: Console) -> None:
    """Print the essentials of `summary` in about a screen: state, expiry, plan, and problems."""
    console.print(_head(summary))
    both = Table.grid(padding=(0, 6))
    both.add_row(_expiry(summary), _groups(summary))
    console.print(both)
    if summary.losing_groups.rows:
        console.print(_losing(summary))
    if summary.policy is not None:
        console.print(_policy(summary.policy))
    if summary.tombstones:
        console.print(_plan(summary))
    for line in _attention(summary):
        console.print(line)


def _head(summary: Summary) -> Panel:
    run = summary.run
    level, state = status_of(summary)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    _row(facts, "as of", as_text.instant(run.as_of_ms))
    _row(
        facts,
        "rules",
        f"{visible(run.profile)} ({visible(run.profile_source)}), "
        f"retention {as_text.duration(run.retention_ms)} ({visible(run.retention_source)})",
    )
    read = f"{len(run.log_partitions)} of {run.partition_count or '?'} log partitions"
    read = f"{read}, " if run.knows_places else ""
    _row(facts, "read", f"{short(run.source, 80)}: {read}coverage {visible(run.coverage)}")
    if run.coverage != "complete" and run.coverage_reason:
        _row(facts, visible(run.coverage), short(run.coverage_reason, _SENTENCE))
    _row(
        facts,
        "found",
        f"{as_text.some(summary.group_count, 'group')}, {as_text.some(summary.offsets.live, 'live offset')}, "
        f"{as_text.count(summary.offsets.pending)} pending, {as_text.count(sum(summary.offsets.unreachable.values()))} "
        "unreachable",
    )
    code = f"exit code {summary.exit_code}" if summary.exit_code else state
    verdict = Text(harmless(f"{code}: {summary.exit_reason}"), style=_STYLES[level])
    return Panel(Group(facts, verdict), title=Text(f"Sexton · {short(run.cluster_id)}"), title_align="left")


def _expiry(summary: Summary) -> Table:
    table = _table("Live offsets by expiry", "expires", "#offsets")
    for bucket in summary.expiring.buckets:
        _row(table, bucket.label, bucket.offsets, style="red" if bucket.up_to_ms == 0 and bucket.offsets else "")
    for reason, offsets in summary.expiring.never.items():
        _row(table, f"not: {visible(reason)}", offsets, style="dim")
    for reason, offsets in summary.expiring.unknown.items():
        _row(table, f"unknown: {visible(reason)}", offsets, style="yellow")
    return table


def _groups(summary: Summary) -> Table:
    table = _table("Groups", "type", "state", "#groups", "#offsets")
    for item in summary.groups[: 2 * ROWS]:
        _row(table, item.group_type, item.state, item.groups, item.offsets)
    return table


def _losing(summary: Summary) -> Table:
    listing = summary.losing_groups
    table = _table("Groups that lose offsets at the next cleanup", "group", "state", "#due", "#of")
    for group in listing.rows[:ROWS]:
        _row(table, short(group.group_id), group.state, group.due, group.offsets)
    left = listing.total - min(len(listing.rows), ROWS)
    if left > 0:
        _row(table, f"and {as_text.count(left)} more", "", "", "", style="dim")
    return table


def _plan(summary: Summary) -> Table:
    table = _table(f"The plan: {as_text.some(summary.tombstone_count, 'tombstone')}", "record", "cause", "#tombstones")
    for item in summary.tombstones[: 2 * ROWS]:
        _row(table, item.record_name, meanings.cause_meaning(visible(item.cause)), item.tombstones)
    return table


def _policy(policy: PolicyOutcome) -> Table:
    title = f"The policy: {as_text.count(policy.expire)} to expire, {as_text.count(policy.hold)} held"
    table = _table(title, "rule or hold", "owner", "#groups", "#expires", "#keeps", "#holds")
    for entry in policy.entries.rows[: 2 * ROWS]:
        _row(table, entry.name, short(entry.owner), entry.groups, entry.expire, entry.keep, entry.hold)
    left = policy.entries.total - min(len(policy.entries.rows), 2 * ROWS)
    if left > 0:
        _row(table, f"and {as_text.count(left)} more", "", "", "", "", "", style="dim")
    if policy.unmatched:
        _row(table, "no rule", "", "", 0, policy.unmatched, 0, style="dim")
    return table


def _odd(summary: Summary) -> Iterable[Text]:
    """Orphans and other findings, if any."""
    odd = summary.oddities
    for kind, offsets in odd.orphans_by_kind.items():
        yield Text(
            f"! {as_text.some(offsets, 'orphan')}, {visible(kind)}: {meanings.ORPHANS.get(kind, '')}", style="dim"
        )
    for offsets, what in (
        (odd.left_topic, "of topics that the active group no longer subscribes to"),
        (odd.behind_log_start, "before the log's start: what they point to is deleted"),
        (odd.beyond_log_end, "beyond the log's end: a consumer that comes back resets"),
    ):
        if offsets:
            yield Text(f"! {as_text.some(offsets, 'offset')} {what}", style="dim")


def _attention(summary: Summary) -> Iterable[Text]:
    """One line for each thing that needs attention."""
    for reason, records in summary.undecodable_by_reason.items():
        meaning = meanings.UNDECODABLE_REASONS.get(reason, "")
        yield Text(f"! {as_text.some(records, 'undecodable record')}, {visible(reason)}: {meaning}", style="red")
    for check in summary.failed_checks[:ROWS]:
        yield Text(
            f"! check failed ({visible(check.severity)}): {visible(check.table)}, {short(check.expectation, 120)}",
            style="red" if check.severity == "critical" else "yellow",
        )
    if summary.open_transactions.total:
        oldest = summary.open_transactions.rows[0]
        yield Text(
            f"! {as_text.some(summary.open_transactions.total, 'open transaction')}, the oldest for "
            f"{as_text.duration(oldest.age_ms)}: {as_text.some(summary.pinned_groups, 'group')} and "
            f"{as_text.some(summary.oddities.pinned, 'committed offset')} cannot expire",
            style="yellow",
        )
    if (replicas := summary.replicas) is not None:
        yield _audit(meanings.replicas_text(replicas), is_bad=bool(replicas.kinds))
    if (open_ones := summary.transactions) is not None:
        text = meanings.transactions_text(open_ones)
        yield _audit(text, is_bad=bool(open_ones.hanging), is_odd=bool(open_ones.overdue))
    if (lag := summary.lag) is not None:
        yield _audit(meanings.lag_text(lag), is_bad=bool(lag.losing or lag.resets))
    yield from _odd(summary)
    for warning in summary.warnings:
        yield Text(f"! {short(warning, _SENTENCE)}", style="yellow")


def _audit(text: str, *, is_bad: bool, is_odd: bool = False) -> Text:
    return Text(f"{'! ' if is_bad else ''}{visible(text)}", style="yellow" if is_bad or is_odd else "dim")


def _table(title: str, *columns: str) -> Table:
    """A table; a column whose name starts with # has numbers."""
    table = Table(
        title=Text(title), title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), header_style="dim"
    )
    for column in columns:
        table.add_column(column.lstrip("#"), justify="right" if column.startswith("#") else "left", overflow="fold")
    return table


def _row(table: Table, *cells: str | int, style: str = "") -> None:
    table.add_row(
        *(Text(as_text.count(cell) if isinstance(cell, int) else harmless(cell)) for cell in cells),
        style=style or None,
    )
