"""How new the logs of user topics are at given offsets, found by bisection of ListOffsets: no message is read.

ListOffsets by timestamp returns the first record at or after the requested timestamp, with its own timestamp. It needs
DESCRIBE on the topic, but not READ. Let M(offset) be the largest timestamp up to `offset`. An answer at or below
`offset` shows that M(offset) is at least the answer's timestamp; an answer above `offset`, that M(offset) is less than
the requested timestamp. So M is found by bisection, to the millisecond.

A broker refuses a request that names a partition twice, so a request has one question per partition: all partitions of
a broker are in one request (PARTITIONS_A_REQUEST at most), and a partition's second offset is in the next request. The
first question about an offset without known points finds the first record of the log. After it, ROUNDS suffice for a
span of 12 days at a resolution of a millisecond; longer spans need their logarithm. Linear interpolation is tried
first: with steady traffic it needs three to six rounds. Known points (archive.time_bounds) narrow the start.

A partition without an answer is data: `unanswered` has the reason. ListOffsets by timestamp makes the broker read the
log, also in remote storage if the log is there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from sexton.archive.time_bounds import Bounds
from sexton.archive.time_points import Key, TimePoint
from sexton.kafka.failures import TransientError, error_name
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    Topic,
    ask_offsets,
    describe_cluster,
    list_offsets,
    requests_to_leaders,
)

ROUNDS = 30
"""Maximum of questions about an offset after the first question: 2 ** 30 ms are 12 days."""
_ATTEMPTS = 3
_FIRST_RECORD = 0
"""Timestamp for which every record with a timestamp is new enough."""
_MAY_PASS = frozenset(
    {
        *("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE", "REQUEST_TIMED_OUT"),
        *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "KAFKA_STORAGE_ERROR", "REPLICA_NOT_AVAILABLE"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """The points found by one lookup, by partition; its number of rounds and of questions; and the partitions that did
    not answer all questions, with the reason."""

    points: Mapping[Key, Sequence[TimePoint]]
    rounds: int
    questions: int
    unanswered: Mapping[Key, str]


class Search:
    """The bisection of M(offset) at one offset, from known bounds. No timestamp above `high_ms` is requested."""

    def __init__(self, offset: int, known: Bounds, *, high_ms: int, log_end: int) -> None:
        self.offset, self.low_ms = offset, -1 if known.low_ms is None else known.low_ms
        self.high_ms = high_ms if known.high_ms is None else min(high_ms, known.high_ms)
        self._low_offset, self._high_offset, self._at_high_ms = -1, log_end, high_ms
        self._is_open, self._is_stuck, self._has_learned = known.low_ms is None, False, False
        self._rounds_left, self._width = max(ROUNDS, self._halvings), 0
        self.asked: frozenset[int] = frozenset()

    @property
    def is_done(self) -> bool:
        return self.low_ms >= self.high_ms

    @property
    def _halvings(self) -> int:
        """The maximum number of remaining halvings."""
        return max(0, self.high_ms - self.low_ms).bit_length()

    def next_round(self) -> frozenset[int]:
        """The timestamps to request next, also stored in `asked`: a guess, and the middle of the interval if a wrong
        guess would cost an extra round."""
        if self._has_learned:
            self._rounds_left -= 1
            self._is_stuck = not self._is_stuck and 2 * (self.high_ms - self.low_ms) > self._width
            self._has_learned = False
        self._width = self.high_ms - self.low_ms
        middle = self.low_ms + (self._width + 1) // 2
        if self._is_open:
            self.asked = frozenset({_FIRST_RECORD})
        elif self._is_stuck or self._low_offset < 0:
            self.asked = frozenset({middle})
        else:
            # Interpolate half a record below `offset`: a good guess is answered with the record at `offset`, which ends
            # the search.
            share = (self.offset - self._low_offset - 0.5) / (self._high_offset - self._low_offset)
            guess = self.low_ms + int((self._at_high_ms - self.low_ms) * share)
            guess = min(max(guess, self.low_ms + 1), self.high_ms)
            self.asked = frozenset({guess, middle} if self._halvings >= self._rounds_left else {guess})
        return self.asked

    def learn(self, asked_ms: int, offset: int, timestamp_ms: int | None) -> None:
        """Process an answer; the question may be that of another search in this partition."""
        if timestamp_ms is not None and offset <= self.offset:
            if timestamp_ms > self.low_ms or self._low_offset < 0:
                self.low_ms, self._low_offset = max(timestamp_ms, self.low_ms), offset
            if offset == self.offset:
                self.high_ms = min(self.high_ms, timestamp_ms)
        elif asked_ms - 1 < self.high_ms:
            self.high_ms, self._high_offset = asked_ms - 1, offset
            self._at_high_ms = asked_ms if timestamp_ms is None else timestamp_ms
        if self._is_open:
            self._is_open = asked_ms != _FIRST_RECORD
            self._rounds_left = max(ROUNDS, self._halvings)
        else:
            self._has_learned |= asked_ms in self.asked


@dataclass(slots=True)
class _Partition:
    """The searches of one partition, and the answers about it."""

    searches: list[Search]
    log_end: int
    answers: dict[tuple[int, int | None], int] = field(default_factory=dict)
    """(offset, timestamp) of a record, or (log end, None) -> the earliest requested timestamp with this answer."""
    questions: int = 0

    def next_round(self) -> list[int]:
        return sorted({asked for each in self.searches if not each.is_done for asked in each.next_round()})

    def learn(self, asked_ms: int, offset: int, timestamp_ms: int | None) -> None:
        if timestamp_ms is None:
            offset = self.log_end
        for each in self.searches:
            if not each.is_done:
                each.learn(asked_ms, offset, timestamp_ms)
        self.questions += 1
        # Of several answers with the same record, the answer to the earliest timestamp implies the others.
        if (known := self.answers.get((offset, timestamp_ms))) is None or asked_ms < known:
            self.answers[offset, timestamp_ms] = asked_ms


def refine(
    session: ClusterSession,
    offsets: Mapping[Key, Mapping[int, Bounds]],
    *,
    as_of_ms: int,
    now_ms: Callable[[], int],
    progress: Callable[[int, int], None] | None = None,
) -> Refined:
    """Ask until M of every offset is known to the millisecond, or known to be after `as_of_ms`. `offsets` has the known
    bounds of M at each offset.

    An offset at or beyond the end of its log is not searched; the search for an offset below the log start ends at the
    log's first record. Raises the session's errors when no broker answers.
    """
    found = _Lookup(session, offsets)
    asked_at_ms = now_ms()
    found.ask_for_ends()
    partitions: dict[Key, _Partition] = {}
    for key, end in found.ends.items():
        partitions[key] = _Partition(searches=[], log_end=end)
        for offset, bounds in sorted(offsets[key].items(), key=itemgetter(0)):
            search = Search(offset, bounds, high_ms=as_of_ms, log_end=end)
            if offset < end and not search.is_done:
                partitions[key].searches.append(search)
    rounds = found.rounds(partitions, progress)
    starts = found.offsets(EARLIEST)
    points: dict[Key, list[TimePoint]] = {}
    for key, end in found.ends.items():
        points[key] = [TimePoint(offset=end, timestamp_ms=asked_at_ms, source="log_end")]
        if key in starts:
            points[key].append(TimePoint(offset=starts[key], timestamp_ms=as_of_ms, source="log_start"))
        if (stable := found.stable.get(key, end)) < end:
            points[key].append(TimePoint(offset=stable, timestamp_ms=as_of_ms, source="last_stable"))
        # Answers are true for records at and above the current log start: records may have been deleted meanwhile.
        points[key] += [
            TimePoint(
                offset=offset,
                timestamp_ms=timestamp_ms,
                source="list_offsets",
                asked_ms=asked_ms,
                log_start_offset=starts[key],
            )
            for (offset, timestamp_ms), asked_ms in (partitions[key].answers.items() if key in starts else ())
        ]
    questions = sum(each.questions for each in partitions.values())
    return Refined(points=points, rounds=rounds, questions=questions, unanswered=found.unanswered)


class _Lookup:
    """One lookup for some partitions, and the topics that these belong to."""

    def __init__(self, session: ClusterSession, wanted: Iterable[Key]) -> None:
        self._session = session
        self._wanted = set(wanted)
        self._failures: Counter[Key] = Counter()
        self.unanswered: dict[Key, str] = {}
        self.ends: dict[Key, int] = {}
        self.stable: dict[Key, int] = {}
        self._topics = self._leaders()
        there = {(topic.name, number) for topic in self._topics for number in topic.leaders}
        self.unanswered |= dict.fromkeys(self._wanted - there, "the cluster shows no such partition")

    def ask_for_ends(self) -> None:
        """Ask for high watermarks, then for last stable offsets: one that is below the high watermark then shows an
        open transaction."""
        self.ends = self.offsets(LATEST)
        self.stable = self.offsets(LATEST, READ_COMMITTED)
        for key in self._wanted - set(self.ends) - set(self.unanswered):
            self.unanswered[key] = "no leader answers"

    def offsets(self, timestamp: int, isolation: int = 0) -> dict[Key, int]:
        return list_offsets(self._session, self._topics, timestamp=timestamp, isolation=isolation)

    def rounds(self, partitions: Mapping[Key, _Partition], progress: Callable[[int, int], None] | None) -> int:
        """Ask round after round until nothing is left to ask."""
        count = 0
        while True:
            open_questions = {
                key: questions
                for key, each in partitions.items()
                if key not in self.unanswered and (questions := each.next_round())
            }
            if progress:
                progress(len(partitions) - len(open_questions), len(partitions))
            if not open_questions:
                return count
            count += 1
            failed = self._ask(open_questions, partitions)
            if failed:
                self._topics = self._leaders()

    def _ask(self, questions: Mapping[Key, Sequence[int]], partitions: Mapping[Key, _Partition]) -> bool:
        """Ask one round; return whether there was a transient failure."""
        has_failed, unasked = False, set(questions)
        for node_id, asked in requests_to_leaders(self._topics, lambda key: questions.get(key, ())):
            unasked -= set(asked)
            try:
                answers = ask_offsets(self._session, node_id, asked)
            except TransientError as error:
                has_failed = True
                for key in asked:
                    self._failed(key, error.message)
                continue
            for key, answer in answers:
                if answer.error_code:
                    name = error_name(answer.error_code)
                    may_pass = name in _MAY_PASS
                    has_failed |= may_pass
                    self._failed(key, self._session.named(name, "ListOffsets", topic=key[0]), may_pass=may_pass)
                else:
                    timestamp_ms = None if answer.offset < 0 else answer.timestamp
                    partitions[key].learn(asked[key], answer.offset, timestamp_ms)
        for key in unasked:
            has_failed = True
            self._failed(key, "it has no leader")
        return has_failed

    def _failed(self, key: Key, why: str, *, may_pass: bool = True) -> None:
        self._failures[key] += 1
        if not may_pass or self._failures[key] >= _ATTEMPTS:
            self.unanswered[key] = why

    def _leaders(self) -> list[Topic]:
        """The topics with their current leaders, with the wanted partitions only; hidden topics are left out."""
        seen = describe_cluster(self._session)
        return [
            Topic(name=topic.name, topic_id=topic.topic_id, leaders=wanted)
            for topic in seen.topics.values()
            if (wanted := {n: leader for n, leader in topic.leaders.items() if (topic.name, n) in self._wanted})
        ]
