"""Fetches ranges of log partitions into segments of the archive, in this process or by Spark tasks in parallel.

The leader of a log partition is also the coordinator of its groups, so fetches are kept cheap for it: only bytes that
are not archived yet, one response of 8 MB at a time per connection, in the format on disk (no down-conversion, so the
broker can use sendfile). There is no consumer group, no commit and no fetch session: reading leaves no trace in the
topic. Quotas of brokers are respected; `bytes_per_second` lowers the rate further.

A fetch ends early if the log changes while it is read (kafka.fetch) or a broker does not answer for a minute. The
snapshot then queries the log ends again, and fetches what is missing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sexton.archive.folder import filesystem
from sexton.archive.lineages import lineage_folder, segments_in
from sexton.archive.manifest import Manifest, SegmentRange
from sexton.archive.writer import write_batches, write_manifest
from sexton.failpoints import failpoint
from sexton.job_params import SnapshotRequest
from sexton.kafka.failures import TransientError
from sexton.kafka.fetch import LogChangedError, LogReader, Pace
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.topics import UNKNOWN_ID, PartitionLeader
from sexton.runs.engine import Engine

SEGMENT_BYTES = 64 * 1024 * 1024
LOG_OFFSETS_A_TASK = 1_000_000
"""Ranges end at multiples of this, so that a run after a crash cuts segments at the same log_offsets."""
TYPICAL_BYTES_A_LOG_OFFSET = 160
"""Bytes of an uncompressed offset commit; only used to decide whether starting Spark pays off."""
DRIVER_BYTES = 512 * 1024 * 1024
"""Up to this size the driver fetches: at some 75 MB/s over one connection, this takes no longer than starting Spark."""
CONNECTIONS = 8
"""Driver threads that share a rate limit, each reading one log partition at a time: enough to reach the limit."""
RANGES_A_WAVE = 64
"""Number of ranges fetched before their manifests are written: a crash loses at most these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWork:
    """A range of one log partition that a task fetches from `leader`; `after_epoch` is as in kafka.fetch.LogReader."""

    request: SnapshotRequest
    where: SegmentRange
    leader: PartitionLeader
    after_epoch: int | None

    @property
    def log_offsets(self) -> int:
        return self.where.next_log_offset - self.where.first_log_offset

    @property
    def unfinished(self) -> str | None:
        """Why more has to be fetched after this range: it only closes a gap below archived segments. None otherwise."""
        return "a gap in the archive is closed" if self.where.next_log_offset < self.where.high_watermark else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of one FetchWork; `changed` is why it ended early, for example because its leader `is_unreachable`."""

    manifests: list[Manifest]
    changed: str | None = None
    is_unreachable: bool = False


def fetch(
    engine: Engine, work: list[FetchWork], connect: Connect, *, bytes_per_second: int | None, is_first: bool
) -> list[Fetched]:
    """Fetch all `work`: little of it over one connection of this process; more with Spark tasks, or, if the rate is
    limited, over several connections of this process.

    In later rounds (`is_first` False: the log changed while it was read), one task reads each log partition in order.
    """
    if not work:
        return []
    is_small = sum(item.log_offsets for item in work) * TYPICAL_BYTES_A_LOG_OFFSET <= DRIVER_BYTES
    pace = Pace(bytes_per_second) if bytes_per_second is not None else None
    if is_small or pace is not None:
        return _fetch_here(work, connect, pace, connections=1 if is_small else CONNECTIONS)
    if is_first:
        return _fetch_in_parallel(engine, work, connect)
    return engine.map("Fetching the log", work, _connected(_fetch_in_order, connect))


def ranges(start: int, end: int) -> Iterator[tuple[int, int]]:
    """[start, end) cut at the multiples of LOG_OFFSETS_A_TASK."""
    while start < end:
        stop = min(end, (start // LOG_OFFSETS_A_TASK + 1) * LOG_OFFSETS_A_TASK)
        yield start, stop
        start = stop


def _fetch_here(work: Sequence[FetchWork], connect: Connect, pace: Pace | None, *, connections: int) -> list[Fetched]:
    """Fetch one log partition after another on each connection, all within `pace`, with progress on a terminal."""
    columns = (TextColumn("fetching the log"), BarColumn(), MofNCompleteColumn(), TextColumn("log_offsets"))
    console = Console(stderr=True)
    shares = [work[start::connections] for start in range(min(connections, len(work)))]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=sum(item.log_offsets for item in work))

        def fetch_share(share: Sequence[FetchWork]) -> list[Fetched]:
            fetched: list[Fetched] = []
            silent: set[int] = set()
            with connect(share[0].request.config) as session:
                for item in share:
                    if fetched:
                        failpoint("snapshot.between")
                    if item.leader.node_id not in silent:
                        fetched.append(_fetch_in_order(item, session, pace))
                        if fetched[-1].is_unreachable:  # the leader's other log partitions would also time out
                            silent.add(item.leader.node_id)
                    progress.advance(task, item.log_offsets)
            return fetched

        if len(shares) == 1:
            return fetch_share(work)
        with ThreadPoolExecutor(len(shares)) as pool:
            try:
                return [each for fetched in pool.map(fetch_share, shares) for each in fetched]
            except BaseException:  # also Ctrl-C: the pool waits for its threads
                if pace is not None:
                    pace.is_stopped = True
                raise


def _fetch_in_parallel(engine: Engine, work: Sequence[FetchWork], connect: Connect) -> list[Fetched]:
    """Fetch ranges with many parallel tasks, some ranges of each log partition in turn.

    The driver writes the manifests in log order, so no segment ever follows a gap. Otherwise a segment that an election
    has since cut off could be taken for the continuation of another log.
    """
    fs, root = filesystem(work[0].request.archive)
    items = _interleaved(work)
    fetched = [Fetched(manifests=[], changed=item.unfinished) for item in work if item.unfinished]
    stopped: dict[int, str] = {}
    for begin in range(0, len(items), RANGES_A_WAVE):
        wave = [item for item in items[begin : begin + RANGES_A_WAVE] if item.where.log_partition not in stopped]
        if begin:
            failpoint("snapshot.between")
        results = engine.map("Fetching the log", wave, _connected(_fetch_range, connect))
        for item, result in zip(wave, results, strict=True):
            if result.changed:
                stopped.setdefault(item.where.log_partition, result.changed)
            if item.where.log_partition in stopped:
                continue
            for manifest in result.manifests:
                write_manifest(fs, root, manifest)
            fetched.append(result)
    return [*fetched, *(Fetched(manifests=[], changed=change) for change in stopped.values())]


def _interleaved(work: Iterable[FetchWork]) -> list[FetchWork]:
    """The work in ranges of LOG_OFFSETS_A_TASK: the first range of every log partition, then the second ones, etc.

    A range is only valid under the present leader: after an election it is unknown what the other tasks have read.
    """
    by_log_partition = [
        [
            replace(item, where=replace(item.where, first_log_offset=start, next_log_offset=end), after_epoch=None)
            for start, end in ranges(item.where.first_log_offset, item.where.next_log_offset)
        ]
        for item in work
    ]
    return [item for turn in zip_longest(*by_log_partition) for item in turn if item is not None]


def _connected(
    fetch: Callable[[FetchWork, ClusterSession], Fetched], connect: Connect
) -> Callable[[FetchWork], Fetched]:
    """`fetch` as a task that opens its own connection."""

    def work_on(work: FetchWork) -> Fetched:
        with connect(work.request.config) as session:
            return fetch(work, session)

    return work_on


def _fetch_in_order(work: FetchWork, session: ClusterSession, pace: Pace | None = None) -> Fetched:
    """Archive the work of one log partition, segment after segment."""
    fs, root = filesystem(work.request.archive)
    manifests = []
    try:
        for manifest in _segments(work, session, pace):
            write_manifest(fs, root, manifest)
            manifests.append(manifest)
    except (LogChangedError, TransientError) as error:
        is_unreachable = isinstance(error, TransientError)
        return Fetched(manifests=manifests, changed=str(error), is_unreachable=is_unreachable)
    return Fetched(manifests=manifests, changed=work.unfinished)


def _fetch_range(work: FetchWork, session: ClusterSession) -> Fetched:
    """Fetch one of several ranges read in parallel: its segments are written, and its caller writes the manifests."""
    try:
        return Fetched(manifests=list(_segments(work, session)))
    except (LogChangedError, TransientError) as error:
        return Fetched(manifests=[], changed=str(error))


def _segments(work: FetchWork, session: ClusterSession, pace: Pace | None = None) -> Iterator[Manifest]:
    """Write a range as segments of at most SEGMENT_BYTES plus one response; the caller writes their manifests."""
    fs, root = filesystem(work.request.archive)
    where = work.where
    folder = lineage_folder(root, where.cluster_id, where.topic_id, where.log_partition, where.lineage)
    reader = LogReader(
        session,
        work.request.topic,
        where.log_partition,
        topic_id=None if where.topic_id == UNKNOWN_ID else where.topic_id,
        leader=work.leader,
        after_epoch=work.after_epoch,
        pace=pace,
    )
    position = where.first_log_offset
    while position < where.next_log_offset:
        chunks, stop = _next_segment(reader, position, next(ranges(position, where.next_log_offset))[1])
        taken = f"another snapshot has archived log partition {where.log_partition} from {position} on"
        # Segments with a manifest are never overwritten: a task that was presumed dead may still be running.
        if any(segment.first_log_offset == position for segment in segments_in(fs, folder)):
            raise LogChangedError(taken)
        manifest = write_batches(fs, root, chunks, replace(where, first_log_offset=position, next_log_offset=stop))
        yield manifest
        if manifest.next_log_offset != stop:
            raise LogChangedError(taken)
        position = stop


def _next_segment(reader: LogReader, position: int, end: int) -> tuple[list[bytes], int]:
    """Raw batches from `position` on, and the log_offset up to which they cover the log."""
    chunks: list[bytes] = []
    size_bytes = 0
    for batches in reader.read(start=position, end=end):
        chunks.append(batches.data)
        size_bytes += len(batches.data)
        if size_bytes >= SEGMENT_BYTES:
            return chunks, min(batches.next_offset, end)
    return chunks, end
