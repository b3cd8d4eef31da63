from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where recordings are unpacked."""
    return tmp_path_factory.mktemp("replicas")
