"""Partial runs: what they measure, where they write, and how they are merged with earlier figures."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import __main__ as bench
from tests.bench.figures import Measured, keep_figures, read_figures, this_machine
from tests.bench.tasks import Task
from tests.bench.test_figures import ALL, HOT, LARGE, PLAIN, TRANSACTIONAL

Run = Callable[..., list[str]]
HERE = replace(ALL, machine=this_machine())
AGAIN = replace(PLAIN, audit_s=10.0)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the bench with some options, which measures AGAIN and an audit of one record; labels of what it should."""

    def run_bench(*options: str) -> list[str]:
        asked: list[str] = []

        def measure_all(
            tasks: Sequence[Task], _options: argparse.Namespace, *, is_partial: bool, console: Console
        ) -> Measured:
            asked.extend(f"{task.label} {'+'.join(sorted(task.parts))}" for task in tasks)
            assert is_partial
            assert console
            return Measured(machine=this_machine(), logs=[AGAIN], one_record_s=2.0)

        monkeypatch.setattr(bench, "_measure_all", measure_all)
        monkeypatch.setattr("sys.argv", ["bench", *options])
        bench.main()
        return asked

    return run_bench


@pytest.mark.parametrize(
    "options, asked",
    [
        (["--sets", "hot-keys,most-keys"], ["hot-keys 3 M figures", "most-keys 30 M figures"]),
        (["--sets", "many-keys", "--records", "3000000"], ["many-keys 3 M figures"]),
        (["--one-record"], []),
        (["--increment"], ["plain 30 M increment"]),
        (["--planning", "--records", "300000"], ["many-keys 300 k planning"]),
        (["--cluster", "--records", "1000000"], ["plain 1 M cluster"]),
        (["--replicas"], ["plain 30 M replicas"]),
        (["--sets", "zstd", "--one-record"], ["zstd 3 M figures"]),
        (
            ["--readme"],
            [
                f"{name} 30 M {parts}"
                for name, parts in (
                    ("plain", "figures+increment"),
                    ("lz4", "figures"),
                    ("transactional", "figures"),
                    ("many-keys", "figures+planning"),
                    ("most-keys", "figures"),
                )
            ],
        ),
    ],
    ids=" ".join,
)
def test_what_is_asked_for_is_measured(run: Run, tmp_path: Path, options: list[str], asked: list[str]) -> None:
    assert run(*options, "--out", str(tmp_path)) == asked
    assert read_figures(tmp_path).logs == [AGAIN]


def test_a_part_replaces_its_rows_and_keeps_the_others(run: Run, tmp_path: Path) -> None:
    keep_figures(HERE, tmp_path)
    run("--sets", "plain", "--merge", "--out", str(tmp_path))
    assert read_figures(tmp_path) == replace(HERE, logs=[AGAIN, HOT, TRANSACTIONAL, LARGE], one_record_s=2.0)


def test_the_first_part_of_a_run_begins_the_figures(run: Run, tmp_path: Path) -> None:
    run("--sets", "plain", "--merge", "--out", str(tmp_path))
    assert read_figures(tmp_path) == Measured(machine=this_machine(), logs=[AGAIN], one_record_s=2.0)


def test_figures_of_another_machine_are_not_mixed_with_these(run: Run, tmp_path: Path) -> None:
    other = replace(HERE, machine=replace(HERE.machine, processor="another"))
    keep_figures(other, tmp_path)
    with pytest.raises(SystemExit, match="of another machine"):
        run("--sets", "plain", "--merge", "--out", str(tmp_path))
    assert read_figures(tmp_path) == other


@pytest.mark.parametrize("options", ["--sets plain --records 1000000", "--planning --records 300000"])
def test_no_log_of_another_size_gets_into_the_documentation(run, tmp_path, monkeypatch, options):
    keep_figures(HERE, tmp_path)
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    with pytest.raises(SystemExit, match=r"a full run has no (plain 1 M|many-keys 300 k)"):
        run(*options.split(), "--merge")


def test_an_unknown_set_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no such set: plian"):
        run("--sets", "plain,plian", "--out", str(tmp_path))
