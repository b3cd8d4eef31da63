"""What every part of the suite shares: its plugins, its order, the compiled kernels.

Several tests run at a time, a file each; lanes.py says which worker takes which file.
"""

import gc
import os
from typing import Any

import pytest

from sexton_dev import java_home
from tests.lanes import Lanes, give_way, in_order

# Kernels are compiled where `make install` has compiled them, here and in every process that a test starts.
os.environ.setdefault("NUMBA_CACHE_DIR", str(java_home.ROOT / ".cache" / "numba"))
os.environ.update(java_home.variables(os.environ))

pytest_plugins = ["tests.answers", "tests.seeds", "tests.needs", "tests.durations", "tests.engines"]


def pytest_configure(config: pytest.Config) -> None:
    handed: dict[str, Any] = getattr(config, "workerinput", {})
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
            said = getattr(getattr(report.longrepr, "reprcrash", None), "message", report.longreprtext)
            reporter.write_line("")
            reporter.write_line(f"{report.nodeid}: {report.when} failed: {said[:500]}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


@pytest.hookimpl(trylast=True)  # when markers are known
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from tests import durations  # late: pytest rewrites the assertions of a plugin that nobody has imported yet

    items[:] = in_order(items, durations.by_file(durations.read()))
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
