"""measure_lag: the lag in time of every committed offset, as an interval, from archived points.

`look_up` asks the brokers how new their logs are at the committed offsets (kafka.time_points) and where the committed
leader epochs end (kafka.epoch_ends), and archives each answer.
`measure` computes lags from the archive alone: a past instant needs no broker, and the same points give the same lags.

A row also says whether an open transaction holds up the group, what a returning consumer would do (`would_reset`), and
the earliest instant at which retention removes unread records (`loses_at_min_ms`).

Everything is computed by column: a million offsets take seconds (docs/lag.md). tests/plain_lag.py is the row-by-row
version.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.archive.folder import filesystem
from sexton.archive.partition_index import ABSENT, Flags, Int64s, PartitionIndex, PartitionOrder, encoded, whole
from sexton.archive.time_bounds import ENDS, NO_HIGH, NO_LOW, Bounds, TimeBounds
from sexton.archive.time_points import Key, KnownPoints, OffsetLookup, known_points, write_lookup
from sexton.coordinator.loading import HOLDS_NOTHING
from sexton.kafka.broker_settings import TOPIC, described
from sexton.kafka.epoch_ends import epoch_ends
from sexton.kafka.session import ClusterSession
from sexton.kafka.time_points import refine
from sexton.lag.time_lag import LOG_END, UNBOUNDED, UNKNOWN, time_lags
from sexton.settings import settings
from sexton.tables import TIME_LAG
from sexton.tables.time_lag import BASES, RESETS

KEY = ["group_id", "topic", "partition"]
OF_AUDITS = {"lag_growth", "loses_at_ms", "unrefined"}
"""Columns of time_lag that the DAG audit_lag adds."""
LAGS = pa.schema([field for field in TIME_LAG.arrow_schema(with_run=False) if field.name not in OF_AUDITS])
"""Columns of the result of `measure`."""
COMMITTED = [*KEY, "committed_offset", "topic_id", "leader_epoch"]
"""Columns of the table committed_offsets that `measure` needs, in addition to open transactions."""
PARTITIONS = ["topic", "topic_id", "partition", "log_start_offset", "log_end_offset"]
TIMESTAMP_TYPE, RETENTION, CLEANUP = "message.timestamp.type", "retention.ms", "cleanup.policy"
SETTINGS = (TIMESTAMP_TYPE, RETENTION, CLEANUP)
"""Topic settings that are read."""
LOG_APPEND_TIME = "LogAppendTime"
NO_SUCH_EPOCH = -1
_TOPICS_A_QUESTION = 200
ROWS_AT_ONCE = 500_000
"""Approximate number of offsets and points measured at a time."""
_NOT_KNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True)
class Instant:
    """The input of a measurement: the committed offsets at `as_of_ms`, and the partitions of the cluster.

    `committed` has the columns COMMITTED and pending_producer_ids; `partitions` has the columns PARTITIONS, as a
    snapshot recorded them, with -1 for unknown offsets. `slack_ms` is the largest difference between the clocks of
    brokers and snapshots, by default `settle_ms` of the settings. With `sees_all_topics` a partition that is missing
    from `partitions` does not exist.
    """

    archive: str
    cluster_id: str
    as_of_ms: int
    committed: pa.Table
    partitions: pa.Table
    sees_all_topics: bool
    slack_ms: int = field(default_factory=lambda: settings().settle_ms)

    @cached_property
    def index(self) -> PartitionIndex:
        return PartitionIndex(self.partitions)

    @cached_property
    def number(self) -> Int64s:
        """For each committed offset, the number of its partition."""
        return self.index.numbers(self.committed["topic"], self.committed["partition"])

    @cached_property
    def offset(self) -> Int64s:
        return _int64s(self.committed["committed_offset"], 0)

    @cached_property
    def is_another(self) -> Flags:
        """Whether each offset was committed for an earlier topic with the same name. Commits have topic ids since Kafka
        4.1."""
        return self.index.is_another(self.number, self.committed["topic_id"])

    @cached_property
    def is_here(self) -> Flags:
        """Whether the partition of each offset exists, in the topic that it was committed for."""
        is_there: Flags = (self.number != ABSENT) & ~self.is_another
        return is_there

    @property
    def topic_ids(self) -> dict[str, str | None]:
        names, ids = (self.partitions[name].to_pylist() for name in ("topic", "topic_id"))
        return dict(zip(names, ids, strict=True))

    def keys(self, number: Int64s) -> list[Key]:
        """Topic and partition of numbered partitions."""
        some = self.partitions.select(["topic", "partition"]).take(pa.array(number))
        return list(zip(some["topic"].to_pylist(), some["partition"].to_pylist(), strict=True))


def of_held(committed: pa.Table, loads: pa.Table) -> pa.Table:
    """`committed` without the log partitions for which a coordinator has nothing in memory; `loads` has rows of
    load_profile."""
    fails = pc.is_in(loads["load_outcome"], value_set=pa.array(sorted(HOLDS_NOTHING)))
    failed = loads["log_partition"].filter(fails).combine_chunks()
    return committed.filter(pc.invert(pc.is_in(committed["log_partition"], value_set=failed)))


def committed_with_pending(committed: pa.Table, pending: pa.Table) -> pa.Table:
    """The columns COMMITTED with `pending_producer_ids`: producers with an open transaction on the same group and
    partition, from `pending`, rows of pending_offsets."""
    holders = pending.select([*KEY, "producer_id"]).group_by([*KEY, "producer_id"]).aggregate([])
    holders = holders.sort_by([(name, "ascending") for name in [*KEY, "producer_id"]])
    holders = holders.group_by(KEY, use_threads=False).aggregate([("producer_id", "list")])
    lists = pa.concat_arrays([whole(holders["producer_id_list"]), pa.array([[]], pa.list_(pa.int64()))])
    at = matching(committed, holders)
    ids = lists.take(pa.array(np.where(at < 0, len(lists) - 1, at)))
    return committed.select(COMMITTED).append_column(pa.field("pending_producer_ids", ids.type), ids)


def matching(rows: pa.Table, others: pa.Table) -> Int64s:
    """For each of `rows`, the index of the row in `others` with the same KEY, -1 if there is none. Each KEY occurs only
    once in `others`."""
    found = np.full(rows.num_rows, -1)
    if rows.num_rows and others.num_rows:
        mine, theirs = (
            each.select(KEY).append_column(name, pa.array(np.arange(each.num_rows)))
            for each, name in ((rows, "_row"), (others, "_other"))
        )
        alike = pa.schema([*(mine.schema.field(name) for name in KEY), theirs.schema.field("_other")])
        both = mine.join(theirs.cast(alike), keys=KEY, join_type="inner")
        found[np.asarray(both["_row"])] = np.asarray(both["_other"])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupResult:
    """An archived lookup, its number of questions, and the partitions that it could not refine, with the reason."""

    look_up: OffsetLookup
    questions: int
    unanswered: Mapping[Key, str]


def look_up(
    session: ClusterSession,
    instant: Instant,
    *,
    now_ms: Callable[[], int],
    progress: Callable[[int, int], None] | None = None,
) -> LookupResult:
    """Ask the brokers how new the logs are at every committed offset, to the millisecond, and archive the answers."""
    fs, root = filesystem(instant.archive)
    number, offset = _distinct(instant.number[instant.is_here], instant.offset[instant.is_here])
    names = instant.index.topics.take(pa.array(np.unique(instant.index.topic_codes[number])))
    topics = _settings_of(session, sorted(names.to_pylist()))
    known = _known(instant)
    # Leave out points that depend on clocks that may differ: a bisection trusts its starting bounds.
    answers = known.points.filter(pc.invert(pc.is_in(known.points["source"], value_set=pa.array(ENDS))))
    low, high = np.full(len(number), NO_LOW), np.full(len(number), NO_HIGH)
    for rows, points in _slices(instant.index.count, number, answers):
        low[rows], high[rows] = _bounds(instant, points, topics).newest(number[rows], offset[rows])
    asked_at_ms = now_ms()
    found = refine(
        session,
        _begun(instant.keys(number), offset, low, high),
        as_of_ms=instant.as_of_ms,
        now_ms=now_ms,
        progress=progress,
    )
    ends = epoch_ends(session, _leader_epochs(instant), as_of_ms=instant.as_of_ms)
    written = write_lookup(
        fs,
        root,
        cluster_id=instant.cluster_id,
        as_of_ms=instant.as_of_ms,
        asked_at_ms=asked_at_ms,
        rounds=found.rounds,
        topic_ids=instant.topic_ids,
        points={key: [*points, *ends.get(key, ())] for key, points in found.points.items()},
        topics=topics,
    )
    return LookupResult(look_up=written, questions=found.questions, unanswered=found.unanswered)


def _begun(keys: Sequence[Key], offset: Int64s, low: Int64s, high: Int64s) -> dict[Key, dict[int, Bounds]]:
    """The known bounds of each offset, by partition."""
    found: dict[Key, dict[int, Bounds]] = {}
    for key, at, low_ms, high_ms in zip(keys, offset.tolist(), low.tolist(), high.tolist(), strict=True):
        found.setdefault(key, {})[at] = Bounds(
            low_ms=None if low_ms == NO_LOW else low_ms, high_ms=None if high_ms == NO_HIGH else high_ms
        )
    return found


def _leader_epochs(instant: Instant) -> dict[Key, set[int]]:
    """The committed leader epochs, by partition."""
    has_epoch = instant.is_here & np.asarray(pc.is_valid(instant.committed["leader_epoch"]))
    number, epochs = _distinct(instant.number[has_epoch], _int64s(instant.committed["leader_epoch"], 0)[has_epoch])
    found: dict[Key, set[int]] = {}
    for key, epoch in zip(instant.keys(number), epochs.tolist(), strict=True):
        found.setdefault(key, set()).add(epoch)
    return found


def _distinct(number: Int64s, value: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct pairs, sorted."""
    order = np.lexsort((value, number))
    number, value = number[order], value[order]
    is_first = np.ones(len(number), bool)
    is_first[1:] = (number[1:] != number[:-1]) | (value[1:] != value[:-1])
    return number[is_first], value[is_first]


