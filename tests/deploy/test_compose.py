"""docker-compose.yaml held against the Compose specification, and against the project it deploys.

There is no Docker engine here: what the images do with all this is not tested.
"""

import json
import re
import subprocess
import zipfile
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pyspark
import pytest
from pyarrow import fs as pafs

import sexton
from sexton.airflow.pools import POOLS
from sexton.kafka.jars import read_lock
from sexton.lake.catalog import EXTENSIONS, open_lake, reader_properties
from sexton.local.compose_init import (
    CONNECT_HOST,
    CONNECT_TOKEN,
    KEPT,
    OWNERS,
    SPARK_DEFAULTS,
    TOKEN,
    USERS,
    connections,
    write_secrets,
)
from sexton.runs.spark_session import CONNECT_PORT, JVM_OPTIONS, LOGGING
from sexton.settings import Settings
from sexton_dev.airflow_home import AirflowHome
from sexton_dev.spark_server import DAEMON, SERVER_CLASS
from tests.deploy.compose import (
    AIRFLOW,
    COMPOSE,
    EVERY_SERVICE_HAS,
    ONE_SHOT,
    OURS,
    ROOT,
    SCHEMA,
    SERVICES,
    environment,
    mounts,
)
from tests.environment import with_settings

IMAGE_HOME = "/opt/sexton"
BIN = Path(pyspark.__file__).parents[4] / "bin"
SECRET_NAME = re.compile(r"pass|secret|key|token|credential|auth", re.IGNORECASE)
SPARK_ENVIRONMENT = {"SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_SUBMIT_OPTS"}
STORAGE_FILES = ("pgpass", "aws_credentials")
DIFFERENT = {
    "core.dags_folder", "core.plugins_folder", "core.execution_api_server_url",
    "core.simple_auth_manager_passwords_file", "core.test_connection", "database.sql_alchemy_conn", "api.host",
    "logging.base_log_folder", "logging.dag_processor_child_process_log_directory",
}  # fmt: skip
"""What the services have to be told otherwise than the embedded Airflow: places, addresses, and who may try them."""


def test_the_specification() -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(COMPOSE)


@pytest.mark.parametrize(
    "key, value",
    [("helthcheck", {}), ("ports", 8080), ("deploy", {"limits": {}}), ("env_file", [{"path": "a", "requird": False}])],
)
def test_a_mistake_is_noticed(key: str, value: object) -> None:
    broken = {**COMPOSE, "services": {**SERVICES, "kafka": {**SERVICES["kafka"], key: value}}}
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(broken)


@pytest.mark.parametrize("name", SERVICES)
def test_what_every_service_says(name: str) -> None:
    assert SERVICES[name].keys() >= EVERY_SERVICE_HAS
    # Values are text, so that YAML's own yes, no and 1e3 never get between.
    assert all(isinstance(value, str) for value in SERVICES[name].get("environment", {}).values())


def test_the_parts_that_were_asked_for() -> None:
    assert set(SERVICES) - ONE_SHOT == {
        "kafka", "postgres", "object-store", "spark-master", "spark-worker", "spark-connect",
        "airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer",
    }  # fmt: skip
    assert {"secrets", "init"} == ONE_SHOT


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name: str) -> None:
    """By the digest of what the tag meant: a tag can be given to something else. Ours is built from this folder."""
    repository, _, pinned = SERVICES[name]["image"].partition(":")
    tag, _, digest = pinned.partition("@")
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", tag)
    assert repository == "sexton" or "build" not in SERVICES[name]
    if name in OURS:
        assert (tag, digest) == (sexton.__version__, "")
    else:
        assert re.fullmatch("sha256:[0-9a-f]{64}", digest)


def test_brokers_of_one_release() -> None:
    (kafka,) = (jar for jar in read_lock() if jar.coordinate.startswith("org.apache.kafka:kafka-clients:"))
    assert SERVICES["kafka"]["image"].startswith(f"apache/kafka:{kafka.coordinate.rpartition(':')[2]}@")


