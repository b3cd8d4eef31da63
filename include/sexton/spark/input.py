"""The options that both data sources share, and the log that they select."""

from collections.abc import Iterator, Mapping
from itertools import islice

from sexton.archive.folder import filesystem
from sexton.coordinator.partitioner import proven_partition_count
from sexton.errors import LogError, UsageError
from sexton.log.batch import read_batches, read_records
from sexton.log.entry import Batch, Record
from sexton.log.segment import Segment
from sexton.numbers import whole_number
from sexton.policy.durations import parse_instant
from sexton.records import decode_key
from sexton.runs.source import LogSource, open_archive, open_segments
from sexton.settings import settings

HEAD_BYTES, HEAD_NAMES = 1 << 18, 200


def path_of(options: Mapping[str, str], format_name: str) -> str:
    """The path given to `load`; UsageError if there is none."""
    path = options.get("path")
    if not path:
        raise UsageError("no path", where=format_name, fix="`.load(PATH)`: an archive or a broker's log directory")
    return path


def instant_of(options: Mapping[str, str], name: str) -> int | None:
    """An option in epoch milliseconds, given as a number or as ISO 8601 with a zone; None without the option."""
    text = options.get(name)
    if text is None:
        return None
    try:
        return whole_number(text) if text.isdecimal() else parse_instant(text)
    except ValueError as error:
        fix = "epoch milliseconds, or ISO 8601 like 2026-11-21T04:00:00Z"
        raise UsageError(f"{text!r} {error}", where=f"option {name}", fix=fix) from None


def is_disk(path: str) -> bool:
    """Whether the path is a broker's log directory, or a backup of one, rather than an archive."""
    try:
        open_segments(path, topics_file=None)
    except UsageError:
        return False
    return True


def open_log(options: Mapping[str, str], format_name: str) -> LogSource:
    """The log of the options `path`, `as_of` and `cluster_id`; the last two only apply to an archive."""
    path = path_of(options, format_name)
    as_of_ms = instant_of(options, "as_of")
    try:
        return open_segments(path, topics_file=None)
    except UsageError:  # not a disk, so an archive
        return open_archive(path, as_of_ms=as_of_ms, cluster_id=options.get("cluster_id"))


def chosen_segments(options: Mapping[str, str], source: LogSource) -> list[Segment]:
    """The segments of the log partitions in the option `log_partitions`, such as `0,3`; all by default."""
    asked = options.get("log_partitions")
    try:
        wanted = set(source.segments) if asked is None else {whole_number(each) for each in asked.split(",")}
    except ValueError:
        raise UsageError(f"{asked!r} are no numbers", where="option log_partitions", fix="such as 0,3") from None
    return [segment for part, some in source.segments.items() if part in wanted for segment in some]


def proven_count(source: LogSource) -> int | None:
    """The topic's partition count, if the oldest records of each log partition prove it.

    None if there are too few groups, or if the count was raised: then groups of the oldest records now hash to other
    log partitions.
    """
    found = {part: islice(_oldest_groups(source, segments), HEAD_NAMES) for part, segments in source.segments.items()}
    names = {part: set(some) for part, some in found.items()}
    return proven_partition_count(names, max(names, default=0), all_agree=True)


def _oldest_groups(source: LogSource, segments: list[Segment]) -> Iterator[str]:
    fs, _ = filesystem(source.uri)
    for segment in segments[:1]:
        with fs.open_input_file(segment.path) as file:
            data = file.read(min(segment.size_bytes, HEAD_BYTES))
        for batch in read_batches(data):
            if isinstance(batch, Batch) and not batch.is_control:
                for record in read_records(batch, cap_bytes=settings().inflated_cap_bytes):
                    if isinstance(record, Record) and record.key is not None:
                        try:
                            yield decode_key(record.key)[1].group_id
                        except LogError:
                            continue
