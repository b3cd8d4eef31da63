"""Who did it, by the logs of brokers: what fits is told with how sure it is, and nobody is named by guess."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sexton.errors import UsageError
from sexton.history.events import RESET, Event
from sexton.incident.broker_logs import BrokerLogs, instants, read_logs
from sexton.incident.callers import Certainty, Who, who_did
from sexton.incident.document import CAUSES
from sexton.tables.change_causes import CAUSES as CAUSES_OF_LOSS

AT_MS = 1_795_250_773_506
GROUP = "web-shop"
LOST = {"topic": "orders", "partition": 0, "old_committed_offset": 7, "new_committed_offset": None, "log_offset": 5}
SET = {**LOST, "new_committed_offset": 3}
DELETED = Event(timestamp_ms=AT_MS, log_offset=5, what="group_deleted", detail="", offsets=(LOST,))
OFFSET_DELETED = Event(timestamp_ms=AT_MS, log_offset=5, what="deleted", detail="", offsets=(LOST,))
MAYBE = Event(timestamp_ms=AT_MS, log_offset=5, what="expired or group_deleted", detail="", offsets=(LOST,))
RESETS = Event(timestamp_ms=AT_MS, log_offset=5, what=RESET, detail="", offsets=(SET,))
TOPIC_DELETED = Event(timestamp_ms=AT_MS, log_offset=5, what="topic_deleted", detail="", offsets=(LOST,))


def stamped(level: str, message: str, logger: str, *, late_ms: int = 0, zone: str = "UTC") -> str:
    at = datetime.fromtimestamp((AT_MS + late_ms) / 1000, UTC).astimezone(ZoneInfo(zone))
    return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}] {level} {message} ({logger})"


def audit(
    api: str, *, who: str = "User:ann", group: str = GROUP, kind: str = "Group", new: bool = True,
    result: str = "Allowed", **at: Any,
) -> str:  # fmt: skip
    """A line of StandardAuthorizer, or of AclAuthorizer up to 3.x."""
    operation, rule = ("operation", " based on rule SuperUser") if new else ("Operation", "")
    level = "DEBUG" if result == "Allowed" else "INFO"
    message = (
        f"Principal = {who} is {result} {operation} = DELETE from host = 10.0.0.7 on resource = {kind}:LITERAL:{group} "
        f"for request = {api} with resourceRefCount = 1{rule}"
    )
    return stamped(level, message, "kafka.authorizer.logger", **at)


def request(
    number: int, asked: dict[str, Any], answer: dict[str, Any], *, who: str = "User:ann", forwarded: bool = False,
    connection: str = "10.0.0.1:9092-10.0.0.7:51234-3-1", took_ms: float = 2.5, **at: Any,
) -> str:  # fmt: skip
    """A line of RequestChannel."""
    told = {
        "isForwarded": forwarded,
        "requestHeader": {"requestApiKey": number, "requestApiVersion": 2, "clientId": "adminclient-1"},
        "request": asked, "response": answer, "connection": connection, "totalTimeMs": took_ms, "principal": who,
    }  # fmt: skip
    return stamped("DEBUG", f"Completed request:{json.dumps(told)}", "kafka.request.logger", **at)


def delete_groups(*, error: int = 0, group: str = GROUP, **options: Any) -> str:
    results = [{"groupId": "another", "errorCode": 0}, {"groupId": group, "errorCode": error}]
    return request(42, {"groupsNames": ["another", group]}, {"results": results}, **options)


def offset_delete(*, topic: str = "orders", error: int = 0, **options: Any) -> str:
    asked = {"groupId": GROUP, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]}
    parts = [{"partitionIndex": 0, "errorCode": error}]
    return request(47, asked, {"errorCode": 0, "topics": [{"name": topic, "partitions": parts}]}, **options)


def offset_commit(*, offset: int = 3, by_id: bool = False, **options: Any) -> str:
    topic = {"topicId": "q1Zf"} if by_id else {"name": "orders"}
    parts = [{"partitionIndex": 0, "committedOffset": offset, "committedMetadata": ""}]
    answer = {"topics": [{**topic, "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]}
    asked = {"groupId": GROUP, "memberId": "", "topics": [{**topic, "partitions": parts}]}
    return request(8, asked, answer, **options)


def read(folder: Path, *lines: str, zone: str = "UTC") -> BrokerLogs:
    path = folder / "kafka-request.log"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return read_logs([path], zone)


def who(folder: Path, event: Event, *lines: str, zone: str = "UTC") -> Who:
    (found,) = who_did([event], GROUP, read(folder, *lines, zone=zone))
    return found


def answer_of(found: Who) -> tuple[str, list[tuple[str, str]]]:
    return found.certainty.value, [(caller.principal, caller.host) for caller in found.callers]


TOPIC_GONE = {"responses": [{"name": "orders", "errorCode": 0}]}
ANN = ("User:ann", "10.0.0.7")
CERTAIN, LIKELY, NOT_LOGGED = ("certain", [ANN]), ("likely", [ANN]), ("not_logged", [])


@pytest.mark.parametrize(
    ("event", "lines", "answer"),
    [
        (DELETED, [delete_groups()], CERTAIN),
        (DELETED, [audit("DeleteGroups")], LIKELY),
        (DELETED, [audit("DeleteGroups", new=False)], LIKELY),
        (DELETED, [audit("DeleteGroups"), delete_groups()], CERTAIN),
        (DELETED, [delete_groups(), delete_groups(error=69, who="User:bob")], CERTAIN),
        (DELETED, [delete_groups(error=30)], NOT_LOGGED),
        (DELETED, [delete_groups(group="web-shop-2")], NOT_LOGGED),
        (DELETED, [offset_delete()], NOT_LOGGED),
        (DELETED, [audit("DeleteGroups", result="Denied")], NOT_LOGGED),
        (DELETED, [audit("DescribeGroups")], NOT_LOGGED),
        (DELETED, [delete_groups(late_ms=5_900, took_ms=900)], CERTAIN),
        (DELETED, [delete_groups(late_ms=6_000)], NOT_LOGGED),
        (DELETED, [delete_groups(late_ms=-6_000)], NOT_LOGGED),
        (DELETED, [delete_groups()[:-40]], NOT_LOGGED),
        (DELETED, ["[2026-11-21 04:00:00,000] DEBUG Completed request:{} (kafka.request.logger)"], NOT_LOGGED),
        (OFFSET_DELETED, [offset_delete()], CERTAIN),
        (OFFSET_DELETED, [offset_delete(topic="clicks")], NOT_LOGGED),
        (OFFSET_DELETED, [offset_delete(error=86)], NOT_LOGGED),
        (OFFSET_DELETED, [audit("OffsetDelete", kind="Topic", group="orders"), audit("OffsetDelete")], LIKELY),
        (MAYBE, [delete_groups()], CERTAIN),
        (RESETS, [offset_commit()], CERTAIN),
        (RESETS, [offset_commit(by_id=True)], CERTAIN),
        (RESETS, [offset_commit(offset=4)], NOT_LOGGED),
        (RESETS, [offset_commit(), offset_commit(offset=9, who="User:bob")], CERTAIN),
        (TOPIC_DELETED, [audit("DeleteTopics", kind="Topic", group="orders")], LIKELY),
        (TOPIC_DELETED, [audit("DeleteTopics", kind="Topic", group="clicks")], NOT_LOGGED),
        (TOPIC_DELETED, [request(20, {}, TOPIC_GONE)], CERTAIN),
        (TOPIC_DELETED, [request(20, {}, TOPIC_GONE, forwarded=True)], NOT_LOGGED),
    ],
)  # fmt: skip
def test_what_fits_is_told(tmp_path: Path, event: Event, lines: list[str], answer: tuple[str, Any]) -> None:
    assert answer_of(who(tmp_path, event, *lines)) == answer


def test_several_are_candidates(tmp_path: Path) -> None:
    found = who(tmp_path, DELETED, delete_groups(), delete_groups(who="User:bob", connection="[::1]:9-fe80::7:51-1"))
    assert answer_of(found) == ("candidates", [ANN, ("User:bob", "fe80::7")])


def test_an_expiry_asks_for_nobody() -> None:
    expired = Event(timestamp_ms=AT_MS, log_offset=5, what="expired", detail="", offsets=(LOST,))
    assert who_did([expired], GROUP, None) == []


def test_the_removal_of_the_group_is_the_same_write() -> None:
    removed = Event(timestamp_ms=AT_MS, log_offset=6, what="removed", detail="", causes=("group_deleted",))
    assert len(who_did([DELETED, removed], GROUP, None)) == 1
    assert len(who_did([removed], GROUP, None)) == 1


def test_never_nobody(tmp_path: Path) -> None:
    """Without a log, at the default levels, and with a log of another day it is not logged, and the reason says why."""
    (without,) = who_did([DELETED], GROUP, None)
    default = who(tmp_path, DELETED, audit("DeleteGroups", result="Denied"), stamped("WARN", "other", "kafka.Other"))
    another = who(tmp_path, DELETED, delete_groups(late_ms=86_400_000 * 2))
    inside = who(tmp_path, DELETED, delete_groups(group="a", late_ms=-100), delete_groups(group="b", late_ms=100))
    found = [without, default, another, inside]
    assert {one.certainty for one in found} == {Certainty.NOT_LOGGED}
    for one, word in zip(found, ("no log", "denials alone", "not of that instant", "no request in"), strict=True):
        assert word in one.reason, one.reason
        assert "nobody" not in one.reason
    assert all("DEBUG" in one.reason for one in (without, default, inside))


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/New_York"])
def test_a_log_has_the_time_of_its_zone(tmp_path: Path, zone: str) -> None:
    line = delete_groups(zone=zone)
    assert answer_of(who(tmp_path, DELETED, line, zone=zone)) == CERTAIN
    wrong = who(tmp_path, DELETED, line)
    assert answer_of(wrong) == NOT_LOGGED
    assert "--log-time-zone" in wrong.reason
    assert ("+5.75 h" if zone == "Asia/Kathmandu" else "-5 h") in wrong.reason


def test_the_hour_that_comes_twice() -> None:
    first, second = instants("2026-10-25 02:30:00,000", ZoneInfo("Europe/Berlin"))
    assert second - first == 3_600_000


def test_gzip_is_read_and_files_are_hashed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "kafka-authorizer.log", tmp_path / "kafka-request.log.2026-11-21-08.gz"
    plain.write_text(audit("DeleteGroups") + "\n")
    packed.write_bytes(gzip.compress((delete_groups() + "\n").encode()))
    logs = read_logs([plain, packed], "UTC")
    assert [(file.allowed, file.completed) for file in logs.files] == [(1, 0), (0, 1)]
    assert [len(file.sha256) for file in logs.files] == [64, 64]
    (found,) = who_did([DELETED], GROUP, logs)
    assert (answer_of(found), found.callers[0].line) == (CERTAIN, f"{packed.name}:1")


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="time zone"):
        read_logs([], "Mars/Olympus")
    with pytest.raises(UsageError, match="cannot be read"):
        read_logs([tmp_path / "none.log"], "UTC")
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"x" * 100)[:-9])
    with pytest.raises(UsageError, match="cannot be read"):
        read_logs([broken], "UTC")


def test_a_group_that_is_called_like_a_line_names_nobody_else(tmp_path: Path) -> None:
    """Of two readings of a line the one that StandardAuthorizer means: the resource ends at the last request."""
    name = f"x for request = DeleteGroups with resourceRefCount = 1 is Allowed operation = DELETE from host = {GROUP}"
    assert answer_of(who(tmp_path, DELETED, audit("DescribeGroups", group=name))) == NOT_LOGGED
    name = f"x is Allowed operation = DELETE from host = 1.2.3.4 on resource = Group:LITERAL:{GROUP}"
    assert answer_of(who(tmp_path, DELETED, audit("DeleteGroups", group=name))) == NOT_LOGGED


def test_each_cause_of_a_loss_has_a_sentence() -> None:
    assert {kind.value for kind in CAUSES_OF_LOSS} <= set(CAUSES)
