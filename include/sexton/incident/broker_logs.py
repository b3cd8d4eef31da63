"""Requests that change offsets, from the logs of brokers: kafka-authorizer.log and kafka-request.log.

This module reads the default pattern of log4j.properties and log4j2.yaml, `[%d] %p %m (%c)%n`, and the messages of
AclAuthorizer, StandardAuthorizer and RequestChannel (JSON since 2.8, KIP-673). By default neither log has what is
needed: kafka.authorizer.logger is at INFO, which has denials alone, and kafka.request.logger at WARN. Both need DEBUG.

A log has local times without a zone, so --log-time-zone gives the zone. A group id may have line breaks, and the
authorizer does not escape them, so lines of its log may be forged. Lines of the request log cannot: they are JSON.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sexton.as_text import ms_of
from sexton.errors import UsageError

_APIS = {8: "OffsetCommit", 20: "DeleteTopics", 28: "TxnOffsetCommit", 42: "DeleteGroups", 47: "OffsetDelete"}
"""Name of a request by API key: in the request log, names differ between releases."""
OFFSET_COMMIT, DELETE_TOPICS, TXN_OFFSET_COMMIT, DELETE_GROUPS, OFFSET_DELETE = _APIS.values()
_GZIP = b"\x1f\x8b"
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] ")
_COMPLETED = "Completed request:"
_ALLOWED = " is Allowed "
_AUDIT = re.compile(
    r"[Pp]rincipal = (?P<principal>.*?) is Allowed [oO]peration = \w+ from host = (?P<host>\S+) "
    r"on resource = (?P<kind>Group|Topic):LITERAL:(?P<name>.*) for request = (?P<api>\w+) with resourceRefCount = "
)
_CLIENT = re.compile(r".*?:\d+-(?P<host>.+):\d+-\d+(?:-\d+)?")
"""A connection id: the broker's host and port, the client's host and port, numbers."""

Partitions = Mapping[tuple[str, int], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """A logged request about one group, or one topic: either completed without an error, or only allowed.

    `at_ms` are the possible instants of the log line: two in the hour in which clocks are set back. `partitions` are
    the request's topics and partitions, with the committed offsets of a commit; None if the log does not say. A topic
    that the request names by id only is "".
    """

    at_ms: tuple[int, ...]
    took_ms: int = 0
    api: str
    principal: str
    host: str
    client_id: str | None = None
    group_id: str | None
    topic: str | None
    partitions: Partitions | None = None
    is_completed: bool
    line: str


@dataclass(slots=True, kw_only=True)
class LogFile:
    """A file that was read; `first_ms` and `last_ms` are the times of its first and last line at the needed level."""

    path: str
    size_bytes: int = 0
    sha256: str = ""
    allowed: int = 0
    completed: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class BrokerLogs:
    """The calls in all files, and the files. `zone` is the time zone of the logs."""

    zone: str
    files: list[LogFile] = field(default_factory=list)
    calls: list[LoggedCall] = field(default_factory=list)


def read_logs(paths: Sequence[Path], zone: str) -> BrokerLogs:
    """The calls in logs of brokers, plain or gzipped; UsageError for an unknown time zone or an unreadable file."""
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"no such time zone: {zone!r}", where="--log-time-zone", fix="such as Europe/Berlin") from None
    logs = BrokerLogs(zone=zone)
    for path in paths:
        try:
            _read(path, info, logs)
        except (OSError, EOFError) as error:
            raise UsageError(f"cannot be read: {error}", where=path, fix="a log of a broker, or gzip of one") from None
    return logs


def _read(path: Path, zone: ZoneInfo, logs: BrokerLogs) -> None:
    file, levels = LogFile(path=str(path)), list[str]()
    for number, line in enumerate(_lines(path, file), 1):
        is_completed = _COMPLETED in line
        if not is_completed and _ALLOWED not in line:
            continue
        stamp = _STAMP.match(line)
        if stamp is None:
            continue
        levels = [*levels[:1], stamp[1]]
        file.completed += is_completed
        file.allowed += not is_completed
        place = f"{path.name}:{number}"
        read = _completed if is_completed else _allowed
        logs.calls += read(line[stamp.end() :], instants(stamp[1], zone), place)
    if levels:
        file.first_ms, file.last_ms = instants(levels[0], zone)[0], instants(levels[-1], zone)[-1]
    logs.files.append(file)


def _lines(path: Path, file: LogFile) -> Iterator[str]:
    with path.open("rb") as raw:
        file.sha256 = hashlib.file_digest(raw, "sha256").hexdigest()
        file.size_bytes = path.stat().st_size
        raw.seek(0)
        is_gzip = raw.read(2) == _GZIP
        raw.seek(0)
        lines = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if is_gzip else raw
        for line in lines:
            yield line.decode("utf-8", errors="replace")


def instants(text: str, zone: ZoneInfo) -> tuple[int, ...]:
    """The epoch milliseconds of a local time: two where clocks were set back."""
    local = datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=zone)
    return tuple(sorted({ms_of(local), ms_of(local.replace(fold=1))}))


def _allowed(text: str, at_ms: tuple[int, ...], place: str) -> Iterator[LoggedCall]:
    """The call in an authorizer's line; whether the call then succeeded is not known."""
    found = _AUDIT.search(text)
    if found is None or found["api"] not in _APIS.values():
        return
    is_group = found["kind"] == "Group"
    if is_group == (found["api"] == DELETE_TOPICS):
        return  # a commit has a line for each topic, too: only the group's counts
    yield LoggedCall(
        at_ms=at_ms,
        api=found["api"],
        principal=found["principal"],
        host=found["host"],
        group_id=found["name"] if is_group else None,
        topic=None if is_group else found["name"],
        is_completed=False,
        line=place,
    )


