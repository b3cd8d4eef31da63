"""The terminal: what matters is told, and no name reaches it as it is."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from sexton.report.collect import summarize
from sexton.report.terminal import print_summary
from tests.report.run_folder import HOSTILE_NAMES, HOUR_MS, Row, due, group, kept, offsets_of, write_run_folder


def printed(root: Path, run: Row | None = None, **tables: list[Row]) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    print_summary(summarize(write_run_folder(root, tables, **(run or {}))), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name[:24]))
def test_a_hostile_name_stays_text(tmp_path: Path, name: str) -> None:
    text = printed(
        tmp_path,
        groups=[group(name, 1)],
        offset_verdicts=[due(name, 0)],
        dq_results=[{"table": name, "expectation": name, "severity": "critical"}],
        run={"cluster_id": name, "source": name, "warnings": [name], "retention_source": name},
    )
    assert all(char.isprintable() or char == "\n" for char in text)


def test_markup_is_not_obeyed(tmp_path: Path) -> None:
    text = printed(tmp_path, groups=[group("[red]x[/red]", 1)], offset_verdicts=[due("[red]x[/red]", 0)])
    assert "[red]x[/red]" in text


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


def test_an_empty_run(tmp_path: Path) -> None:
    assert "0 groups, 0 live offsets" in printed(tmp_path)
