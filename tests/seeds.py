"""Random cases: the same in every run, or new ones with `--full`, from a seed that is printed.

`--full` also runs what takes minutes by itself, and random cases in full counts. `--seed N` takes the seed of an
earlier run.
"""

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

FIXED_SEED = 13
SEED = pytest.StashKey[int]()
TOLD = "told"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("seeds")
    group.addoption("--full", action="store_true", help="also what takes minutes; new random cases, in full counts")
    group.addoption("--seed", type=int, help="the seed that an earlier run has printed")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its own option
def pytest_configure(config: pytest.Config) -> None:
    """One seed for all processes, and for Hypothesis."""
    handed: dict[str, Any] = getattr(config, "workerinput", {})
    is_full, asked = config.getoption("--full"), config.getoption("--seed")
    usual = secrets.randbits(32) if is_full else FIXED_SEED
    config.stash[SEED] = handed.get("seed", usual if asked is None else asked)
    # A machine that is busy with other tests is slow, and nothing is wrong.
    settings.register_profile("sexton", deadline=None, database=None, derandomize=not is_full)
    settings.load_profile("sexton")
    if is_full:
        config.option.hypothesis_seed = str(config.stash[SEED])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = node.config.stash[SEED]


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the full counts were asked for."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def drawn(request: pytest.FixtureRequest) -> int:
    """The seed of this run, for what is made once and holds cases of both seeds."""
    return request.config.stash[SEED]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"full", "seed", "drawn"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("seeded")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With full counts the seed that is always the same is taken, too."""
    own = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "seed" in metafunc.fixturenames and "seed" not in own:
        seeds = ["fixed", "drawn"] if metafunc.config.getoption("--full") else ["given"]
        metafunc.parametrize("seed", seeds, indirect=True)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run, or the one that is always the same."""
    return FIXED_SEED if request.param == "fixed" else request.config.stash[SEED]


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say in the summary what was run and measured, whether or not the test passes."""

    def add(line: str) -> None:
        request.node.user_properties.append((TOLD, line))

    return add


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the seed and what was counted, before the failures: the last lines are theirs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    reporter.write_line("")
    reporter.write_line(f"seed {session.config.stash[SEED]}")
    for reports in reporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for _, line in [one for one in report.user_properties if one[0] == TOLD]:
                    reporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {line}")