def _completed(text: str, at_ms: tuple[int, ...], place: str) -> Iterator[LoggedCall]:
    """The calls that a completed request carried out without an error."""
    try:
        logged, _ = json.JSONDecoder().raw_decode(text[text.index(_COMPLETED) + len(_COMPLETED) :])
        api = _APIS.get(logged["requestHeader"]["requestApiKey"])
        # A broker logs a forwarded request with the client. The controller logs it again, without: skip that line.
        if api is None or logged["isForwarded"]:
            return
        client = _CLIENT.fullmatch(logged["connection"])
        done = _done(api, logged["request"], logged["response"])
        for group_id, topic, partitions in done:
            yield LoggedCall(
                at_ms=at_ms,
                took_ms=int(logged["totalTimeMs"]) + 1,
                api=api,
                principal=logged["principal"],
                host=client["host"] if client else logged["connection"],
                client_id=logged["requestHeader"]["clientId"],
                group_id=group_id,
                topic=topic,
                partitions=partitions,
                is_completed=True,
                line=place,
            )
    except (ValueError, KeyError, TypeError, AttributeError):
        return  # a truncated line, or one in another format, has no calls


def _done(
    api: str, asked: Mapping[str, Any], answer: Mapping[str, Any]
) -> Iterable[tuple[str | None, str | None, Partitions | None]]:
    """(group, topic, partitions) of what was done without an error."""
    if api == DELETE_GROUPS:
        return [(one["groupId"], None, None) for one in answer["results"] if one["errorCode"] == 0]
    if api == DELETE_TOPICS:
        return [(None, one["name"], None) for one in answer["responses"] if one["errorCode"] == 0]
    good = {
        (_topic(topic), part["partitionIndex"])
        for topic in answer.get("topics", ())
        for part in topic["partitions"]
        if part["errorCode"] == 0 and not answer.get("errorCode")
    }
    partitions = {
        (topic.get("name") or "", part["partitionIndex"]): part.get("committedOffset")
        for topic in asked["topics"]
        for part in topic["partitions"]
        if (_topic(topic), part["partitionIndex"]) in good
    }
    return [(asked["groupId"], None, partitions)] if partitions else []


def _topic(topic: Mapping[str, Any]) -> str:
    """The name of a topic in a request, or its id: since 4.1 commits may have ids alone."""
    return str(topic.get("name") or topic.get("topicId"))
