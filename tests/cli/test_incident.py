"""`sexton incident`: one page and its JSON, from a disk, an archive, a run and the published tables, with and without
names; `sexton explain` with logs of brokers."""

import json
import re
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sexton.lake import catalog as lake_catalog
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import Archive
from tests.cli.conftest import Run
from tests.cli.test_explain_diff import append
from tests.html import TAGS, Html, harmless
from tests.incident.test_who import AT_MS, audit, offset_commit
from tests.log_builder import BatchSpec, classic_fields, commit, encode_log, group_entry, subscription, tombstone
from tests.report.run_folder import HOSTILE_NAMES
from tests.ui.lakes import lake_at
from tests.views.worlds import write_archive, write_log

RUN = {"cluster_id": "c", "as_of_ms": AT_MS, "run_id": "r2"}
AUDIT = {**RUN, "run_id": "a"}
OF_REPLICA = {"log_partition": 0, "topic": "t", "partition": 0, "kinds": ["lost"], "right_replicas": ["broker-1"]}
PUBLISHED: dict[str, list[dict[str, Any]]] = {
    "runs": [
        {**RUN, "snapshots": [], "missing_log_partitions": [], "counts": [], "warnings": [], "coverage": "complete",
         "cuts": [{"log_partition": 0, "cut": 9}]},
    ],
    "offset_changes": [
        {**RUN, "group_id": "g", "topic": "t", "partition": 0, "log_partition": 0, "kind": "ambiguous", "log_offset": 7,
         "candidates": ["expired", "deleted"], "old_committed_offset": 5, "timestamp_ms": AT_MS - 5, "evidence": "why"},
    ],
    "time_lag": [
        {**AUDIT, "group_id": group, "topic": topic, "partition": 0, "committed_offset": 10, "lag": 90}
        for group, topic in (("g", "t"), ("h", "u"))
    ],
    "replica_differences": [
        {**AUDIT, **OF_REPLICA, "ordinal": number, "group_id": group, "kind": "lost", "wrong_replicas": [wrong],
         "evidence": "why", "advice": f"stop {wrong}"}
        for number, (group, wrong) in enumerate((("g", "broker-2"), ("h", "broker-3")))
    ],
}  # fmt: skip
Asked = Callable[..., dict[str, Any]]
GROUP, TOPIC, CLIENT, HOST, MEMBER = "web-shop", "orders", "shop-7", "/10.9.8.7", "shop-7-4f1c"
MINUTE_MS = 60_000
MAYBE = ["expired", "group_deleted"]
"""Where the retention is not known, the log does not rule out an expiry."""


def at(minutes: float, *entries: Any) -> BatchSpec:
    return BatchSpec(entries=entries, timestamp_ms=AT_MS + int(minutes * MINUTE_MS))


def committed(offset: int, minutes: float, partition: int = 0, *, group: str = GROUP, topic: str = TOPIC) -> Any:
    stamp = AT_MS + int(minutes * MINUTE_MS)
    return commit(group, offset, topic, partition, commit_timestamp_ms=stamp, metadata="from shop-7")


def state(minutes: float, *members: Any, group: str = GROUP) -> Any:
    return group_entry(2, group, classic_fields(*members, state_timestamp_ms=AT_MS + int(minutes * MINUTE_MS)))


def log(*, group: str = GROUP, topic: str = TOPIC) -> bytes:
    """A group that commits, is empty, is reset by a tool, and is deleted three minutes later."""
    own = partial(committed, group=group, topic=topic)
    return encode_log(
        [
            at(-9, state(-9, (MEMBER, subscription(topic)), group=group)),
            at(-8, own(100, -8), own(200, -8, 1)),
            at(-7, state(-7, group=group)),
            at(-3, own(3, -3), own(200, -3, 1)),
            at(0, tombstone(group, topic), tombstone(group, topic, 1), group_entry(2, group, None)),
            at(1, committed(1, 1, group="other")),
        ]
    )


@pytest.fixture
def disk(tmp_path: Path) -> tuple[object, ...]:
    return "--segments", write_log(tmp_path / "disk", {0: log()}), "--partition-count", 1


@pytest.fixture
def logs(tmp_path: Path) -> tuple[object, ...]:
    """Of the reset a completed request, of the deletion an allowed one."""
    path = tmp_path / "kafka-request.log"
    path.write_text(f"{offset_commit(late_ms=-3 * MINUTE_MS)}\n{audit('DeleteGroups', who='User:bob')}\n", "utf-8")
    return "--authorizer-log", path


