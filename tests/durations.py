"""How long each test file takes: the most expensive are named after a run, all are kept in durations.tsv.

    pytest -n 3 -m "not full" --keep-durations

measures anew what it runs; the next runs start the longest files first. Setup and teardown are told apart: fixtures
cost what tests could share.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("durations.tsv")
COLUMNS = ("file", "tier", "setup", "call", "teardown")
PHASES = COLUMNS[2:]
NAMED = 10
KEPT_FROM_S = 1.0
"""What takes less has no row."""

Part = tuple[str, str]
"""A file below tests, and the first target that runs these tests of it."""
Seconds = dict[Part, dict[str, float]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("durations")
    group.addoption("--keep-durations", action="store_true", help=f"write {FILE.name} anew")
    group.addoption("--at-most", type=float, metavar="SECONDS", help=f"leave out files that took longer, {FILE.name}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(is_kept=config.getoption("--keep-durations")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (most := config.getoption("--at-most")) is not None:
        left_out = longer(read(), most)
        config.hook.pytest_deselected(items=[item for item in items if item.path in left_out])
        items[:] = [item for item in items if item.path not in left_out]


def longer(seconds: Seconds, most: float) -> set[Path]:
    """The files of `make test` that took longer; a new one has not."""
    taken = by_file({part: phases for part, phases in seconds.items() if part[1] == "test"})
    return {FILE.parent / name for name, took in taken.items() if took > most}


def read(file: Path = FILE) -> Seconds:
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()[1:]]
    return {(name, tier): dict(zip(PHASES, map(float, each), strict=True)) for name, tier, *each in rows}


def write(seconds: Seconds, file: Path = FILE) -> None:
    rows = [[*part, *(f"{phases[phase]:.1f}" for phase in PHASES)] for part, phases in sorted(seconds.items())]
    file.write_text("".join("\t".join(row) + "\n" for row in (COLUMNS, *rows)), encoding="utf-8")


def by_file(seconds: Seconds) -> dict[str, float]:
    found: dict[str, float] = {}
    for (name, _), phases in seconds.items():
        found[name] = found.get(name, 0.0) + sum(phases.values())
    return found


class Durations:
    """Adds up what the reports say, in the process that gathers them."""

    def __init__(self, *, is_kept: bool) -> None:
        self.seconds: Seconds = {}
        self._is_kept = is_kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when in PHASES:  # pytest-xdist's report of a worker that has died has none
            phases = self.seconds.setdefault(part_of(report.nodeid, report.keywords), dict.fromkeys(PHASES, 0.0))
            phases[report.when] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        longest = sorted(self.seconds.items(), key=lambda one: -sum(one[1].values()))[:NAMED]
        terminalreporter.section("the most expensive files: seconds of setup, call, teardown")
        for (name, _), phases in longest:
            told = "".join(f"{phases[phase]:8.1f}" for phase in PHASES)
            terminalreporter.write_line(f"{told}  {name}")
        if self._is_kept:
            long = {part: each for part, each in self.seconds.items() if sum(each.values()) >= KEPT_FROM_S}
            write({**{part: each for part, each in read().items() if part not in self.seconds}, **long})


def part_of(nodeid: str, keywords: Mapping[str, object]) -> Part:
    """Where a test's seconds are counted."""
    tier = "test-long" if "full" in keywords else "test-all" if "thorough" in keywords else "test"
    return nodeid.partition("::")[0].removeprefix("tests/"), tier
