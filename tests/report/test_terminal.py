"""The terminal: what matters is told, and no name reaches it as it is."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from sexton.report.terminal import print_summary
from sexton.summary.summarize import summarize
from tests.report.run_folder import (
    HOUR_MS,
    JUDGED,
    LAG,
    POLICY,
    REPLICAS,
    TRANSACTIONS,
    Row,
    due,
    group,
    kept,
    offsets_of,
    write_run_folder,
)


def printed(root: Path, run: Row | None = None, **tables: list[Row]) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    print_summary(summarize(write_run_folder(root, tables, **(run or {}))), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_markup_is_not_obeyed(tmp_path: Path) -> None:
    for name in ("[red]x[/red]", "[link=http://x]y[/link]", "[/bold]", ":bomb:"):
        run = {"source": name, "warnings": [name], "cluster_id": name}
        text = printed(tmp_path / str(ord(name[1])), run, groups=[group(name, 1)], offset_verdicts=[due(name, 0)])
        assert text.count(name) == 4


def test_what_matters(tmp_path: Path) -> None:
    verdicts = [due("a", 0), due("a", 1), kept("a", 2, "not_due", HOUR_MS), kept("b", 0, "subscribed")]
    text = printed(
        tmp_path,
        groups=[group("a", 3), group("b", 1, state="Stable")],
        offset_verdicts=verdicts,
        committed_offsets=offsets_of(verdicts),
        tombstones=[{"cause": "broker_retention", "record_type": 1}] * 2,
        undecodable_records=[{"log_partition": 0, "reason": "bad_crc"}],
    )
    for words in ("2 groups, 4 live offsets", "The plan: 2 tombstones", "not: subscribed", "bad_crc", "exit code 5"):
        assert words in text


def test_what_a_policy_makes_of_it(tmp_path: Path) -> None:
    text = printed(tmp_path / "with", run={"policy": POLICY.canonical}, offset_verdicts=JUDGED)
    assert "The policy: 2 to expire, 1 held" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["ci", "build", "2", "2", "1", "0"] in rows
    assert ["litigation", "legal", "1", "0", "0", "1"] in rows
    assert ["no", "rule", "0", "1", "0"] in rows
    assert "policy" not in printed(tmp_path / "without", offset_verdicts=[due("a", 0)])


def test_what_is_odd_is_told_where_there_is_any(tmp_path: Path) -> None:
    odd = [{"orphan": "partition_gone"}, {"left_topic": True}, {"behind_log_start": True}, {"pinned_by_producer_id": 7}]
    odd += [{"beyond_log_end": True}, {"beyond_log_end": False}]
    text = printed(
        tmp_path / "odd",
        offset_verdicts=[kept("g", number, "not_due", 1) | columns for number, columns in enumerate(odd)],
        open_transactions=[{"producer_id": 7, "group_ids": ["g"]}],
    )
    for words in (
        "! 1 orphan, partition_gone: the topic has no such partition",
        "! 1 offset of topics that the active group no longer subscribes to",
        "! 1 offset before the log's start",
        "! 1 offset beyond the log's end",
        "1 group and 1 committed offset cannot expire",
    ):
        assert words in text
    assert "!" not in printed(tmp_path / "plain", offset_verdicts=[kept("g", 0, "not_due", 1)])


@pytest.mark.parametrize(
    "audit, told",
    [
        ({"replicas": REPLICAS}, "replicas, 2023-11-14 21:13:20 UTC"),
        ({"transactions": TRANSACTIONS}, "transactions, 2023-11-14 21:13:20 UTC: 5 open transactions, 2 hang and hold"),
        (
            {"lag": LAG},
            "lag, 2023-11-14 21:13:20 UTC: 1,200 offsets, the largest lag is at least 1 d 1 h; 3 offsets of 2",
        ),
    ],
    ids=["replicas", "transactions", "lag"],
)
def test_the_newest_audits(tmp_path: Path, audit: Row, told: str) -> None:
    assert f"! Audit of {told}" in printed(tmp_path, run=audit)


def test_an_empty_run(tmp_path: Path) -> None:
    assert "0 groups, 0 live offsets" in printed(tmp_path)


def test_where_no_log_was_read(tmp_path: Path) -> None:
    text = printed(tmp_path, {"coverage": "admin", "origins": ("admin_snapshots",), "partition_count": None})
    assert "segments: coverage admin" in text
    assert "log partitions" not in text
