"""What follows from measurements, and how it is shown."""

from dataclasses import replace
from pathlib import Path

import pytest

from sexton.settings import PROJECT_ROOT
from tests.bench.figures import (
    DOCS,
    MILLION,
    Clustered,
    Figures,
    Increment,
    Machine,
    Measured,
    Planning,
    Replicas,
    keep_figures,
    read_figures,
)
from tests.bench.readme import BEGIN, END, section, short_section, update

PLAIN = Figures(
    name="plain", commits=30 * MILLION, records=30 * MILLION, size_bytes=2_700 * MILLION, broker_started_s=30.0,
    broker_warm_s=20.0, kernel_s=2.0, audit_s=15.0,
)  # fmt: skip
LARGE = replace(
    PLAIN, commits=100 * MILLION, records=100 * MILLION, broker_started_s=90.0, audit_s=40.0, audit_core_s=75.0,
    process_bytes=600 << 20, tree_bytes=1100 << 20,
)  # fmt: skip
HOT = replace(PLAIN, name="hot", audit_s=24.0)
TRANSACTIONAL = replace(PLAIN, name="transactional", records=33 * MILLION, kernel_s=1.0)
LOGS = [PLAIN, HOT, TRANSACTIONAL, LARGE]
MACHINE = Machine(cores=2, processor="a processor", python="3.11")
MEASURED = Measured(machine=MACHINE, logs=LOGS, dump_rate=25_000.0)
ALL = replace(
    MEASURED,
    increment=Increment(records=30 * MILLION, delta_records=300_000, full_s=3.0, increment_s=0.3),
    one_record_s=2.4,
    planning=Planning(tombstones=2 * MILLION, seconds=4.0),
    clustered=Clustered(records=100 * MILLION, audit_s=10.0, stages_s=14.0, jobs_s=60.0),
    replicas=Replicas(
        records=30 * MILLION, audit_s=10.0, compare_s=20.0, process_bytes=3, tree_bytes=5, smaller_process_bytes=2
    ),
)


@pytest.mark.parametrize("measured", [MEASURED, ALL])
def test_figures_are_kept(measured: Measured, tmp_path: Path) -> None:
    keep_figures(measured, tmp_path)
    assert read_figures(tmp_path) == measured


def test_newer_figures_replace_those_of_the_same_log() -> None:
    again, small = replace(HOT, audit_s=16.0), replace(PLAIN, commits=3 * MILLION)
    merged = ALL.with_newer(Measured(machine=MACHINE, logs=[again, small], one_record_s=2.0))
    assert merged.logs == [small, PLAIN, again, TRANSACTIONAL, LARGE]
    assert replace(merged, logs=LOGS, one_record_s=ALL.one_record_s) == ALL
    with pytest.raises(ValueError, match="measured on another machine"):
        ALL.with_newer(Measured(machine=replace(MACHINE, cores=4)))


def test_a_page_gets_the_figures_and_keeps_the_rest(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nan earlier figure\n{END}\nafter\n")
    for _ in range(2):
        update(readme, section(MEASURED))
    text = readme.read_text()
    assert "| plain 30 M | 2,700 | 30.0 / 20.0 | 2.00 | 15 / 10 | 15.0 / – | 2.0 / 1.3 | – / – |" in text
    assert "| plain 100 M | 2,700 | 90.0 / 20.0 | 2.00 | 45 / 10 | 40.0 / 75.0 | 2.2 / 0.5 | 600 / 1,100 |" in text
    assert text.startswith(f"before\n{BEGIN}\nSeconds on 2 cores (a processor).")
    assert text.endswith(f"{END}\nafter\n")
    assert "an earlier figure" not in text
    other = tmp_path / "other.md"
    other.write_text("no marks")
    with pytest.raises(ValueError, match="no place for figures"):
        update(other, "x")


def test_the_readme_has_few_rows_and_the_weakest_figure() -> None:
    lines = short_section(MEASURED).splitlines()
    assert [line for line in lines if line.startswith(("| plain", "| hot", "| trans"))] == [
        "| plain | 30.0 s | 2.0 s | 15.0 s |",
        "| transactional | 30.0 s | 1.0 s | 15.0 s |",
    ]
    slowest = "`sexton audit` is slowest for hot with 30 million records: it takes 24 s, the broker's load 30 s."
    assert lines[-2] == f"Compared with the broker, {slowest}"
    assert (lines[0], lines[-1]) == (BEGIN, END)


def test_the_page_says_what_was_measured_besides_logs() -> None:
    text = section(ALL)
    assert "the last 1.0 % of 30 M is replayed on top of a checkpoint in 0.30 s, 10.0 % of the 3.0 s" in text
    assert "An audit of one record takes 2.4 s." in text
    assert "In an audit, the plan of 2 M tombstones takes 4.0 s." in text
    assert "Three replicas of 30 M, each compacted in its own way, are compared in 20 s; an audit of one takes" in text
    assert "50% more than with a third" in text
    assert "For 100 M on a standalone cluster of 2 one-core workers, with the driver on the same two cores" in text
    nothing = section(Measured(machine=MACHINE, logs=LOGS))
    assert not any(word in nothing for word in ("archive", "one record", "tombstones", "cluster"))


def test_the_sections_are_current() -> None:
    measured = read_figures(DOCS)
    for page, text in (("README.md", short_section(measured)), ("docs/performance.md", section(measured))):
        assert text in (PROJECT_ROOT / page).read_text(encoding="utf-8"), "run: python -m tests.bench --render"
