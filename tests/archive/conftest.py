from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archived import Archive
from tests.faults.stores import s3_server


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


@pytest.fixture(scope="package")
def query() -> Iterator[str]:
    """What a URI needs to reach a server that speaks S3."""
    with s3_server() as query:
        yield query