def test_limits_are_what_the_comment_says() -> None:
    comment = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    told = {
        name.strip(): (memory, cpus)
        for name, memory, cpus in re.findall(r"^#   ([\w -]+?) +(\d+M) +([\d.]+)", comment, re.MULTILINE)
    }
    limits = {name: service["deploy"]["resources"]["limits"] for name, service in SERVICES.items()}
    running = {name: (limit["memory"], limit["cpus"]) for name, limit in limits.items() if name not in ONE_SHOT}
    memory = sum(int(each.removesuffix("M")) for each, _ in running.values())
    assert told == {**running, "in all": (f"{memory}M", f"{sum(float(cpus) for _, cpus in running.values()):g}")}
    assert memory < 20 * 1024
    said = " ".join(comment.split("# and, before the others: ")[1].split("\n")[0].split())
    for name in ONE_SHOT:
        assert f"{name} {limits[name]['memory']} {limits[name]['cpus']}" in said


@pytest.mark.parametrize("name", SERVICES)
def test_health_is_checked_of_all_that_stays(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert ("test" in check) == (name not in ONE_SHOT)
    if name in OURS - ONE_SHOT:
        command, python, option, module, url, *component = check["test"]
        assert (command, python, option, module) == ("CMD", "python", "-m", "sexton.local.compose_health")
        assert url.startswith(("http://127.0.0.1:", "http://airflow-api-server:8080/", "tcp://127.0.0.1:15002"))
        assert component or url.endswith(("/json/", "/execution/health", ":15002"))


def test_who_waits_for_whom() -> None:
    for name, service in SERVICES.items():
        for other, wait in service.get("depends_on", {}).items():
            assert wait["condition"] == (
                "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
            ), f"{name} waits for {other}"
    after: dict[str, set[str]] = {name: set(service.get("depends_on", {})) for name, service in SERVICES.items()}
    while ready := {name for name, waits in after.items() if not waits & after.keys()}:
        after = {name: waits for name, waits in after.items() if name not in ready}
    assert not after, "they wait for each other"


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_on_the_loopback_address(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z]+_PORT:-\d+\}:\d+", port)


def test_ports_differ() -> None:
    published = [
        re.sub(r"\$\{\w+:-(\d+)\}", r"\1", port) for each in SERVICES.values() for port in each.get("ports", [])
    ]
    assert len({port.split(":")[1] for port in published}) == len(published) == 4


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_is_written_down(name: str) -> None:
    for variable, value in environment(name).items():
        if SECRET_NAME.search(variable) and variable != "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS":
            assert f"{value}/".removeprefix("cat ").startswith("/run/sexton/"), variable
    properties = json.loads(environment(name).get("SEXTON_CATALOG_PROPERTIES", "{}"))
    assert not [key for key in properties if SECRET_NAME.search(key)]
    assert not re.search(r"://[^/\s]*@", json.dumps(SERVICES[name]))


def test_secrets_are_mounted_where_they_are_read() -> None:
    folders = {KEPT, *OWNERS}
    assert mounts("secrets") == {f"secrets-{folder}": f"/secrets/{folder}" for folder in folders}
    seen = {name: {volume for volume in mounts(name) if volume.startswith("secrets-")} for name in SERVICES}
    assert seen.pop("secrets") == {f"secrets-{folder}" for folder in folders}
    for name, volumes in seen.items():
        own = folders & {name} or ({"airflow"} if name in AIRFLOW else set())
        assert volumes == {f"secrets-{folder}" for folder in own}, name
    writers = {
        name
        for name in seen
        for volume, place in mounts(name).items()
        if volume.startswith("secrets-") and not place.endswith(":ro")
    }
    assert writers == {"airflow-api-server"}


def test_volumes_are_declared_and_used() -> None:
    used = {volume for name in SERVICES for volume in mounts(name)}
    assert {volume for volume in used if not volume.startswith("./")} == set(COMPOSE["volumes"])
    for path in (volume for volume in used if volume.startswith("./")):
        assert (ROOT / path).stat().st_mode & 0o111


def test_users() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"--uid {OWNERS['airflow']} " in dockerfile
    assert f"--gid {OWNERS['airflow']} " in dockerfile
    assert SERVICES["object-store"]["user"] == f"{OWNERS['object-store']}:{OWNERS['object-store']}"
    assert {name for name, service in SERVICES.items() if service.get("user", "").startswith("0")} == {"secrets"}
    assert SERVICES["postgres"]["user"] == f"{OWNERS['postgres']}:{OWNERS['postgres']}"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_process_may_not(name: str) -> None:
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name].get("cap_add", []) == (["CHOWN"] if name == "secrets" else [])
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
    assert not SERVICES[name].get("privileged")


