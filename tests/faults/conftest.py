"""What tests of faults ask for: how much, from which seed, and where to say what was seen."""

import os
import tempfile
from collections.abc import Callable

import pytest

from tests.conftest import SEED, TOLD
from tests.faults.logs import FIXED_SEED

_HOME = tempfile.TemporaryDirectory(prefix="sexton-airflow-")
os.environ.setdefault("AIRFLOW_HOME", _HOME.name)  # Airflow reads its configuration when it is imported
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the full counts were asked for."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def drawn(request: pytest.FixtureRequest) -> int:
    """The seed that is new in every run, for what is made once and holds cases of both seeds."""
    return request.config.stash[SEED]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With full counts there is a seed that is always the same, too."""
    if "seed" in metafunc.fixturenames:
        seeds = ["fixed", "random"] if metafunc.config.getoption("--full") else ["random"]
        metafunc.parametrize("seed", seeds, indirect=True)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that is new in every run, or the one that is always the same."""
    return FIXED_SEED if request.param == "fixed" else request.config.stash[SEED]


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say in the summary what was run and measured, whether or not the test passes."""

    def add(line: str) -> None:
        request.node.user_properties.append((TOLD, line))

    return add