def measure(instant: Instant) -> pa.Table:
    """The lag of every committed offset, in the order of the offsets, with the columns LAGS. It needs only archived
    points, no broker."""
    known = _known(instant)
    topics = _archived_settings(known.lookups, instant.as_of_ms)
    settings = _SettingColumns(instant.committed["topic"], topics)
    count = len(instant.number)
    basis, min_ms, max_ms = np.full(count, UNKNOWN), np.zeros(count, np.int64), np.full(count, UNBOUNDED)
    start, oldest_ms, later_end = (np.full(count, each) for each in (_NOT_KNOWN, NO_LOW, _NOT_KNOWN))
    here = np.flatnonzero(instant.is_here)
    for some, points in _slices(instant.index.count, instant.number[here], known.points):
        rows = here[some]
        number, offset = instant.number[rows], instant.offset[rows]
        bounds = _bounds(instant, points, topics)
        lags = time_lags(bounds, number, offset, instant.as_of_ms)
        basis[rows], min_ms[rows], max_ms[rows] = lags.basis, lags.min_ms, lags.max_ms
        start[rows] = bounds.log_start_offset[number]
        oldest_ms[rows], _ = bounds.newest(number, offset)
        later_end[rows] = bounds.furthest_end(instant.as_of_ms)[number]
    # The log end at the snapshot, where the snapshot recorded it.
    ends = np.append(_int64s(instant.partitions["log_end_offset"], -1), -1)[instant.number]
    end = np.where(instant.is_here & (ends >= 0), ends, _NOT_KNOWN)
    # The end of the committed leader epoch in the log, from the newest lookup up to the instant.
    seen = _of_source(known.points, "epoch_end", until_ms=instant.as_of_ms)
    epoch_end = _newest(instant, seen, "leader_epoch", _int64s(instant.committed["leader_epoch"], _NOT_KNOWN))
    # A larger log end that was seen later counts, too: the log may have grown since the snapshot.
    reset = _would_reset(instant, start=start, end=end, latest_end=np.maximum(end, later_end), epoch_end=epoch_end)
    is_diverged = (reset == RESETS.index("truncated")) & (epoch_end != NO_SUCH_EPOCH)
    oldest_ms = np.where(instant.offset < start, NO_LOW, oldest_ms)
    loses_at = _loses_at(oldest_ms, settings, is_at_end=basis == LOG_END)
    lag = np.maximum(0, np.where(end == _NOT_KNOWN, 0, end) - instant.offset)
    columns = {
        **{
            name: instant.committed[name] for name in (*KEY, "committed_offset", "leader_epoch", "pending_producer_ids")
        },
        "log_start_offset": _nullable(start),
        "log_end_offset": _nullable(end),
        "lag": _nullable(np.where(end == _NOT_KNOWN, _NOT_KNOWN, lag)),
        "lag_min_ms": _nullable(np.where(basis == UNKNOWN, _NOT_KNOWN, min_ms)),
        "lag_max_ms": _nullable(np.where(max_ms == UNBOUNDED, _NOT_KNOWN, max_ms)),
        "basis": pa.array([*BASES, None], pa.string()).take(pa.array(basis)),
        "timestamp_type": settings.text(TIMESTAMP_TYPE),
        "held_at": _nullable(np.where(_is_held(instant, known.points), instant.offset, _NOT_KNOWN)),
        "would_reset": pa.array([*RESETS, None], pa.string()).take(pa.array(reset)),
        "diverged_at": _nullable(np.where(is_diverged, epoch_end, _NOT_KNOWN)),
        "loses_at_min_ms": _nullable(loses_at),
    }
    return pa.table([whole(columns[name]).cast(LAGS.field(name).type) for name in LAGS.names], LAGS)


