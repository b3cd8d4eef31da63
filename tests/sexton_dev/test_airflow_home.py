"""The embedded Airflow's configuration: private, loopback only, stable secrets, nobody else's environment."""

import base64
import configparser
import json
import stat
import subprocess
import sys

import pytest

from sexton.errors import UsageError
from sexton.local.compose_init import connections
from sexton.settings import Settings
from sexton_dev.airflow_home import AirflowHome


@pytest.fixture
def home(tmp_path):
    made = AirflowHome(Settings(home=tmp_path / "100% mine", airflow_port=18099))
    made.write()
    return made


def cfg_of(home) -> configparser.ConfigParser:
    cfg = configparser.ConfigParser()
    cfg.read(home.cfg_file)
    return cfg


def test_secrets_are_private_and_long_enough(home) -> None:
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.cfg_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.password_file.stat().st_mode) == 0o600
    cfg = cfg_of(home)
    assert len(cfg["api_auth"]["jwt_secret"]) >= 64
    assert len(cfg["api"]["secret_key"]) >= 64
    assert len(base64.urlsafe_b64decode(cfg["core"]["fernet_key"])) == 32
    assert len(home.password()) >= 12


def test_secrets_stay_the_same(home) -> None:
    before, password = home.cfg_file.read_text(), home.password()
    home.write()
    assert home.cfg_file.read_text() == before
    assert home.password() == password


def test_two_homes_share_no_secret(home, tmp_path) -> None:
    other = AirflowHome(Settings(home=tmp_path / "other"))
    other.write()
    assert other.password() != home.password()
    for section, name in (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret")):
        assert cfg_of(other)[section][name] != cfg_of(home)[section][name]


def test_only_this_machine_is_served(home) -> None:
    cfg = cfg_of(home)
    assert cfg["api"]["host"] == "127.0.0.1"
    assert cfg["api"]["port"] == "18099"
    assert cfg["core"]["execution_api_server_url"] == "http://127.0.0.1:18099/execution/"
    assert home.started_url() == "http://127.0.0.1:18099"


def test_paths_with_percent_signs_survive(home) -> None:
    cfg = cfg_of(home)
    assert cfg["core"]["dags_folder"].endswith("100% mine/dags")
    assert cfg["database"]["sql_alchemy_conn"] == f"sqlite:///{home.root}/airflow.db?timeout=60"


def test_airflow_reads_the_file_as_it_is_meant(home) -> None:
    """With Airflow's own parser: a misspelt option would change nothing and tell nobody."""
    program = (
        "import json\n"
        "from airflow.configuration import conf, retrieve_configuration_description\n"
        "described = retrieve_configuration_description(include_providers=False)\n"
        "known = [[section, option] for section, body in described.items() for option in body['options']]\n"
        "print(json.dumps([known, conf.get('core', 'dags_folder'), conf.get('api', 'host')]))\n"
    )
    environment = home.environment({})
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    known, dags_folder, host = json.loads(done.stdout.splitlines()[-1])
    cfg = cfg_of(home)
    written = [[section, option] for section in cfg.sections() for option in cfg[section]]
    assert [each for each in written if each not in known] == []
    assert dags_folder.endswith("100% mine/dags")
    assert host == "127.0.0.1"


def test_environment(home, monkeypatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "postgres://")
    monkeypatch.setenv("NO_PROXY", "corp.example,127.0.0.1")
    found = home.environment({"JAVA_HOME": "/java"}, SEXTON_SETTLE_MS="5")
    assert {name for name in found if name.startswith("AIRFLOW_")} == {
        "AIRFLOW_HOME", "AIRFLOW_CONN_OTHER", "AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_CONN_KAFKA_APPLIER",
        "AIRFLOW_CONN_SPARK_DEFAULT",
    }  # fmt: skip
    for conn_id in ("KAFKA_DEFAULT", "KAFKA_APPLIER"):
        kafka = json.loads(found[f"AIRFLOW_CONN_{conn_id}"])
        assert kafka["extra"]["bootstrap.servers"] == "127.0.0.1:19092"
    assert found["NO_PROXY"] == "corp.example,127.0.0.1,localhost"
    assert (found["JAVA_HOME"], found["SEXTON_SETTLE_MS"]) == ("/java", "5")
    assert found["GX_ANALYTICS_ENABLED"] == "false"


def test_connections_of_ones_own_stay(home, monkeypatch) -> None:
    mine = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "elsewhere:1"}})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_APPLIER", mine)
    found = home.environment({})
    assert found["AIRFLOW_CONN_KAFKA_APPLIER"] == mine
    assert "127.0.0.1:19092" in found["AIRFLOW_CONN_KAFKA_DEFAULT"]


def test_each_cluster_whose_address_is_known_has_connections() -> None:
    ids = [{"cluster_id": "a"}, {"cluster_id": "b", "bootstrap_servers": "b:1"}, {"cluster_id": "c"}]
    config = Settings(clusters=dict(zip(("main", "eu", "us"), ids, strict=True)))
    found = connections(config)
    assert set(found) == {"kafka_default", "kafka_applier", "kafka_eu", "kafka_eu_applier", "spark_default"}
    assert found["kafka_eu"]["extra"] == {"bootstrap.servers": "b:1"}


def test_there_are_two_people(home) -> None:
    """Who triggers a deletion cannot approve it."""
    assert cfg_of(home)["core"]["simple_auth_manager_users"] == "admin:admin,approver:user"
    assert home.password("approver") != home.password()


def test_a_home_of_before_gets_who_is_missing(home) -> None:
    home.password_file.write_text(json.dumps({"admin": "kept"}))
    home.write()
    assert home.password() == "kept"
    assert len(home.password("approver")) >= 12
    assert stat.S_IMODE(home.password_file.stat().st_mode) == 0o600


def test_other_people(tmp_path) -> None:
    made = AirflowHome(Settings(home=tmp_path), users={"root": "admin", "ops": "op"})
    made.write()
    assert cfg_of(made)["core"]["simple_auth_manager_users"] == "root:admin,ops:op"
    assert made.password("ops")
    with pytest.raises(UsageError, match="approver"):
        made.password("approver")


def test_no_password_yet(tmp_path) -> None:
    with pytest.raises(UsageError, match="make up"):
        AirflowHome(Settings(home=tmp_path)).password()
