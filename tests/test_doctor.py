"""Each check of `sexton doctor`: what it finds, what it says about mending it."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sexton import cli, distributions, doctor
from sexton.doctor import Check
from sexton.errors import SetupError, UsageError
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig
from sexton.kafka.jars import Jar
from sexton.settings import Settings

FETCHED = {"a-1.jar": b"abc", "b-1.jar": b"abc"}
ABC_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.mark.parametrize(
    "version, state", [((3, 10, 9), "problem"), ((3, 11, 0), "ok"), ((3, 13, 2), "ok"), ((3, 14, 0), "problem")]
)
def test_python(version: tuple[int, ...], state: str) -> None:
    assert doctor.check_python(version).state == state


def test_java(config: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    java = JavaHome(home=Path("/jdk"), version=17, source="PATH", note="JAVA_HOME has Java 25 (/new), not used")
    monkeypatch.setattr("sexton.java.find_java", lambda *_: java)
    found = doctor.check_java(config)
    assert (found.state, found.found) == ("ok", "17 from PATH at /jdk; JAVA_HOME has Java 25 (/new), not used")


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    told = {"pyspark": "4.1.3", "pyspark-client": "4.1.3"}
    monkeypatch.setattr(distributions, "version_of", told.get)
    monkeypatch.setattr(distributions, "_versions_on_disk", lambda: [])
    monkeypatch.setattr(doctor, "altered_files", lambda *_: [])
    return told


def test_spark(versions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_spark().state == "ok"
    versions["pyspark-client"] = "4.2.0"
    mixed = doctor.check_spark()
    assert mixed.state == "problem"
    assert "pyspark 4.1.3, pyspark-client 4.2.0" in mixed.found
    del versions["pyspark-client"]
    assert doctor.check_spark().state == "ok"
    del versions["pyspark"]
    assert doctor.check_spark().found == "pyspark is not installed"


def test_spark_files_of_another_version(versions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "altered_files", lambda *_: ["pyspark/version.py"])
    found = doctor.check_spark()
    assert (found.state, "pyspark/version.py" in found.found) == ("problem", True)


def test_altered_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared files count when the two RECORDs differ, or when the file is neither's; others do not."""
    (tmp_path / "f").write_bytes(b"abc")
    right, place = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0", tmp_path / "f"
    recorded = {
        "one": {"same": (right, place), "differ": (right, place), "edited": ("x", place), "own": ("y", place)},
        "other": {"same": (right, place), "differ": ("z", place), "edited": ("x", place)},
    }
    recorded["one"]["gone"] = recorded["other"]["gone"] = (right, tmp_path / "absent")
    monkeypatch.setattr(doctor, "_recorded", recorded.__getitem__)
    assert doctor.altered_files("one", "other") == ["differ", "edited", "gone"]


def test_the_installed_spark_is_intact() -> None:
    assert doctor.altered_files("pyspark", "pyspark-client") == []


@pytest.mark.parametrize("version, state", [("4.1.3", "ok"), ("4.2.0", "problem"), ("4.10.0", "problem")])
def test_iceberg(versions: dict[str, str], version: str, state: str) -> None:
    versions["pyspark"] = version
    assert doctor.check_iceberg().state == state


@pytest.mark.parametrize(
    "files, state, words",
    [
        (FETCHED, "ok", "2 in "),
        ({"b-1.jar": b"abc"}, "ok", "none for the embedded broker"),
        ({"a-1.jar": b"abc"}, "problem", "1 of 2 not fetched yet, such as b-1.jar"),
        ({"a-1.jar": b"abd", "b-1.jar": b"abc"}, "problem", "1 of 2 damaged, such as a-1.jar"),
        ({"a-1.jar": b"abd"}, "problem", "1 of 2 damaged, such as a-1.jar"),
        ({**FETCHED, "asked-1.jar": b"abd"}, "problem", "1 of 3 damaged, such as asked-1.jar"),
    ],
    ids=["all", "no broker of its own", "missing", "damaged", "both", "one that need not be there"],
)
def test_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], state: str, words: str) -> None:
    pinned = [
        Jar(jar_set=jar_set, coordinate=f"group:{name}:1", size_bytes=3, sha256=ABC_SHA256)
        for jar_set, name in (("kafka", "a"), ("spark", "b"), ("s3", "asked"))
    ]
    monkeypatch.setattr("sexton.kafka.jars.read_lock", lambda: pinned)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    found = doctor.check_jars(tmp_path)
    assert found.state == state
    assert words in found.found
    assert (found.fix is None) == (state == "ok")