def test_a_worker_reads_no_secret_of_airflows(tmp_path: Path) -> None:
    """Whatever runs in an executor reads what is mounted there."""
    write_secrets(tmp_path)
    assert {file.name for file in (tmp_path / "spark-worker").iterdir()} == {*STORAGE_FILES, SPARK_DEFAULTS}
    assert {file.name for file in (tmp_path / "spark-master").iterdir()} == {SPARK_DEFAULTS}
    for name, asked in (("spark-worker", environment("spark-worker")), ("spark-master", environment("spark-master"))):
        read = {Path(value).name for value in asked.values() if value.startswith("/run/sexton/")}
        assert read == ({*STORAGE_FILES} if name == "spark-worker" else set())
        assert asked["SPARK_CONF_DIR"] == "/run/sexton"
        assert not [variable for variable in asked if variable.startswith("AIRFLOW")]
    told = {(tmp_path / reader / SPARK_DEFAULTS).read_text() for reader in ("airflow", "spark-master", "spark-worker")}
    assert len(told) == 1
    token = (tmp_path / "airflow" / CONNECT_TOKEN).read_text()
    assert (tmp_path / "spark-connect" / SPARK_DEFAULTS).read_text() == f"{min(told)}{TOKEN} {token}\n"
    assert "spark.authenticate true" in told.pop().splitlines()


@pytest.mark.parametrize("name", sorted(OURS))
def test_settings_are_known_and_valid(name: str) -> None:
    given = {key: value for key, value in environment(name).items() if key.startswith("SEXTON_")}
    assert {key.removeprefix("SEXTON_").lower() for key in given} <= Settings.model_fields.keys()
    with with_settings(**given):
        config = Settings(home=Path(IMAGE_HOME))
    if not given:
        return
    assert config.warehouse == config.catalog_properties["warehouse"]
    assert pafs.FileSystem.from_uri(config.archive)[1] == "sexton/archive"
    assert pafs.FileSystem.from_uri(config.runs)[1] == "sexton/runs"
    pinned = {jar.coordinate.split(":")[1]: f"{IMAGE_HOME}/.cache/jars/{jar.file_name}" for jar in read_lock()}
    wanted = ("iceberg-spark-runtime-4.1_2.13", "postgresql", "iceberg-aws-bundle")
    assert config.spark_jars.split(",") == [pinned[artifact] for artifact in wanted]
    lake = open_lake(config.catalog_properties)
    assert reader_properties(lake.properties)["uri"] == "postgresql+psycopg2://iceberg@/iceberg?host=postgres%3A5432"


def test_drivers_and_executors_see_the_same() -> None:
    driver, executor = environment("airflow-scheduler"), environment("spark-worker")
    server = environment(CONNECT_HOST)
    shared = {key for key in driver if key.startswith(("SEXTON_", "AWS_", "PG"))}
    for other in (executor, server):
        assert {key: driver[key] for key in shared} == {key: other.get(key) for key in shared}
    assert {key for key in driver if key.startswith("SPARK_")} == SPARK_ENVIRONMENT
    own = {name: [file["path"] for file in service.get("env_file", [])] for name, service in SERVICES.items()}
    assert own == {
        name: ["sexton.env"] if name in AIRFLOW | {"spark-worker", CONNECT_HOST} else [] for name in SERVICES
    }
    assert "var" not in mounts("spark-worker"), "they share stores alone"
    assert driver["SPARK_LOCAL_IP"] == SERVICES["airflow-scheduler"]["hostname"]
    inside = f"file://{IMAGE_HOME}/{LOGGING.relative_to(ROOT)}"
    options = JVM_OPTIONS.replace(LOGGING.as_uri(), inside)
    assert driver["SPARK_SUBMIT_OPTS"] == f"{options} -Dspark.cores.max=1"
    assert server["SPARK_SUBMIT_OPTS"] == f"{options} -Dspark.cores.max={executor['SPARK_WORKER_CORES']}"
    command = SERVICES[CONNECT_HOST]["command"]
    assert f"--jars={driver['SEXTON_SPARK_JARS']}" in command
    assert f"--executor-memory={executor['SPARK_WORKER_MEMORY']}" in command
    assert f"--conf=spark.connect.grpc.binding.port={CONNECT_PORT}" in command
    assert f"--class={SERVER_CLASS}" in command
    assert {f"--conf={name}={value}" for name, value in {**EXTENSIONS, **DAEMON}.items()} <= set(command)
    assert SERVICES[CONNECT_HOST]["hostname"] == CONNECT_HOST


