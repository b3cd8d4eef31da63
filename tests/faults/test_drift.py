"""Packages that do not fit together: whatever starts looks first, and says which and what to do, before any harm.

The mixes are made of metadata and files in a folder that a child process has first on its path, as a constraint of
somebody else or a second `pip install` leaves them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sexton.distributions import version_of
from sexton.settings import PROJECT_ROOT
from tests.tiers import later

SPARK = version_of("pyspark")
OTHER = "4.0.1"


@dataclass(frozen=True)
class Mix:
    """Versions by distribution and texts by file, laid over what is installed; what has to be said of them."""

    versions: Mapping[str, str]
    said: str
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


MIXES = {
    "another client": Mix({"pyspark-client": "4.2.0"}, f"pyspark-client is 4.2.0, pyspark {SPARK}"),
    "another pyspark": Mix({"pyspark": "3.5.6"}, f"pyspark-client is {SPARK}, pyspark 3.5.6"),
    "jars of another": Mix(
        {"pyspark": str(SPARK)},
        f"pyspark's jars (spark-core_2.13-{OTHER}.jar) is {OTHER}, pyspark {SPARK}",
        files={f"pyspark/jars/spark-core_2.13-{OTHER}.jar": ""},
    ),
    "Python of another": Mix(
        {"pyspark": str(SPARK)},
        f"version.py of pyspark is {OTHER}, pyspark {SPARK}",
        files={"pyspark/version.py": f"__version__: str = '{OTHER}'\n"},
    ),
    "another Spark home": Mix(
        {},
        f"SPARK_HOME (spark-core_2.13-{OTHER}.jar) is {OTHER}, pyspark {SPARK}",
        files={f"home/jars/spark-core_2.13-{OTHER}.jar": ""},
        variables={"SPARK_HOME": "home"},
    ),
    "an older client for Kafka": Mix({"kafka-python": "2.0.2"}, "kafka-python is 2.0.2, needed is <3.1,>=3.0.12"),
    "a newer Airflow": Mix({"apache-airflow": "4.0.0"}, "apache-airflow is 4.0.0, needed is <3.4,>=3.3"),
    "pandas of somebody's constraints": Mix({"pandas": "1.5.3"}, "pandas is 1.5.3, needed is <3,>=2.2"),
}


def lay(folder: Path, mix: Mix) -> dict[str, str]:
    """The environment of a child that sees the mix first."""
    for name, version in mix.versions.items():
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    for name, text in mix.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    variables = {name: str(folder / value) for name, value in mix.variables.items()}
    kept = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    return {**kept, "PYTHONPATH": str(folder), "SEXTON_HOME": str(folder / "home-of-ours"), **variables}


each_mix = pytest.mark.parametrize(
    "name", later(pytest.mark.thorough, MIXES, but=("another client", "jars of another"))
)


@each_mix
def test_a_stage_does_not_start(name: str, tmp_path: Path) -> None:
    """Nor does it when it would need no Spark: what it writes is read by stages that do."""
    mix, run = MIXES[name], tmp_path / "run"
    done = subprocess.run(
        [sys.executable, str(PROJECT_ROOT / "spark_jobs" / "find_expired.py"), f"--run-dir={run}"],
        env=lay(tmp_path / "mix", mix), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert f"the installed packages do not fit together: {mix.said}" in done.stderr
    assert "requirements.txt" in done.stderr
    outcome = json.loads((run / "outcome" / "find_expired.json").read_text("utf-8"))
    assert outcome["exit_code"] == 2, "no retry mends it"
    assert [path.name for path in run.iterdir()] == ["outcome"]


@each_mix
def test_doctor_says_so(name: str, tmp_path: Path) -> None:
    """In the same words, and with what to do."""
    mix = MIXES[name]
    told = "import sys; from sexton.doctor import check_packages, check_spark; print(check_packages(), check_spark())"
    done = subprocess.run(
        [sys.executable, "-c", told], env=lay(tmp_path, mix), capture_output=True, text=True, timeout=120, check=False
    )
    assert mix.said in done.stdout.replace('\\"', '"').replace("\\'", "'"), done.stdout + done.stderr
    assert "state='problem'" in done.stdout
    assert "requirements.txt" in done.stdout


def test_what_is_installed_here_fits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROJECT_ROOT / "spark_jobs" / "find_expired.py"), f"--run-dir={tmp_path / 'run'}"],
        env=lay(tmp_path, Mix({}, "")), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "do not fit together" not in done.stderr
    assert "run.json" in done.stderr, "it looks for what the stage before it has left"
