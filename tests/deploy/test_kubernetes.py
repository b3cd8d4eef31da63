"""The values for Airflow's Helm chart, held against the image, the settings and the pools; its job is run."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
import yaml

from sexton.airflow.pools import POOLS
from sexton.kafka.jars import read_lock
from sexton.lake.catalog import EXTENSIONS
from sexton.local.compose_init import OWNERS
from sexton.runs.spark_session import CONNECT_PORT
from sexton.settings import Settings
from sexton_dev.spark_server import DAEMON
from tests.airflow_database import migrated_database
from tests.deploy.compose import ROOT

BLOCKS = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / "kubernetes.md").read_text(), re.MULTILINE | re.DOTALL)
VALUES, SECRET, CONNECT = map(yaml.safe_load, BLOCKS)
GIVEN = {each["name"]: each["value"] for each in VALUES["env"]}


def test_the_image_has_what_they_name() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert VALUES["uid"] == VALUES["gid"] == VALUES["securityContexts"]["pod"]["runAsUser"] == OWNERS["airflow"]
    assert f"apache-airflow=={VALUES['airflowVersion']} " in (ROOT / "requirements.txt").read_text()
    for folder in ("dags", "plugins"):
        assert VALUES["config"]["core"][f"{folder}_folder"] == f"/opt/sexton/{folder}"
        assert f"COPY {folder} ./{folder}\n" in dockerfile
    jars = {f"/opt/sexton/.cache/jars/{jar.file_name}" for jar in read_lock()}
    assert set(GIVEN["SEXTON_SPARK_JARS"].split(",")) <= jars


def test_it_asks_for_no_script_of_another_image() -> None:
    """The chart's own defaults call /entrypoint and /clean-logs of apache/airflow."""
    for part in ("scheduler", "dagProcessor", "triggerer"):
        assert VALUES[part]["livenessProbe"]["command"][:3] == ["airflow", "jobs", "check"]
        assert VALUES[part]["logGroomerSidecar"]["args"][:2] == ["bash", "-c"]
    assert VALUES["scheduler"]["startupProbe"] == VALUES["scheduler"]["livenessProbe"]


def test_the_user_may_read_the_secret_of_the_catalog() -> None:
    (volume,) = VALUES["volumes"]
    assert VALUES["securityContexts"]["pod"]["fsGroup"] == VALUES["gid"]
    assert volume["secret"]["defaultMode"] & 0o040


def test_settings_and_connections_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {name: value for name, value in GIVEN.items() if name.startswith("SEXTON_")}
    assert {name.removeprefix("SEXTON_").lower() for name in ours} <= Settings.model_fields.keys()
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    config = Settings()
    wanted = {f"AIRFLOW_CONN_{name.upper()}" for name in (config.kafka_conn_id, config.applier_conn_id)}
    of_kafka = [each for each in VALUES["secret"] if each["secretName"] == "sexton-kafka"]
    assert {each["envName"] for each in of_kafka} == wanted
    for each in of_kafka:
        assert each["secretName"] == SECRET["metadata"]["name"]
        connection = json.loads(SECRET["stringData"][each["secretKey"]])
        assert connection["conn_type"] == "kafka"
        assert connection["extra"]["bootstrap.servers"]
    assert f"AIRFLOW_CONN_{config.spark_conn_id.upper()}" in GIVEN


def test_the_connect_server_is_a_resource_of_the_operator() -> None:
    """Names of api/v1alpha1/sparkconnect_types.go and of the containers that the operator fills in."""
    spec = CONNECT["spec"]
    assert (CONNECT["apiVersion"], CONNECT["kind"]) == ("sparkoperator.k8s.io/v1alpha1", "SparkConnect")
    optional = {"image", "hadoopConf", "sparkConf", "dynamicAllocation", "restartPolicy"}
    assert {"sparkVersion", "server", "executor"} <= spec.keys() <= {"sparkVersion", "server", "executor", *optional}
    for part, more, container in (("server", "service", "driver"), ("executor", "instances", "executor")):
        assert spec[part].keys() <= {"cores", "memory", "template", more}
        assert spec[part]["template"]["spec"]["containers"][0]["name"] == f"spark-kubernetes-{container}"
    assert spec["sparkVersion"] == pyspark.__version__
    assert spec["sparkConf"]["spark.jars"].replace("local://", "") == GIVEN["SEXTON_SPARK_JARS"]
    assert {**EXTENSIONS, **DAEMON}.items() <= spec["sparkConf"].items()
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    (connection,) = (json.loads(line) for line in re.findall(r'^    (\{"conn_type".*\})$', text, re.MULTILINE))
    assert (connection["host"], connection["port"]) == (f"{CONNECT['metadata']['name']}-server", CONNECT_PORT)


@pytest.mark.usefixtures("needs_airflow")
def test_the_job_makes_the_pools(tmp_path: Path) -> None:
    program, option, command = VALUES["migrateDatabaseJob"]["args"]
    migrate, _, pools = command.partition(" && ")
    assert migrate == "airflow db migrate"
    migrated_database(tmp_path / "airflow.db")
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path / 'airflow.db'}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    subprocess.run([program, option, pools], env=environment, capture_output=True, check=True)
    with sqlite3.connect(tmp_path / "airflow.db") as database:
        found = dict(database.execute("SELECT pool, slots FROM slot_pool WHERE pool LIKE 'sexton%'"))
    assert found == dict.fromkeys(POOLS, 1)