def test_airflow_is_told_what_the_embedded_one_is() -> None:
    options = AirflowHome(Settings(airflow_port=8080))._options()
    wanted = {f"{section}.{name}": value for section, each in options.items() for name, value in each.items()}
    told = {
        f"{section.lower()}.{name.lower().removesuffix('_cmd')}": value
        for key, value in environment("airflow-scheduler").items()
        if key.startswith("AIRFLOW__")
        for _, section, name in [key.split("__", 2)]
    }
    assert wanted.keys() <= told.keys()
    assert {name for name, value in wanted.items() if told[name] != value} == DIFFERENT
    assert set(told["core.simple_auth_manager_users"].split(",")) == {f"{user}:{role}" for user, role in USERS.items()}
    for name in AIRFLOW - {"airflow-scheduler"}:
        assert environment(name).items() <= environment("airflow-scheduler").items()


@pytest.mark.parametrize("name", sorted(OURS))
def test_commands_exist(name: str) -> None:
    program, *arguments = SERVICES[name]["command"]
    assert (BIN / program).exists()
    if program == "python":
        assert find_spec(arguments[1])
    if program == "spark-class":
        (core,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
        with zipfile.ZipFile(core) as jar:
            assert f"{arguments[0].replace('.', '/')}.class" in jar.namelist()


@pytest.mark.parametrize("shell, script", [("sh", "scripts/databases.sh"), ("bash", "kafka")])
def test_scripts_parse(shell: str, script: str) -> None:
    file = ROOT / script
    text = file.read_text(encoding="utf-8") if file.is_file() else SERVICES[script]["command"][2].replace("$$", "$")
    done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_kafka_makes_its_cluster_id_once(tmp_path: Path) -> None:
    """The command of the service, with folders and programs of this machine."""
    tool, start = tmp_path / "bin" / "kafka-storage.sh", tmp_path / "run"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$1-$$"\n')
    start.write_text('#!/bin/sh\necho "$CLUSTER_ID"\n')
    for script in (tool, start):
        script.chmod(0o755)
    shell, options, text = SERVICES["kafka"]["command"]
    for there, here in {"/var/lib/kafka/data": tmp_path, "/opt/kafka": tmp_path, "/etc/kafka/docker": tmp_path}.items():
        text = text.replace(there, str(here))
    command = [shell, options, text.replace("$$", "$")]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second
    assert first.startswith("random-uuid-")


def test_what_the_image_copies_is_there() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [name for line in re.findall(r"^COPY (.+)", dockerfile, re.MULTILINE) for name in line.split()[:-1]]
    assert ignored[1] == "*"
    assert {f"!{name.removeprefix('./')}" for name in copied} == {line for line in ignored if line.startswith("!")}
    assert [name for name in copied if not (ROOT / name).exists()] == []
    (base,) = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert re.fullmatch(r"python:3\.12\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"^USER (\S+)", dockerfile, re.MULTILINE) == ["sexton"]
    assert "PYTHONDONTWRITEBYTECODE" not in dockerfile


def test_the_document_names_what_there_is() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert {name.lower() for name in re.findall(r"\bSEXTON_([A-Z_]+)", text)} <= Settings.model_fields.keys()
    assert set(re.findall(r"airflow pools set (\w+) 1 ", text)) == set(POOLS)
    assert set(re.findall(r"airflow connections add (\w+)", text)) == set(connections(Settings()))
    assert set(re.findall(r"[\w.-]+\d\.jar", text)) <= {jar.file_name for jar in read_lock()}
    for variable, default in re.findall(r"\$\{([A-Z]+_PORT):-(\d+)\}:\d", (ROOT / "docker-compose.yaml").read_text()):
        assert f"127.0.0.1:{default} (`{variable}`)" in text
