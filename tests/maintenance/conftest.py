"""A lake for each module, in the one Spark session of the tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.lake.catalog import Lake
from sexton.runs.engine import Engine
from tests.maintenance.lakes import TOPIC, Runs


@pytest.fixture
def runs_of(iceberg: Engine, lake: Lake, tmp_path: Path) -> Callable[[str], Runs]:
    """The runs of a cluster, with an archive in which it is the only one."""

    def of(cluster_id: str) -> Runs:
        (tmp_path / cluster_id / TOPIC).mkdir(parents=True)
        return Runs(iceberg.session, lake, tmp_path, cluster_id)

    return of
