"""The history of a group from published tables: its states in the runs, and the changes between them.

Unlike a log, runs only describe instants and intervals: commits are not counted here, and a state that appeared and
disappeared between two runs is not seen. Every disappearance and its cause is included, also for instants whose runs
have expired.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sexton.as_text import some
from sexton.coordinator.expiry import SweepBlock, block_in
from sexton.coordinator.profiles import profile_of
from sexton.errors import NoCoverage
from sexton.history.events import (
    NOWHERE,
    Event,
    NextVerdict,
    Story,
    cause_of,
    event_of,
    instant_of,
    order_of,
    removal_cause,
    state_words,
)
from sexton.lake.catalog import Lake
from sexton.lake.database import Rows, marks
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun, runs_of_cluster
from sexton.tables.change_causes import DISAPPEARANCES

_CHANGES = "offset_changes"
_KNOWN = ("group_type", "state", "protocol_type", "member_count")
"""The columns of `groups` that make up a group's state."""
Row = dict[str, Any]


def published_story(
    lake: Lake,
    group_id: str,
    *,
    is_requested: Callable[[str, int], bool],
    as_of_ms: int | None,
    cluster_id: str | None = None,
) -> tuple[PublishedRun, Story]:
    """The history of a group in the runs up to `as_of_ms` (None: all runs), and the newest of these runs; NoCoverage if
    no run is published.

    Without `cluster_id` the tables must be of one cluster only, else UsageError.
    """
    runs = [run for run in runs_of_cluster(lake, cluster_id) if as_of_ms is None or run.key.as_of_ms <= as_of_ms]
    if not runs:
        raise NoCoverage("no run is published at or before that instant", where=lake.where)
    tables, newest = PublishedTables(lambda: lake), runs[-1]

    def of_newest(table: str) -> Rows:
        rows = tables.rows(f"SELECT * FROM {tables.of_run(newest, table)} WHERE group_id = ?", group_id)
        return [row for row in rows if is_requested(*_key(row))]

    source, _ = tables.between(_CHANGES, newest.key.cluster_id, 0, newest.key.as_of_ms)
    changes = changes_of_group(tables, source, runs, group_id)
    states = states_of_group(tables, runs, group_id)
    requested = [row for row in changes if is_requested(*_key(row))]
    events = [*_seen(states, runs, changes), *map(_changed, writes(requested))]
    verdicts = {_key(row): row for row in of_newest("offset_verdicts")}
    offsets = sorted(of_newest("committed_offsets"), key=_key)
    state = states.get(newest.key.as_of_ms)
    home = next((row["log_partition"] for row in (state, *offsets) if row is not None), None)
    return newest, Story(
        events=sorted(events, key=lambda event: (event.timestamp_ms or 0, event.log_offset)),
        state=_words(state),
        log_partition=home,
        block=None if home is None else block_of(tables, newest, home),
        next_verdicts=[
            NextVerdict.from_row({**verdicts[_key(row)], **row}) for row in offsets if _key(row) in verdicts
        ],
    )


def block_of(tables: PublishedTables, run: PublishedRun, log_partition: int) -> SweepBlock | None:
    """The failure of the broker's sweep of a log partition, from a published run."""
    rows = tables.rows(
        f"SELECT * FROM {tables.of_run(run, 'load_profile')} WHERE log_partition = ?", int(log_partition)
    )
    return next((block for row in rows if (block := block_in(row)) is not None), None)


def changes_between_runs(lake: Lake, before: PublishedRun, after: PublishedRun, group_ids: Sequence[str]) -> list[Row]:
    """Rows of offset_changes of the given groups from the runs after `before` up to `after`, expired runs included."""
    tables = PublishedTables(lambda: lake)
    source, _ = tables.between(_CHANGES, after.key.cluster_id, before.key.as_of_ms + 1, after.key.as_of_ms)
    return tables.rows(f"SELECT * FROM {source} WHERE group_id IN ({marks(group_ids)})", *group_ids)


# --- what runs show of a group


def states_of_group(tables: PublishedTables, runs: Sequence[PublishedRun], group_id: str) -> dict[int, Row]:
    """The group's rows of `groups`, by as_of_ms."""
    if not runs:
        return {}
    rows = tables.rows(f"SELECT * FROM {tables.of_runs(runs, 'groups')} WHERE group_id = ?", group_id)
    return {row["as_of_ms"]: row for row in rows}


def changes_of_group(tables: PublishedTables, source: str, runs: Sequence[PublishedRun], group_id: str) -> list[Row]:
    """A group's rows of `source` (PublishedTables.between of offset_changes), the oldest first.

    For the instants of `runs` only rows of these runs; for instants whose runs have expired, all rows.
    """
    ids, instants = [run.key.run_id for run in runs], [run.key.as_of_ms for run in runs]
    return tables.rows(
        f"""SELECT * FROM {source}
            WHERE group_id = ? AND (run_id IN ({marks(ids)}) OR (as_of_ms IN ({marks(instants)})) IS NOT TRUE)
            ORDER BY as_of_ms, log_offset, topic, partition""",
        group_id,
        *ids,
        *instants,
    )


def turns(
    states: Mapping[int, Row], runs: Sequence[PublishedRun]
) -> Iterator[tuple[PublishedRun, PublishedRun | None, Row | None, Row | None]]:
    """The runs in which the group differs from the previous run: (run, previous run, its row of `groups`, row now)."""
    before, previous = None, None
    for run in runs:
        now = states.get(run.key.as_of_ms)
        if _known(now) != _known(before):
            yield run, previous, before, now
        before, previous = now, run


def writes(changes: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows of offset_changes, in lists of those that belong together: removals of one write with the same cause and
    plan, or values set in one interval."""

    def together(row: Row) -> tuple[Any, ...]:
        at_ms = instant_of(row) if row["kind"] in DISAPPEARANCES else None
        return row["as_of_ms"] if at_ms is None else at_ms, cause_of(row), row["by_plan_id"] or ""

    for _, rows in groupby(sorted(changes, key=lambda row: (together(row), order_of(row))), key=together):
        yield list(rows)


def _seen(states: Mapping[int, Row], runs: Sequence[PublishedRun], changes: Sequence[Row]) -> Iterator[Event]:
    """An event for each run in which the group differs from the previous run."""
    for run, previous, _, now in turns(states, runs):
        at_ms, since_ms = run.key.as_of_ms, -1 if previous is None else previous.key.as_of_ms
        if now is not None:
            yield Event(timestamp_ms=at_ms, log_offset=NOWHERE, what="became", detail=_words(now))
            continue
        causes = removal_cause(
            [row for row in changes if since_ms < row["as_of_ms"] <= at_ms], profile_of(run.row["profile"])
        )
        detail = f"no such group in this run; it was removed: {' or '.join(causes)}"
        yield Event(timestamp_ms=at_ms, log_offset=NOWHERE, what="removed", detail=detail, causes=causes)


def _changed(rows: Sequence[Row]) -> Event:
    first = rows[0]
    if first["kind"] in DISAPPEARANCES:
        return event_of(cause_of(first), rows)
    detail = f"{some(len(rows), 'offset')} set to another value than when the interval began"
    at_ms, what = first["as_of_ms"], first["kind"]
    return Event(timestamp_ms=at_ms, log_offset=NOWHERE, what=what, detail=detail, offsets=tuple(rows))


def _known(row: Row | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(row[name] for name in _KNOWN)


def _words(row: Row | None) -> str:
    if row is None:
        return ""
    return state_words(row["group_type"], row["protocol_type"], row["state"], row["member_count"])


def _key(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]