@pytest.fixture
def told(asked: Asked, tmp_path: Path) -> Asked:
    """The JSON of an incident; that of the file is the same, and the page names its hash."""

    def command(*argv: object) -> dict[str, Any]:
        out = tmp_path / "out" / "incident.html"
        found = asked("incident", GROUP, *argv, "--out", out)
        text = out.with_suffix(".json").read_text("utf-8")
        assert json.loads(text) == found
        page = harmless(out.read_text("utf-8"), TAGS)
        assert sha256(text.encode()).hexdigest() in page.text
        return found

    return command


def page(tmp_path: Path) -> str:
    return (tmp_path / "out" / "incident.html").read_text("utf-8")


def test_a_disk_with_logs(told: Asked, tmp_path: Path, disk: Any, logs: Any) -> None:
    found = told(*disk, *logs, "--retention-minutes", 10_080)
    assert [(cause["kinds"], cause["offsets"]) for cause in found["causes"]] == [(["group_deleted"], 2), (["reset"], 1)]
    who = [(one["what"], one["certainty"], [each["principal"] for each in one["callers"]]) for one in found["who"]]
    assert who == [("reset", "certain", ["User:ann"]), ("group_deleted", "likely", ["User:bob"])]
    proof = {(one["log_offset"], one["shows"]): one["record"] for one in found["evidence"]}
    assert proof[4, "orders-0: reset"]["value"]["committed_offset"] == 3
    assert proof[4, "orders-0: value before"]["value"]["committed_offset"] == 3
    assert proof[6, "orders-0: group_deleted"]["value"] is None
    restored = found["steps"][0]["commands"][-1]
    assert "orders,0,3\norders,1,200\n" in restored
    assert f"--group {GROUP} --reset-offsets" in restored
    assert "kafka-configs.sh" in found["steps"][-1]["commands"][0], "the deletion is not certain"
    assert set(found["not_in_input"]) == {"config", "replicas", "lag"}
    hashes = {Path(one["path"]).name: one["sha256"] for one in found["made_from"]}
    segment = tmp_path / "disk" / "__consumer_offsets-0" / f"{0:020d}.log"
    assert hashes == {
        segment.name: sha256(segment.read_bytes()).hexdigest(),
        logs[1].name: sha256(logs[1].read_bytes()).hexdigest(),
    }
    text = Html(page(tmp_path)).text
    for words in ("somebody deleted the group", "User:bob", "certain", "likely", "Not in the input", "log partition 0"):
        assert words in text, words


def test_without_logs_it_is_not_logged(told: Asked, disk: Any, tmp_path: Path) -> None:
    found = told(*disk)
    assert {(one["certainty"], len(one["callers"])) for one in found["who"]} == {("not_logged", 0)}
    assert "nobody" not in page(tmp_path)
    assert "not logged" in Html(page(tmp_path)).text


def test_an_archive_has_settings_and_lag(told: Asked, tmp_path: Path) -> None:
    held = encode_log([at(-8, committed(10, -8, topic="t"), committed(50, -8, 1, topic="t"))])
    archive = write_archive(tmp_path / "archive", {0: held}, partition_count=1, version="4.3")
    found = told("--archive", archive)
    assert [(row["partition"], row["lag"], row["log_end_offset"]) for row in found["lag"]] == [(0, 90, 100), (1, 0, 50)]
    assert ("broker version", "4.3") in [(one["name"], one["value"]) for one in found["config"]]
    assert set(found["not_in_input"]) == {"replicas"}
    assert {one["what"] for one in found["made_from"]} == {"segment", "cluster metadata"}
    assert found["causes"] == found["who"] == []


def test_a_run_names_its_log(told: Asked, disk: Any, tmp_path: Path, out_of: Callable[..., str]) -> None:
    out_of("audit", *disk, "--out", tmp_path / "run", "--profile", "group_coordinator")
    found = told("--run", tmp_path / "run")
    assert [cause["kinds"] for cause in found["causes"]] == [MAYBE, ["reset"]]
    assert "run.json" in {Path(one["path"]).name for one in found["made_from"]}


def test_published_tables_have_audits(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: Any) -> None:
    """What newer audits say of other groups is not in it."""
    made = lake_at(tmp_path)
    append(made, PUBLISHED)
    monkeypatch.setattr(lake_catalog, "open_lake", lambda: made.lake)
    out = tmp_path / "incident.html"
    found = asked("incident", "g", "--out", out)
    assert [cause["kinds"] for cause in found["causes"]] == [["expired", "deleted"]]
    assert [(row["topic"], row["lag"]) for row in found["lag"]] == [("t", 90)]
    assert [(row["kind"], row["wrong_replicas"]) for row in found["replicas"]] == [("lost", ["broker-2"])]
    assert [(one["log_offset"], one["record"]) for one in found["evidence"]] == [(7, None)]
    assert [(one["what"], one["path"]) for one in found["made_from"]] == [("published run", "r2")]
    assert found["not_in_input"] == {}
    assert any(step["text"].endswith("stop broker-2") for step in found["steps"])
    assert "broker-2" in harmless(out.read_text("utf-8"), TAGS).text


