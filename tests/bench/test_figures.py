"""What follows from measurements, and how it is shown."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tests.bench.chart import chart
from tests.bench.figures import (
    MILLION,
    Figures,
    Increment,
    Machine,
    as_json,
    figures_table,
    from_json,
    increment_of,
    targets,
    targets_table,
)
from tests.bench.readme import BEGIN, END, section, update

PLAIN = Figures(
    name="plain",
    commits=30 * MILLION,
    records=30 * MILLION,
    size_bytes=2_700 * MILLION,
    broker_started_s=30.0,
    broker_warm_s=20.0,
    kernel_s=2.0,
    kernel_bytes=300 << 20,
    audit_s=15.0,
    audit_bytes=2000 << 20,
    task_bytes=400 << 20,
)
LARGE = replace(
    PLAIN, commits=100 * MILLION, records=100 * MILLION, broker_started_s=90.0, audit_s=40.0, task_bytes=500 << 20
)
HOT = replace(PLAIN, name="hot", audit_s=24.0)
TRANSACTIONAL = replace(PLAIN, name="transactional", records=33 * MILLION, kernel_s=1.0)
LOGS = [PLAIN, HOT, TRANSACTIONAL, LARGE]
MACHINE = Machine(cores=2, processor="a processor", python="3.11")


def test_targets() -> None:
    found = {target.text: (target.value, target.is_reached) for target in targets(LOGS, dump_rate=25_000.0)}
    assert found == {
        "kernel per core / broker, plain 30 M": (15.0, True),
        "kernel per core / warm broker, plain 30 M": (10.0, True),
        "audit (wall) / broker, plain 30 M": (2.0, True),
        "audit / kafka-dump-log, plain 30 M": (80.0, False),
        "audit (wall) / broker, hot 30 M": (1.25, False),
        "audit / kafka-dump-log, hot 30 M": (50.0, False),
        "audit of hot 30 M / of the balanced log": (1.6, False),
        "kernel per core / broker, transactional 30 M": (30.0, True),
        "kernel per core / warm broker, transactional 30 M": (20.0, True),
        "audit (wall) / broker, transactional 30 M": (2.0, True),
        "audit / kafka-dump-log, transactional 30 M": (88.0, False),
        "kernel per core / broker, plain 100 M": (45.0, True),
        "kernel per core / warm broker, plain 100 M": (10.0, True),
        "audit (wall) / broker, plain 100 M": (2.25, False),
        "audit / kafka-dump-log, plain 100 M": (100.0, True),
        "memory of a task, plain: 100 / 30 million records": (1.25, False),
    }


@pytest.mark.parametrize("dump_rate", [None, 25_000.0])
def test_the_chart_shows_the_largest_log_of_each_set(dump_rate: float | None) -> None:
    root = ElementTree.fromstring(chart(LOGS, dump_rate))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text and text.endswith("0 M")] == [
        "plain 100 M",
        "hot 30 M",
        "transactional 30 M",
    ]
    assert texts.count("25 k/s") == (1 if dump_rate else 0)
    assert {"50.0 M/s", "15.0 M/s", "33.0 M/s"} <= set(texts)
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if float(bar.get("width", 0)) > 11]
    assert len(bars) == 3 * 3 + (1 if dump_rate else 0)
    height = float(root.get("height", 0))
    assert all(float(bar.get("y", 0)) + float(bar.get("height", 0)) < height for bar in bars)


def test_tables_and_json() -> None:
    console = Console(width=170)
    with console.capture() as shown:
        console.print(figures_table(LOGS))
        console.print(targets_table(targets(LOGS, 25_000.0)))
    assert "15.0 / 10.0" in shown.get()
    assert shown.get().count("missed") == 7
    told = json.loads(json.dumps(as_json(LOGS, 25_000.0, MACHINE)))
    assert [log["kernel_per_started"] for log in told["logs"]] == [15.0, 15.0, 30.0, 45.0]
    assert from_json(told) == (LOGS, 25_000.0, MACHINE)


def test_the_readme_gets_the_figures_and_keeps_the_rest(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nan earlier figure\n{END}\nafter\n")
    for _ in range(2):
        update(readme, section(LOGS, 25_000.0, MACHINE))
    text = readme.read_text()
    assert "| plain 30 M | 2,700 | 30.0 / 20.0 | 2.00 | 15 / 10 | 15.0 | 2.0 / 1.3 | 400 |" in text
    assert text.startswith(f"before\n{BEGIN}\nSeconds on 2 cores (a processor)")
    assert text.endswith(f"{END}\nafter\n")
    assert "an earlier figure" not in text
    other = tmp_path / "other.md"
    other.write_text("no marks")
    with pytest.raises(ValueError, match="no place for figures"):
        update(other, "x")


@pytest.mark.parametrize("increment_s, is_reached", [(0.3, True), (0.31, False)])
def test_an_increment_costs_at_most_a_tenth(increment_s: float, is_reached: bool) -> None:
    one = Increment(records=30 * MILLION, delta_records=300_000, full_s=3.0, increment_s=increment_s)
    (target,) = targets([], None, one)
    assert target.text == "replay of a delta of 1.0 % of 30 M / of all of it"
    assert target.is_reached == is_reached
    assert increment_of(json.loads(json.dumps(as_json([], None, MACHINE, one)))) == one
    assert increment_of(as_json([], None, MACHINE)) is None
    assert "a delta of 1.0 % of 30 M on top of a checkpoint" in section([PLAIN], None, MACHINE, one)
