"""Airflow's own database for a test: migrated once, in .cache/tests, and copied from then on.

What `airflow db migrate` makes depends on Airflow's release alone. It takes seconds, a copy takes none.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from sexton.lake.catalog import Lake, open_lake
from sexton.settings import PROJECT_ROOT, Settings
from sexton_dev.ports import free_port
from sexton_dev.system import System

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "tests"
MIGRATE_TIMEOUT_S = 300


def migrated_database(path: Path) -> None:
    """Create `path`, an SQLite file as `airflow db migrate` leaves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(template(), path)


def migrated_home(airflow_home: Path) -> None:
    """Create the database of an AIRFLOW_HOME that the embedded Airflow takes as migrated by its release."""
    migrated_database(airflow_home / "airflow.db")
    (airflow_home / "migrated").write_text(metadata.version("apache-airflow-core"), encoding="utf-8")


def project_home(home: Path) -> None:
    """A SEXTON_HOME with the DAGs and jobs of this project."""
    for name in ("dags", "spark_jobs", "plugins", ".cache"):
        (home / name).symlink_to(PROJECT_ROOT / name)


def system_in(home: Path, **options: Any) -> System:
    """A Kafka and an Airflow for `home`, on ports that are free; neither is started."""
    project_home(home)
    config = Settings(home=home, bootstrap_servers=f"127.0.0.1:{free_port()}", airflow_port=free_port())
    system = System(config, Console(quiet=True), **options)
    migrated_home(system.home.root)
    return system


def lake_of(config: Settings) -> Lake:
    """The lake of such a home."""
    return open_lake({"type": "jdbc", "uri": config.iceberg_catalog_uri, "warehouse": config.warehouse_uri})


def airflow_environment(home: Path, **more: str) -> dict[str, str]:
    """What a process of Airflow sees: a home and a database of its own, none of the caller's settings, and `more`."""
    others = ("AIRFLOW", "SEXTON", "OPENLINEAGE")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(others)},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        **more,
    }


def template() -> Path:
    """The migrated database, made if there is none of this release."""
    made = CACHE / f"airflow-{metadata.version('apache-airflow-core')}.db"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".airflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test files may come for it at once
        if not made.exists():
            with tempfile.TemporaryDirectory() as home:
                _migrate(Path(home))
                part = Path(shutil.copyfile(Path(home) / "airflow.db", made.with_suffix(".part")))
            part.replace(made)
    return made


def _migrate(home: Path) -> None:
    given = airflow_environment(home)
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=MIGRATE_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