def _known(instant: Instant) -> KnownPoints:
    fs, root = filesystem(instant.archive)
    return known_points(
        fs,
        root,
        cluster_id=instant.cluster_id,
        as_of_ms=instant.as_of_ms,
        partitions=instant.index,
        number=instant.number[instant.is_here],
        offset=instant.offset[instant.is_here],
    )


def _slices(count: int, number: Int64s, points: pa.Table) -> Iterator[tuple[Int64s, pa.Table]]:
    """Batches of partitions, as (indices into `number`, points of these partitions): as many as fit in memory with all
    intermediate columns. Every index is in one batch."""
    of_points = _int64s(points["number"], 0)
    work = np.bincount(of_points, minlength=count) + np.bincount(number, minlength=count)
    slice_of = np.cumsum(work) // ROWS_AT_ONCE
    places, some = slice_of[number], slice_of[of_points]
    for each in np.unique(places):
        yield np.flatnonzero(places == each), points.filter(pa.array(some == each))


def _bounds(instant: Instant, points: pa.Table, topics: Mapping[str, Mapping[str, str]]) -> TimeBounds:
    """The bounds of every partition, as its log was at the instant."""
    is_append_time = _SettingColumns(instant.partitions["topic"], topics).equals(TIMESTAMP_TYPE, LOG_APPEND_TIME)
    start = _int64s(instant.partitions["log_start_offset"], -1).copy()
    started = _of_source(points, "log_start", until_ms=instant.as_of_ms)
    np.maximum.at(start, _int64s(started["number"], 0), _int64s(started["offset"], 0))  # a log start never goes back
    return TimeBounds(
        points, log_start_offset=np.maximum(start, 0), is_append_time=is_append_time, slack_ms=instant.slack_ms
    )