def test_writable(tmp_path: Path) -> None:
    assert doctor.check_writable(tmp_path / "new" / "folder", "cache").state == "ok"
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").touch()
    found = doctor.check_writable(tmp_path / "file", "cache")
    assert (found.state, found.found) == ("problem", f"{tmp_path / 'file'}: File exists")


@pytest.mark.parametrize("free_gib, state", [(50, "ok"), (3, "warning"), (0, "problem")])
def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_gib: int, state: str) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda home: SimpleNamespace(free=free_gib * 1024**3))
    assert doctor.check_disk(tmp_path).state == state


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_ports(config: Settings, taken_port: int) -> None:
    taken = doctor.check_port("Airflow port", taken_port, setting="SEXTON_AIRFLOW_PORT")
    assert (taken.state, "SEXTON_AIRFLOW_PORT" in (taken.fix or "")) == ("warning", True)
    here = config.model_copy(update={"bootstrap_servers": f"127.0.0.1:{taken_port}"})
    assert doctor.check_broker_port(here).state == "warning"
    elsewhere = config.model_copy(update={"bootstrap_servers": "kafka-1:9092"})
    assert doctor.check_broker_port(elsewhere).state == "ok"


def test_a_check_that_breaks_is_a_problem_and_not_the_end(config: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Check:
        raise RuntimeError("boom")

    def no_java(*_: object) -> Check:
        raise SetupError("no Java on this machine", fix="install Java 17 or 21")

    monkeypatch.setattr(doctor, "check_spark", broken)
    monkeypatch.setattr(doctor, "check_java", no_java)
    found = {check.name: check for check in doctor.examine(config)}
    assert found["Spark"].found == "could not be checked: RuntimeError: boom"
    assert (found["Java"].found, found["Java"].fix) == ("no Java on this machine", "install Java 17 or 21")
    assert "Airflow port" in found


def test_every_problem_says_how_to_mend_it(config: Settings) -> None:
    for check in doctor.examine(config):
        assert check.state == "ok" or check.fix, check


@pytest.mark.parametrize("state, code", [("ok", 0), ("warning", 0), ("problem", 2)])
def test_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: doctor.State, code: int
) -> None:
    check = Check(name="thing", state=state, found="odd\x1b", fix=None if state == "ok" else "mend it")
    monkeypatch.setattr(doctor, "examine", lambda config, client, policy: iter([check]))
    assert cli.main(["doctor"]) == code
    out = capsys.readouterr().out
    assert "odd‹U+001B›" in out
    assert ("-> mend it" in out) == (state != "ok")
    assert cli.main(["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["fit"], told["checks"][0]["state"]) == (code == 0, state)


def test_a_cluster_that_does_not_answer(config: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CONNECT_TIMEOUT_MS", 300)
    monkeypatch.setattr(doctor, "RETRY_FOR_S", 0)
    found = {
        check.name: check for check in doctor.examine(config, client=ClientConfig(bootstrap_servers="127.0.0.1:1"))
    }
    assert found["cluster"].state == "problem"
    assert found["cluster"].found.startswith("127.0.0.1:1: ")


class _Session:
    """A cluster of two brokers."""

    broker_ids = (1, 2)
    broker_version = "4.1"

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> "_Session":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    "topic, state, found",
    [
        (SimpleNamespace(leaders=range(50)), "ok", "2 brokers, protocol of Kafka 4.1, 50 log partitions"),
        (UsageError("may not be described", fix="grant it"), "warning", "2 brokers, protocol of Kafka 4.1; may not be"),
    ],
    ids=["seen", "not seen"],
)
def test_a_cluster_that_answers(monkeypatch: pytest.MonkeyPatch, topic: object, state: str, found: str) -> None:
    def describe(*_: object) -> object:
        if isinstance(topic, UsageError):
            raise topic
        return topic

    monkeypatch.setattr("sexton.kafka.session.ClusterSession", _Session)
    monkeypatch.setattr("sexton.kafka.topics.describe_topic", describe)
    check = doctor.check_cluster(ClientConfig(bootstrap_servers="a:1"))
    assert check.state == state
    assert check.found.startswith(found)
