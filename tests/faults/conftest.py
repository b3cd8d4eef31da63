"""Small counts by default, the full ones with `pytest tests/faults --full`; random cases come from a printed seed.

The seed is a fixed one and, for one more run of each random test, one drawn at the start; `--seed N` draws it again.
"""

import secrets

import pytest

from tests.faults.logs import FIXED_SEED

SEED = pytest.StashKey[int]()
TOLD = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--full", action="store_true", help="run the faults in full counts: hours, not seconds")
    group.addoption("--seed", type=int, help="the random seed that an earlier run has printed")


def _drawn_seed(config: pytest.Config) -> int:
    """This run's random seed. The options are only known when tests/faults was asked for by name."""
    if SEED not in config.stash:
        asked = config.getoption("--seed", default=None)
        config.stash[SEED] = secrets.randbits(32) if asked is None else asked
    return config.stash[SEED]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full", default=False):
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(f"faults: random seed {_drawn_seed(config)}")
    for line in config.stash.get(TOLD, []):
        terminalreporter.write_line(f"faults: {line}")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the full counts were asked for."""
    return bool(request.config.getoption("--full", default=False))


@pytest.fixture(params=["fixed", "random"])
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that is always the same, then one that is new in every run."""
    return FIXED_SEED if request.param == "fixed" else _drawn_seed(request.config)


@pytest.fixture
def tell(request: pytest.FixtureRequest):
    """Say in the summary what was run and measured, whether or not the test passes."""

    def add(line: str) -> None:
        request.config.stash.setdefault(TOLD, []).append(f"{request.node.name}: {line}")

    return add
