"""The history of a group from published tables: its states in the runs, and the changes between them.

Runs describe instants and intervals, a log every record: commits are not counted here, and a state that came and went
between two runs is not seen. Every disappearance and its cause is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sexton.coordinator.expiry import SweepBlock, block_in
from sexton.coordinator.profiles import profile_of
from sexton.errors import NoCoverage
from sexton.history.events import (
    NOWHERE,
    Event,
    cause_of,
    counted,
    event_of,
    instant_of,
    order_of,
    removal_cause,
    state_words,
)
from sexton.history.log_story import NextVerdict
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, load, plain, runs_of_cluster
from sexton.tables.change_kinds import DISAPPEARANCES

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

_CHANGES, _GROUPS, _VERDICTS, _OFFSETS = "offset_changes", "groups", "offset_verdicts", "committed_offsets"
_PROFILE = "load_profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStory:
    """The history of a group; `state` is "" if the newest run, `run`, has no such group.

    `block` is what makes the broker's sweep of the group's log partition fail, or None.
    """

    run: PublishedRun
    events: list[Event]
    state: str
    next_ones: list[NextVerdict]
    log_partition: int | None = None
    block: SweepBlock | None = None


def published_story(
    lake: Lake,
    group_id: str,
    *,
    topic: str | None,
    partition: int | None,
    as_of_ms: int | None,
    cluster_id: str | None = None,
) -> PublishedStory:
    """The history of a group in the runs up to `as_of_ms` (None: all); NoCoverage if none is published.

    Without `cluster_id` the tables must be of one cluster only, else UsageError.
    """
    runs = [run for run in runs_of_cluster(lake, cluster_id) if as_of_ms is None or run.key.as_of_ms <= as_of_ms]
    if not runs:
        raise NoCoverage("no run is published at or before that instant", where=lake.where)
    newest = runs[-1]

    def requested(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in rows if topic in (None, row["topic"]) and partition in (None, row["partition"])]

    ledger = _ledger(lake, group_id, runs)
    states = {row["as_of_ms"]: row for row in _rows(lake, _GROUPS, group_id, runs)}
    events = [*_seen(states, runs, ledger), *_changed(requested(ledger))]
    verdicts = {_key(row): row for row in requested(_rows(lake, _VERDICTS, group_id, [newest]))}
    offsets = requested(_rows(lake, _OFFSETS, group_id, [newest]))
    state = states.get(newest.key.as_of_ms)
    home = next((row["log_partition"] for row in (state, *offsets) if row is not None), None)
    return PublishedStory(
        run=newest,
        events=sorted(events, key=lambda event: (event.timestamp_ms or 0, event.log_offset)),
        state=_words(state),
        log_partition=home,
        block=None if home is None else block_of(lake, newest, home),
        next_ones=[_next(row, verdicts[_key(row)]) for row in sorted(offsets, key=_key) if _key(row) in verdicts],
    )


def _rows(lake: Lake, table: str, group_id: str, runs: Sequence[PublishedRun]) -> list[dict[str, Any]]:
    """A group's rows of published runs, from the current tables: partitions are only replaced as a whole."""
    return _scan(lake, table, group_id, _of(runs))


def block_of(lake: Lake, run: PublishedRun, log_partition: int) -> SweepBlock | None:
    """What makes the broker's sweep of a log partition fail, from a published run."""
    from pyiceberg.expressions import And, EqualTo

    rows = _rows_where(lake, _PROFILE, And(EqualTo("log_partition", log_partition), _of([run])))
    return next((block for row in rows if (block := block_in(row)) is not None), None)


def _ledger(lake: Lake, group_id: str, runs: Sequence[PublishedRun]) -> list[dict[str, Any]]:
    """A group's rows of offset_changes: of published runs, and of instants whose runs have expired.

    `runs` are those of one cluster, the newest last.
    """
    from pyiceberg.expressions import And, EqualTo, LessThanOrEqual, NotIn, Or

    newest = runs[-1].key
    expired = And(
        EqualTo("cluster_id", newest.cluster_id),
        LessThanOrEqual("as_of_ms", newest.as_of_ms),
        NotIn("as_of_ms", {run.key.as_of_ms for run in runs}),
    )
    return _scan(lake, _CHANGES, group_id, Or(_of(runs), expired))


