"""What every part of the suite shares: its order, and the seed, counts and figures of the tests of faults.

Several tests run at a time, a file each; lanes.py says which worker takes which file.

Random cases of tests/faults come from a printed seed, drawn at the start; `--seed N` draws it again. Counts are small
unless `--full` is asked for, which takes a fixed seed as well.
"""

import gc
import os
import secrets
from typing import Any

import pytest
from hypothesis import settings

from tests import java_home
from tests.lanes import Lanes, give_way, place_of

# Kernels are compiled where `make install` has compiled them, here and in every process that a test starts.
os.environ.setdefault("NUMBA_CACHE_DIR", str(java_home.ROOT / ".cache" / "numba"))
os.environ.update(java_home.variables(os.environ))

# A machine that is busy with other tests is slow, and nothing is wrong.
settings.register_profile("unhurried", settings.default, deadline=None)
settings.load_profile("unhurried")

pytest_plugins = ["tests.engines"]
SEED = pytest.StashKey[int]()
TOLD = "told"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--full", action="store_true", help="also what takes minutes, and faults in full counts: hours")
    group.addoption("--seed", type=int, help="the random seed that an earlier run has printed")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed, once for all processes."""
    handed: dict[str, Any] = getattr(config, "workerinput", {})
    asked = config.getoption("--seed")
    config.stash[SEED] = handed.get("seed", secrets.randbits(32) if asked is None else asked)
    give_way(handed)
    if not handed:
        config.pluginmanager.register(NamesFailures(config))


class NamesFailures:
    """Names what fails as soon as it does: whoever ends a long run early wants to know."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            reporter.write_line("")
            reporter.write_line(f"{report.nodeid}: {report.when} failed: {getattr(crash, 'message', '')[:500]}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = node.config.stash[SEED]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place_of(item.path))
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip("takes minutes by itself: with --full"))
    else:
        for item in items:
            if "faults" in item.path.parts:
                item.add_marker(pytest.mark.timeout(0))


def pytest_collection_finish() -> None:
    """What is imported by now lives as long as the process: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell what the faults have counted, once, before the failures: the last lines are theirs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    reporter.write_line("")
    reporter.write_line(f"faults: random seed {session.config.stash[SEED]}")
    for reports in reporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for _, line in [one for one in report.user_properties if one[0] == TOLD]:
                    reporter.write_line(f"faults: {report.nodeid.rpartition('::')[2]}: {line}")
