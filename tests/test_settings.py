"""Several clusters in the settings: what each has of its own, and what cannot be."""

import json

import pytest
from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.pretty import pretty_repr

from sexton.errors import UsageError
from sexton.settings import Settings, settings

MAIN, EU = {"cluster_id": "MkU3OEVBNTcwNTJENDM2Qg"}, {"cluster_id": "eu-1"}


@pytest.fixture
def read(monkeypatch):
    """The settings of a deployment with these clusters, read from its environment."""

    def configured(clusters: object, **plain: str) -> Settings:
        monkeypatch.setenv("SEXTON_CLUSTERS", clusters if isinstance(clusters, str) else json.dumps(clusters))
        for name, value in plain.items():
            monkeypatch.setenv(f"SEXTON_{name.upper()}", value)
        return Settings()

    yield configured
    settings.cache_clear()


def test_without_the_setting_there_is_one_and_it_is_plain() -> None:
    (cluster,) = Settings(schedule="5 * * * *", policy="p.yaml").every_cluster
    assert (cluster.name, cluster.cluster_id, cluster.is_first) == (None, None, True)
    assert (cluster.kafka_conn_id, cluster.applier_conn_id) == ("kafka_default", "kafka_applier")
    assert (cluster.schedule, cluster.policy, cluster.retention_minutes) == ("5 * * * *", "p.yaml", None)
    assert cluster.scoped_name("offset_retention") == "offset_retention"


def test_the_first_has_plain_names_and_the_others_their_own(read) -> None:
    first, second, third = read(
        {"main": MAIN, "eu": EU, "Us-2": {"cluster_id": "u", "kafka_conn_id": "k"}}
    ).every_cluster
    assert [cluster.scoped_name("maintenance") for cluster in (first, second, third)] == [
        "maintenance", "maintenance__eu", "maintenance__Us-2"
    ]  # fmt: skip
    assert [(c.kafka_conn_id, c.applier_conn_id) for c in (first, second, third)] == [
        ("kafka_default", "kafka_applier"), ("kafka_eu", "kafka_eu_applier"), ("k", "kafka_Us-2_applier")
    ]  # fmt: skip


def test_what_a_cluster_does_not_say_is_as_the_plain_settings_have_it(read) -> None:
    own = {**EU, "schedule": "", "retention_minutes": None, "deadline_minutes": 5}
    plain = {"schedule": "5 * * * *", "retention_minutes": "60", "policy": "all.yaml", "bootstrap_servers": "a:1"}
    first, second = read({"main": MAIN, "eu": own}, **plain).every_cluster
    assert (first.schedule, first.retention_minutes, first.deadline_minutes) == ("5 * * * *", 60, 0)
    assert (second.schedule, second.retention_minutes, second.deadline_minutes) == ("", None, 5)
    assert (first.bootstrap_servers, second.bootstrap_servers) == ("a:1", "")
    assert second.policy == "all.yaml"


@pytest.mark.parametrize(
    ("clusters", "told"),
    [
        ({"main": {}}, "clusters.main.cluster_id"),
        ({"main": MAIN, "eu": {}}, "clusters.eu.cluster_id"),
        ({"main": MAIN, "eu": {**EU, "kafka_con_id": "k"}}, "clusters.eu.kafka_con_id"),
        ({"main": MAIN, "eu": {**EU, "retention_minutes": 0}}, "clusters.eu.retention_minutes"),
        ({"main": MAIN, "eu": {**EU, "kafka_conn_id": ""}}, "clusters.eu.kafka_conn_id"),
        ({"main": {"cluster_id": "../x"}}, "clusters.main.cluster_id"),
        ({"main": {"cluster_id": "x\n"}}, "clusters.main.cluster_id"),
        ({"a b": MAIN}, "pattern"),
        ({"eu.1": MAIN}, "pattern"),
        ({"eu\n": MAIN}, "pattern"),
        ({"": MAIN}, "pattern"),
        ({"a" * 65: MAIN}, "pattern"),
        ({"eu": MAIN, "EU": EU}, "name 'eu' is used more than once"),
        ({"main": EU, "eu": EU}, "cluster_id 'eu-1' is used more than once"),
        ({"main": MAIN, "default": EU}, "connection 'kafka_default' is used more than once"),
        ({"main": MAIN, "applier": EU}, "connection 'kafka_applier' is used more than once"),
        ({"main": MAIN, "eu": {**EU, "applier_conn_id": "kafka_default"}}, "connection 'kafka_default'"),
    ],
)
def test_what_cannot_be_is_refused(read, clusters: object, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        read(clusters)


@pytest.mark.parametrize(
    ("clusters", "told"),
    [("{}}", "clusters"), ('{"eu": {"retention_minutes": "s3cr3t"}}', "clusters.eu.retention_minutes: Input")],
)
def test_whoever_reads_them_is_told_in_one_line(read, clusters: str, told: str) -> None:
    with pytest.raises((ValidationError, SettingsError)):
        read(clusters)
    settings.cache_clear()
    with pytest.raises(UsageError, match=told) as caught:
        settings()
    assert "s3cr3t" not in str(caught.value)


def test_a_cluster_may_have_one_connection_for_both(read) -> None:
    (_, eu) = read({"main": MAIN, "eu": {**EU, "applier_conn_id": "kafka_eu"}}).every_cluster
    assert eu.kafka_conn_id == eu.applier_conn_id == "kafka_eu"


def test_a_traceback_that_shows_what_is_in_scope_shows_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_CATALOG_PROPERTIES", '{"jdbc.password": "canary"}')
    monkeypatch.setenv("SEXTON_ARCHIVE", "s3://key:canary@bucket/archive")
    found = Settings()
    assert found.catalog_properties == {"jdbc.password": "canary"}
    assert "canary" not in repr(found) + str(found) + pretty_repr(found)
