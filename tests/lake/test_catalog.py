"""One set of properties serves Spark and pyiceberg."""

from pathlib import Path

import pytest

from sexton.errors import NoCoverage, SetupError, SextonError, UsageError
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake, open_lake, reader_properties
from sexton.settings import Settings
from sexton_dev.ports import free_port
from tests.lake_session import lake_at


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (
            {
                "type": "jdbc", "uri": "jdbc:sqlite:/data/catalog.db", "warehouse": "/data/w",
                "jdbc.schema-version": "V1",
            },
            {"type": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "/data/w"},
        ),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://db/lake", "jdbc.user": "u", "jdbc.password": "p@ss"},
            {"type": "sql", "uri": "postgresql+psycopg2://u:p%40ss@/lake?host=db"},
        ),
        (
            {
                "type": "jdbc",
                "uri": "jdbc:postgresql://u:p%40ss@one:5433,two/lake?ssl=true&currentSchema=s&prepareThreshold=0",
                "jdbc.ApplicationName": "sexton",
            },
            {
                "type": "sql",
                "uri": "postgresql+psycopg2://u:p%40ss@/lake?application_name=sexton&host=one%3A5433&host=two"
                "&options=-csearch_path%3Ds&sslmode=verify-full",
            },
        ),
        (
            {"type": "rest", "uri": "https://catalog", "warehouse": "w", "s3.endpoint": "http://s3"},
            {"type": "rest", "uri": "https://catalog", "warehouse": "w", "s3.endpoint": "http://s3"},
        ),
    ],
    ids=["sqlite", "postgres", "postgres, all in the uri", "rest"],
)  # fmt: skip
def test_a_catalog_in_pyicebergs_words(properties: dict[str, str], told: dict[str, str]) -> None:
    assert {k: v for k, v in reader_properties(properties).items() if k != "init_catalog_tables"} == told


def test_a_uri_that_is_no_jdbc_uri() -> None:
    with pytest.raises(UsageError, match="jdbc:"):
        reader_properties({"type": "jdbc", "uri": "postgresql://db/lake"})


def test_spark_gets_the_properties_and_the_jars(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    conf = lake.spark_conf([Path("/a.jar"), Path("/b.jar")])
    assert conf["spark.jars"] == "/a.jar,/b.jar"
    assert conf[f"spark.sql.catalog.{lake.name}.uri"] == f"jdbc:sqlite:{tmp_path / 'catalog.db'}"
    assert conf[f"spark.sql.catalog.{lake.name}.jdbc.schema-version"] == "V1"
    assert "IcebergSparkSessionExtensions" in conf["spark.sql.extensions"]


def test_opening_makes_the_folder_of_the_catalog(tmp_path: Path) -> None:
    open_lake({"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path / 'a' / 'catalog.db'}", "warehouse": "w"})
    assert (tmp_path / "a").is_dir()


def test_any_other_catalog_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {"type": "rest", "uri": "https://catalog"}
    monkeypatch.setattr("sexton.lake.catalog.settings", lambda: Settings(catalog_properties=rest))
    assert dict(open_lake().properties) == rest
    assert reader_properties(open_lake().properties) == rest


def test_a_lake_that_was_never_written(tmp_path: Path) -> None:
    with pytest.raises(NoCoverage):
        lake_at(tmp_path).reader()
    assert not (tmp_path / "catalog.db").exists()


@pytest.mark.parametrize(
    "uri", ["jdbc:postgresql://u:canary@db/x?a=1", "jdbc:postgresql://db/x?user=u&a=1&password=canary"]
)
def test_a_login_is_taken_out_of_the_uri(uri: str) -> None:
    """Iceberg's own errors show it."""
    found = open_lake({"type": "jdbc", "uri": uri}).properties
    assert found["uri"] == "jdbc:postgresql://db/x?a=1"
    assert (found["jdbc.user"], found["jdbc.password"]) == ("u", "canary")


def test_properties_go_before_the_uri() -> None:
    found = open_lake({"type": "jdbc", "uri": "jdbc:postgresql://u:old@db/x", "jdbc.password": "new"}).properties
    assert (found["jdbc.user"], found["jdbc.password"]) == ("u", "new")


def test_a_driver_that_is_not_installed_is_named(tmp_path: Path) -> None:
    lake = open_lake({"type": "jdbc", "uri": "jdbc:oracle://db/x", "warehouse": str(tmp_path)})
    with pytest.raises(SetupError, match=r"pip install 'sexton\[postgres\]'"):
        lake.reader()


def test_a_rest_catalog_that_does_not_answer() -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    lake = open_lake({"type": "rest", "uri": uri, "credential": "sexton:canary"})
    with pytest.raises(SextonError, match="the catalog does not answer") as error:
        lake.reader()
    assert "canary" not in str(error.value)


def test_no_password_is_shown() -> None:
    lake = Lake(properties={"type": "jdbc", "uri": "jdbc:postgresql://u:canary@db/x", "jdbc.password": "canary"})
    assert "canary" not in repr(lake)
    assert "canary" not in lake.where


def test_branches_have_names_that_spark_takes() -> None:
    def branch(run_id: str, cluster_id: str = "c", as_of_ms: int = 1) -> str:
        return RunKey(cluster_id=cluster_id, as_of_ms=as_of_ms, run_id=run_id).branch

    odd = ["scheduled__2026-11-21T04:00:00+00:00.1", "scheduled__2026-11-21T04:00:00_00:00.1", "`; --", "", "x" * 300]
    names = [branch(run_id) for run_id in odd]
    names += [branch(odd[0], cluster_id="other"), branch(odd[0], as_of_ms=2)]
    assert len(set(names)) == len(odd) + 2
    assert all(name.replace("_", "").isalnum() and len(name) < 100 for name in names)