def test_admin_snapshots_know_no_instant(asked: Asked, tmp_path: Path, logs: Any) -> None:
    archive = Archive(tmp_path / "archive")
    for ago, partitions in ((15, [0, 1]), (14, [0])):
        offsets = {(GROUP, TOPIC, number): 5 + number for number in partitions}
        write_snapshot(archive, AT_MS - ago * MINUTE_MS, {GROUP: {}}, offsets)
    found = asked("incident", GROUP, "--archive", archive.root, *logs, "--out", tmp_path / "incident.html")
    assert {(one["what"], one["certainty"]) for one in found["who"]} == {
        ("expired or deleted or topic_deleted", "not_logged")
    }
    assert "does not show the instant" in found["who"][0]["reason"]
    assert {"evidence", "lag", "replicas", "config"} <= set(found["not_in_input"])


@pytest.mark.parametrize("group", ["web-shop", "orders", "a", "it's {mine}"])
def test_a_masked_document_has_no_name(asked: Asked, tmp_path: Path, group: str) -> None:
    """Everywhere, also in sentences, in records and in commands; the same name is the same pseudonym."""
    (tmp_path / "secret").mkdir()
    disk = "--segments", write_log(tmp_path / "secret", {0: log(group=group)}), "--partition-count", 1
    path = tmp_path / "broker-7.log"
    path.write_text(f"{audit('DeleteGroups', group=group)}\n", "utf-8")
    out = tmp_path / "masked.html"
    found = asked("incident", group, *disk, "--authorizer-log", path, "--mask", "--out", out)
    texts = out.read_text("utf-8") + out.with_suffix(".json").read_text("utf-8")
    for name in (TOPIC, CLIENT, HOST.strip("/"), MEMBER, "User:ann", "10.0.0.7", "secret", "broker-7", "web-shop"):
        assert name not in texts, name
    if group != "a":
        assert group not in texts
        assert group.encode().hex() not in texts
    assert re.fullmatch("group-[0-9a-f]{10}", found["group_id"])
    assert f"--group {found['group_id']}" in found["steps"][0]["commands"][-1]
    topics = {row["topic"] for event in found["events"] for row in event["offsets"]}
    assert len(topics) == 1
    keys = [one["record"]["key"] for one in found["evidence"]]
    assert topics == {key["topic"] for key in keys if "topic" in key}
    assert [cause["kinds"] for cause in found["causes"]] == [MAYBE, ["reset"]], "codes stay"
    again = asked("incident", group, *disk, "--mask", "--out", out)
    assert again["group_id"] != found["group_id"], "each document has a salt of its own"


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name[:24]))
def test_a_hostile_name_stays_text(run: Run, tmp_path: Path, name: str) -> None:
    disk = "--segments", write_log(tmp_path / "disk", {0: log(group=name, topic=name[:200])}), "--partition-count", 1
    code, _, err = run("incident", name, *disk, "--out", tmp_path / "incident.html")
    assert code == 0, err
    harmless((tmp_path / "incident.html").read_text("utf-8"), TAGS)


def test_explain_names_who(asked: Asked, printed: Callable[..., str], disk: Any, logs: Any) -> None:
    found = asked("explain", GROUP, *disk, *logs)
    assert [one["certainty"] for one in found["who"]] == ["certain", "likely"]
    text = printed("explain", GROUP, *disk, *logs, "--profile", "group_coordinator")
    assert re.search(r"User:ann +10\.0\.0\.7 +adminclient-1 +OffsetCommit", text)
    assert "group_deleted at 2026-11-21 08:46:13.506 UTC: likely" in text
    assert "who" not in asked("explain", GROUP, *disk)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--out", "page"], "not a page"),
        (["--out", "a.html", "--log-time-zone", "Mars", "--authorizer-log", "x"], "time zone"),
        (["--out", "a.html", "--authorizer-log", "none"], "cannot be read"),
        (["--out", "a.html", "--run", "r", "--segments", "s"], "give one of"),
    ],
)
def test_usage(misused: Callable[..., str], argv: list[str], said: str) -> None:
    assert said in misused("incident", GROUP, *argv)
