from pathlib import Path

import pytest

from tests.archived import Archive


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive")
