"""A test has the markers of what its fixtures need, starts nothing else, and draws the same cases in every run."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from tests.needs import PREFIX, PROGRAMS, needed_by, needs_of, unsaid
from tests.seeds import FIXED_SEED

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "broker": ["/jdk/bin/java", "-cp", "a:b", "kafka.Kafka", "server.properties"],
    "spark": ["/venv/pyspark/./bin/spark-submit", "--conf", "x=y", "pyspark-shell"],
    "airflow": ["/venv/bin/airflow", "scheduler", "--skip-serve-logs"],
    "browser": ["node", "walks.mjs", "config.json"],
    "postgres": [Path("/pg/bin/initdb"), "--no-sync"],
}
OTHERS = ["make", ["git", "ls-files"], [sys.executable, "-c", "pass"], ["spark-submit", "job.py"]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_command_starts(name: str) -> None:
    assert needed_by(COMMANDS[name]) == name


@pytest.mark.parametrize("command", OTHERS)
def test_other_commands_need_nothing(command: str | list[str]) -> None:
    assert needed_by(command) is None


def test_the_fixtures_of_a_test_say_what_it_needs() -> None:
    item = SimpleNamespace(fixturenames=["tmp_path", f"{PREFIX}broker", "engine", f"{PREFIX}spark"])
    assert needs_of(item) == ["broker", "spark"]  # type: ignore[arg-type]
    assert needs_of(SimpleNamespace()) == []  # type: ignore[arg-type]  # a doctest, say


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_started_where_it_is_needed(name: str) -> None:
    assert f"uses no fixture needs_{name}" in str(unsaid(COMMANDS[name], []))
    assert unsaid(COMMANDS[name], [name]) is None
    assert unsaid("make", []) is None


def test_a_test_that_starts_what_it_did_not_say_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"starts .* and uses no fixture needs_airflow"):
        subprocess.run([ROOT / "bin" / "airflow"], check=False)


def test_a_test_that_asks_for_spark_said_so_also_where_it_is_started() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"starts pyspark-shell and uses no fixture needs_spark"):
        SparkSession.builder.getOrCreate()


@pytest.mark.usefixtures("needs_airflow")
def test_a_test_that_said_so_may() -> None:
    with pytest.raises(FileNotFoundError):
        subprocess.run([ROOT / "bin" / "airflow"], check=False)


def test_cases_are_the_same_in_every_run(full: bool, drawn: int, request: pytest.FixtureRequest) -> None:
    if not full and request.config.getoption("--seed") is None:
        assert drawn == FIXED_SEED
    assert settings.default.derandomize is not full  # type: ignore[union-attr]


def test_a_test_with_a_seed_is_marked(seed: int, request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("seeded")


def test_make_knows_every_marker() -> None:
    """What `make check` leaves out is everything that there is to need, and generated cases."""
    told = subprocess.run(["make", "-C", ROOT, "-n", "check"], capture_output=True, text=True, check=True).stdout
    left_out = told.partition('-m "not (')[2].partition(")")[0].split(" or ")
    assert set(left_out) == {*PROGRAMS, "hypothesis", "seeded", "thorough", "full"}
