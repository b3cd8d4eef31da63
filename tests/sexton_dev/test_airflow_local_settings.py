"""The embedded Airflow's database waits for its turn where SQLite would fail at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from sexton_dev.airflow_home import LOCAL_SETTINGS

TRANSACTION = """
import runpy, sqlite3, sys
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

file, *settings = sys.argv[1:]
for path in settings:
    runpy.run_path(path)
with sqlite3.connect(file) as made:
    made.execute("PRAGMA journal_mode=WAL")
    made.execute("CREATE TABLE runs (id INTEGER)")
other = sqlite3.connect(file, timeout=0.1)
with Session(create_engine(f"sqlite:///{file}?timeout=60")) as session:
    try:
        with session.begin_nested():
            session.scalar(text("SELECT count(*) FROM runs"))
            try:
                with other:
                    other.execute("INSERT INTO runs VALUES (1)")
            except sqlite3.OperationalError:
                print("the other waits;", end=" ")
            session.execute(text("INSERT INTO runs VALUES (2)"))
        session.commit()
        print("written")
    except OperationalError as error:
        print(error.orig)
"""


@pytest.mark.parametrize(
    ("settings", "told"), [((), "database is locked"), ((str(LOCAL_SETTINGS),), "the other waits; written")]
)
def test_a_transaction_that_reads_first_and_then_writes(tmp_path: Path, settings: tuple[str, ...], told: str) -> None:
    command = [sys.executable, "-c", TRANSACTION, str(tmp_path / "airflow.db"), *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == told


WAITS = """
import runpy, sys
from sqlalchemy import create_engine, text

settings, file, *command = sys.argv[1:]
sys.argv = ["airflow", *command]
runpy.run_path(settings)
with create_engine(f"sqlite:///{file}?timeout=60").connect() as connection:
    print(connection.scalar(text("PRAGMA busy_timeout")))
"""


@pytest.mark.parametrize(("command", "waits_ms"), [(("api-server",), 3_000), (("scheduler",), 60_000)])
def test_the_api_server_waits_for_a_shorter_time(tmp_path: Path, command: tuple[str, ...], waits_ms: int) -> None:
    asked = [sys.executable, "-c", WAITS, str(LOCAL_SETTINGS), str(tmp_path / "airflow.db"), *command]
    assert int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout) == waits_ms