def changes_between_runs(
    lake: Lake, before: PublishedRun, after: PublishedRun, group_ids: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows of offset_changes of some groups, of the runs after `before` up to `after`; expired runs count too."""
    from pyiceberg.expressions import And, EqualTo, GreaterThan, In, LessThanOrEqual

    where = And(
        EqualTo("cluster_id", after.key.cluster_id),
        GreaterThan("as_of_ms", before.key.as_of_ms),
        LessThanOrEqual("as_of_ms", after.key.as_of_ms),
        In("group_id", set(group_ids)),
    )
    return _rows_where(lake, _CHANGES, where)


def _of(runs: Sequence[PublishedRun]) -> "BooleanExpression":
    """The rows of some runs of one cluster; a run of another may have the same id."""
    from pyiceberg.expressions import And, EqualTo, In

    ids, instants = {run.key.run_id for run in runs}, {run.key.as_of_ms for run in runs}
    return And(EqualTo("cluster_id", runs[0].key.cluster_id), In("as_of_ms", instants), In("run_id", ids))


def _scan(lake: Lake, table: str, group_id: str, where: "BooleanExpression") -> list[dict[str, Any]]:
    from pyiceberg.expressions import And, EqualTo

    return _rows_where(lake, table, And(EqualTo("group_id", group_id), where))


def _rows_where(lake: Lake, table: str, where: "BooleanExpression") -> list[dict[str, Any]]:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        rows = load(lake, table).scan(row_filter=where).to_arrow()
    except NoSuchTableError:
        return []
    found: list[dict[str, Any]] = plain(rows).to_pylist()
    return found


def _seen(
    states: Mapping[int, Mapping[str, Any]], runs: Sequence[PublishedRun], changes: Sequence[Mapping[str, Any]]
) -> Iterator[Event]:
    """An event for each run in which the group differs from the run before."""
    before, since_ms = "", -1
    for run in runs:
        as_of_ms = run.key.as_of_ms
        described = _words(states.get(as_of_ms))
        if described and described != before:
            yield Event(timestamp_ms=as_of_ms, log_offset=NOWHERE, what="became", detail=described)
        elif described != before:
            between = [row for row in changes if since_ms < row["as_of_ms"] <= as_of_ms]
            causes = removal_cause(between, profile_of(run.row["profile"]))
            detail = f"no such group in this run; it was removed: {' or '.join(causes)}"
            yield Event(timestamp_ms=as_of_ms, log_offset=NOWHERE, what="removed", detail=detail, causes=causes)
        before, since_ms = described, as_of_ms


def _changed(changes: Sequence[dict[str, Any]]) -> Iterator[Event]:
    """An event for each write that removed offsets, and one for each interval with offsets that were set."""
    gone = sorted((row for row in changes if row["kind"] in DISAPPEARANCES), key=order_of)
    for _, rows in groupby(gone, key=lambda row: (instant_of(row), cause_of(row), row["by_plan_id"])):
        some = list(rows)
        yield event_of(cause_of(some[0]), some)
    were_set = sorted(
        (row for row in changes if row["kind"] not in DISAPPEARANCES), key=lambda row: (row["as_of_ms"], row["kind"])
    )
    for (as_of_ms, kind), rows in groupby(were_set, key=lambda row: (row["as_of_ms"], row["kind"])):
        some = list(rows)
        detail = f"{counted(len(some), 'offset')} set to another value than when the interval began"
        yield Event(timestamp_ms=as_of_ms, log_offset=NOWHERE, what=kind, detail=detail, offsets=tuple(some))


def _words(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    return state_words(row["group_type"], row["protocol_type"], row["state"], row["member_count"])


def _next(offset: Mapping[str, Any], judged: Mapping[str, Any]) -> NextVerdict:
    return NextVerdict(
        topic=offset["topic"],
        partition=offset["partition"],
        committed_offset=offset["committed_offset"],
        reason=judged["broker_reason"],
        expires_at_ms=judged["broker_expires_at_ms"],
    )


def _key(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]