def _of_source(points: pa.Table, source: str, *, since_ms: int | None = None, until_ms: int | None = None) -> pa.Table:
    """The points from `source` for instants from `since_ms` on, else for instants up to `until_ms`."""
    found = points.filter(pc.equal(points["source"], source))
    at_ms = pc.fill_null(found["timestamp_ms"], 0)
    if since_ms is not None:
        return found.filter(pc.greater_equal(at_ms, since_ms))
    return found.filter(pc.less_equal(at_ms, until_ms))


def _is_held(instant: Instant, points: pa.Table) -> Flags:
    """Whether each committed offset was the last stable offset at the instant, so that an open transaction began there:
    according to a lookup for the instant, or to one before and one after it."""
    before = _of_source(points, "last_stable", until_ms=instant.as_of_ms)
    after = _of_source(points, "last_stable", since_ms=instant.as_of_ms)
    earlier, later = (_newest(instant, seen, "offset", instant.offset) for seen in (before, after))
    is_held: Flags = (earlier != _NOT_KNOWN) & (later != _NOT_KNOWN)
    return is_held


def _newest(instant: Instant, seen: pa.Table, name: str, value: Int64s) -> Int64s:
    """For each committed offset, the offset of the newest point of its partition whose column `name` has its `value`;
    _NOT_KNOWN without such a point. Of two points at the same instant, the larger offset."""
    number, values, at_ms, offset = (_int64s(seen[each], 0) for each in ("number", name, "timestamp_ms", "offset"))
    order = PartitionOrder(instant.index.count, number, values, at_ms, offset)
    found = np.full(len(value), _NOT_KNOWN)
    at = order.last(instant.number[instant.is_here], value[instant.is_here])
    rows = order.rows[at] if len(order.rows) else at
    is_it = (at >= 0) & (np.append(values, 0)[rows] == value[instant.is_here])
    found[instant.is_here] = np.where(is_it, np.append(offset, 0)[rows], _NOT_KNOWN)
    return found


