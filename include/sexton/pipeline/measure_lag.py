"""measure_lag: the lag in time of every committed offset, as an interval, from the points of the archive.

`look` asks the brokers how new their logs are at the committed offsets (kafka.time_points) and archives each answer.
`measure` answers from the archive alone, so a past instant needs no broker, and both give the same for the same points.

What a row says besides: whether an open transaction holds the group, what a consumer would do when it comes back
(`would_reset`), and the earliest instant at which retention removes what the group has not read (`loses_at_min_ms`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sexton.analysis.time_lag import NOTHING_KNOWN, Basis, time_lag
from sexton.archive.folder import filesystem
from sexton.archive.time_bounds import TimeBounds
from sexton.archive.time_points import Key, KnownPoints, Look, TimePoint, known_points, write_look
from sexton.kafka.configs import TOPIC, described
from sexton.kafka.session import ClusterSession
from sexton.kafka.time_points import refine

WouldReset = Literal["behind_log_start", "beyond_log_end", "topic_made_anew", "topic_gone"]
TIMESTAMP_TYPE, RETENTION, CLEANUP = "message.timestamp.type", "retention.ms", "cleanup.policy"
SETTINGS = (TIMESTAMP_TYPE, RETENTION, CLEANUP)
"""What is read of a topic's settings."""
LOG_APPEND_TIME = "LogAppendTime"
_TOPICS_A_QUESTION = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A committed offset. `pending_producer_ids` have an offset of it in a transaction that has not ended."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int
    topic_id: str | None = None
    pending_producer_ids: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """A partition as the snapshot recorded it; offsets are -1 where they are not known."""

    topic_id: str | None
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """What lag is measured for: the committed offsets of `as_of_ms`, and the partitions of the cluster.

    `slack_ms` is how far clocks of brokers and of snapshots may differ. With `sees_all_topics` a partition that is not
    in `partitions` does not exist.
    """

    archive: str
    cluster_id: str
    as_of_ms: int
    committed: Sequence[Committed]
    partitions: Mapping[Key, LogRange]
    sees_all_topics: bool
    slack_ms: int

    @property
    def topic_ids(self) -> dict[str, str | None]:
        return {topic: known.topic_id for (topic, _), known in self.partitions.items()}

    @property
    def offsets(self) -> dict[Key, set[int]]:
        """The committed offsets of each partition that is there, of groups whose topic is that one."""
        found: dict[Key, set[int]] = {}
        for each in self.committed:
            known = self.partitions.get(each.key)
            if known is not None and not _is_another(each.topic_id, known.topic_id):
                found.setdefault(each.key, set()).add(each.committed_offset)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLag:
    """The lag of one committed offset: `lag` in records, in time between `lag_min_ms` and `lag_max_ms`.

    `held_at` is the last stable offset where an open transaction of the topic ends what a group reads that reads only
    committed messages: then its lag is the transaction's. `timestamp_type` is None where it is not known.
    """

    group_id: str
    topic: str
    partition: int
    committed_offset: int
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_min_ms: int | None
    lag_max_ms: int | None
    basis: Basis | None
    timestamp_type: str | None
    held_at: int | None
    pending_producer_ids: tuple[int, ...]
    would_reset: WouldReset | None
    loses_at_min_ms: int | None

    @property
    def is_exact(self) -> bool:
        """Whether the lag is known to the millisecond."""
        if self.lag_min_ms is None or self.lag_max_ms is None:
            return False
        return self.lag_max_ms - self.lag_min_ms <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A look that was archived, how many questions it took, and the partitions that it could not refine, with why."""

    look: Look
    questions: int
    unanswered: Mapping[Key, str]


def look(
    session: ClusterSession,
    instant: Instant,
    *,
    now_ms: Callable[[], int],
    progress: Callable[[int, int], None] | None = None,
) -> Looked:
    """Ask the brokers how new the logs are at every committed offset, to the millisecond, and archive the answers."""
    fs, root = filesystem(instant.archive)
    topics = _settings_of(session, sorted({topic for topic, _ in instant.offsets}))
    bounds = _bounds(instant, _known(instant), topics)
    asked_at_ms = now_ms()
    found = refine(session, instant.offsets, bounds, as_of_ms=instant.as_of_ms, now_ms=now_ms, progress=progress)
    written = write_look(
        fs,
        root,
        cluster_id=instant.cluster_id,
        as_of_ms=instant.as_of_ms,
        asked_at_ms=asked_at_ms,
        rounds=found.rounds,
        topic_ids=instant.topic_ids,
        points=found.points,
        topics=topics,
    )
    return Looked(look=written, questions=found.questions, unanswered=found.unanswered)


def measure(instant: Instant) -> list[OffsetLag]:
    """The lag of every committed offset, as far as the archive knows; needs no broker."""
    known = _known(instant)
    topics = _archived_settings(known.looks, instant.as_of_ms)
    bounds = _bounds(instant, known, topics)
    return [
        _row(
            instant,
            each,
            bounds.get(each.key),
            held_at=_held_at(known.points.get(each.key, ()), instant.as_of_ms),
            settings=topics.get(each.topic, {}),
        )
        for each in instant.committed
    ]


def _known(instant: Instant) -> KnownPoints:
    fs, root = filesystem(instant.archive)
    return known_points(
        fs,
        root,
        cluster_id=instant.cluster_id,
        as_of_ms=instant.as_of_ms,
        offsets=instant.offsets,
        topic_ids=instant.topic_ids,
    )


def _bounds(instant: Instant, known: KnownPoints, topics: Mapping[str, Mapping[str, str]]) -> dict[Key, TimeBounds]:
    """The bounds of every partition, as its log was at the instant."""
    return {
        key: TimeBounds(
            points,
            log_start_offset=max(
                instant.partitions[key].log_start_offset,
                *(each.offset for each in _looked_for(points, instant.as_of_ms) if each.source == "log_start"),
                0,
            ),
            is_append_time=topics.get(key[0], {}).get(TIMESTAMP_TYPE) == LOG_APPEND_TIME,
            slack_ms=instant.slack_ms,
        )
        for key, points in known.points.items()
    }


def _looked_for(points: Sequence[TimePoint], as_of_ms: int) -> list[TimePoint]:
    """What the newest look for an instant up to this one saw: log start, last stable offset."""
    seen = [
        each for each in points if each.source in ("log_start", "last_stable") and (each.timestamp_ms or 0) <= as_of_ms
    ]
    newest = max((each.timestamp_ms or 0 for each in seen), default=0)
    return [each for each in seen if each.timestamp_ms == newest]


def _held_at(points: Sequence[TimePoint], as_of_ms: int) -> int | None:
    """The last stable offset of a partition with an open transaction, None without one."""
    return min((each.offset for each in _looked_for(points, as_of_ms) if each.source == "last_stable"), default=None)


def _row(
    instant: Instant,
    offset: Committed,
    bounds: TimeBounds | None,
    *,
    held_at: int | None,
    settings: Mapping[str, str],
) -> OffsetLag:
    log = instant.partitions.get(offset.key)
    start = bounds.log_start_offset if bounds else None
    end = log.log_end_offset if log and bounds and log.log_end_offset >= 0 else None
    lag = time_lag(bounds, offset.committed_offset, instant.as_of_ms) if bounds else NOTHING_KNOWN
    return OffsetLag(
        group_id=offset.group_id,
        topic=offset.topic,
        partition=offset.partition,
        committed_offset=offset.committed_offset,
        log_start_offset=start,
        log_end_offset=end,
        lag=None if end is None else max(0, end - offset.committed_offset),
        lag_min_ms=None if lag.basis is None else lag.min_ms,
        lag_max_ms=lag.max_ms,
        basis=lag.basis,
        timestamp_type=settings.get(TIMESTAMP_TYPE),
        held_at=held_at if held_at == offset.committed_offset else None,
        pending_producer_ids=offset.pending_producer_ids,
        would_reset=_would_reset(instant, offset, bounds, end),
        loses_at_min_ms=_loses_at(offset, bounds, settings),
    )


def _would_reset(instant: Instant, offset: Committed, bounds: TimeBounds | None, end: int | None) -> WouldReset | None:
    """Why a consumer that comes back now would not continue at its committed offset; None where it would."""
    log = instant.partitions.get(offset.key)
    if log is None:
        return "topic_gone" if instant.sees_all_topics else None
    if _is_another(offset.topic_id, log.topic_id):
        return "topic_made_anew"
    if bounds is not None and offset.committed_offset < bounds.log_start_offset:
        return "behind_log_start"
    if bounds is not None and end is not None:
        # An end that was seen later counts as well: the log may have grown since the snapshot.
        ends = [seen for at_ms, seen in bounds.ends if at_ms >= instant.as_of_ms]
        if offset.committed_offset > max([end, *ends]):
            return "beyond_log_end"
    return None


def _loses_at(offset: Committed, bounds: TimeBounds | None, settings: Mapping[str, str]) -> int | None:
    """The earliest instant at which retention by time can remove the first unread record; None where it never does, or
    that is not known.

    A broker removes whole segments, from the oldest on, once the newest record of one is older than the retention. The
    record that sets M(offset) is in that segment or in an older one.
    """
    retention_ms = int(settings.get(RETENTION) or -1)
    if bounds is None or retention_ms < 0 or "delete" not in settings.get(CLEANUP, ""):
        return None
    if offset.committed_offset < bounds.log_start_offset:
        return None  # it is gone
    low_ms = bounds.newest(offset.committed_offset).low_ms
    return None if low_ms is None else low_ms + retention_ms


def _is_another(committed: str | None, topic_id: str | None) -> bool:
    """Whether an offset was committed for another topic of the same name. Commits have topic ids since Kafka 4.1."""
    return committed is not None and topic_id is not None and committed != topic_id


def _settings_of(session: ClusterSession, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """What this principal may read of the topics' settings: needs DESCRIBE_CONFIGS, and is left out without it."""
    found: dict[str, dict[str, str]] = {}
    for at in range(0, len(topics), _TOPICS_A_QUESTION):
        some = topics[at : at + _TOPICS_A_QUESTION]
        for name, answer in zip(some, described(session, *((TOPIC, name) for name in some)), strict=True):
            known = {each: answer.settings[each] for each in SETTINGS if each in answer.settings}
            if known:
                found[name] = known
    return found


def _archived_settings(looks: Sequence[Look], as_of_ms: int) -> dict[str, dict[str, str]]:
    """Of each topic those of the newest look for an instant up to this one, else of the first later one."""
    found: dict[str, dict[str, str]] = {}
    before = sorted((each for each in looks if each.as_of_ms <= as_of_ms), key=_made)
    after = sorted((each for each in looks if each.as_of_ms > as_of_ms), key=_made)
    for each in [*reversed(after), *before]:
        found.update(each.topics)
    return found


def _made(look: Look) -> tuple[int, int]:
    return look.as_of_ms, look.asked_at_ms