def _would_reset(instant: Instant, *, start: Int64s, end: Int64s, latest_end: Int64s, epoch_end: Int64s) -> Int64s:
    """Why a consumer that returns now would not continue at its committed offset: an index into RESETS, or len(RESETS)
    where it would continue.

    A consumer that knows the leader epoch of its last record asks where that epoch ends in the log (KIP-320). An end
    below the committed offset means that the log was truncated and rewritten.
    """
    reasons = [
        instant.is_here & (instant.offset < start),
        (end != _NOT_KNOWN) & (instant.offset > latest_end),
        (epoch_end != _NOT_KNOWN) & (epoch_end < instant.offset),
        instant.is_another,
        (instant.number == ABSENT) & instant.sees_all_topics,
    ]
    return np.select(reasons, range(len(RESETS)), len(RESETS))


def _loses_at(oldest_ms: Int64s, settings: "_SettingColumns", *, is_at_end: Flags) -> Int64s:
    """The earliest instant at which retention by time can remove the first unread record; _NOT_KNOWN where it never
    can, or where that is not known. `oldest_ms` is the lower bound of M(offset); NO_LOW where the record is gone.

    A broker removes entire segments, the oldest first, once a segment's newest record is older than the retention. The
    record that sets M(offset) is in the first unread record's segment or in an older segment.
    """
    retention_ms = settings.number(RETENTION)
    is_known = ~is_at_end & (oldest_ms != NO_LOW) & (retention_ms >= 0) & settings.contains(CLEANUP, "delete")
    # A cap, so that no retention, however long, overflows.
    at_ms = np.where(is_known, oldest_ms, 0) + np.minimum(retention_ms, NO_HIGH - np.maximum(oldest_ms, 0))
    return np.where(is_known, at_ms, _NOT_KNOWN)


class _SettingColumns:
    """Settings of topics as columns, with one row for each row of the column `topics`."""

    def __init__(self, topics: pa.ChunkedArray, settings: Mapping[str, Mapping[str, str]]) -> None:
        names = encoded(topics)
        self._settings = [settings.get(name, {}) for name in names.dictionary.to_pylist()]
        self._at = names.indices

    def text(self, name: str) -> pa.Array:
        return self._column([each.get(name) for each in self._settings], pa.string())

    def number(self, name: str) -> Int64s:
        return np.asarray(self._column([int(each.get(name) or -1) for each in self._settings], pa.int64()))

    def equals(self, name: str, value: str) -> Flags:
        return np.asarray(self._column([each.get(name) == value for each in self._settings], pa.bool_()))

    def contains(self, name: str, value: str) -> Flags:
        return np.asarray(self._column([value in each.get(name, "") for each in self._settings], pa.bool_()))

    def _column(self, values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(self._at)


def _nullable(values: Int64s) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == _NOT_KNOWN)


def _int64s(values: pa.ChunkedArray | pa.Array, null: int) -> Int64s:
    return np.asarray(pc.fill_null(whole(values).cast(pa.int64()), null))


def _settings_of(session: ClusterSession, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """The topics' settings that this principal may read: they need DESCRIBE_CONFIGS, and are left out without it."""
    found: dict[str, dict[str, str]] = {}
    for at in range(0, len(topics), _TOPICS_A_QUESTION):
        some = topics[at : at + _TOPICS_A_QUESTION]
        for name, answer in zip(some, described(session, *((TOPIC, name) for name in some)), strict=True):
            known = {each: answer.settings[each] for each in SETTINGS if each in answer.settings}
            if known:
                found[name] = known
    return found


def _archived_settings(lookups: Sequence[OffsetLookup], as_of_ms: int) -> dict[str, dict[str, str]]:
    """Topic settings from the newest lookup at or before `as_of_ms`, else from the first lookup after it."""
    found: dict[str, dict[str, str]] = {}
    by_instant = sorted(lookups, key=lambda each: (each.as_of_ms, each.asked_at_ms))
    before = [each for each in by_instant if each.as_of_ms <= as_of_ms]
    for each in [*reversed(by_instant[len(before) :]), *before]:
        found.update(each.topics)
    return found
