"""What a session is started with: what spark-submit or Spark's own files say, and our defaults beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from sexton.runs import spark_session
from sexton.runs.spark_session import SHUFFLE_PARTITIONS
from sexton.settings import Settings

SCRIPT = """\
from sexton.runs.spark_session import SHUFFLE_PARTITIONS, session_conf, spark_session
session = spark_session()
context = session.sparkContext
with session_conf(session, {SHUFFLE_PARTITIONS: "1", "spark.sql.codegen.wholeStage": "false"}):
    print("few rows:", session.conf.get(SHUFFLE_PARTITIONS))
after = [session.conf.get(name) for name in (SHUFFLE_PARTITIONS, "spark.sql.codegen.wholeStage")]
flags = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
given = [context.getConf().get(name) for name in ("spark.executor.memoryOverheadFactor", "spark.cores.max")]
print("beside:", *after, *given, "-XX:+UseSerialGC" in list(flags))
print(context.appName, "is on", context.master, "and has the UI", context.uiWebUrl)
"""


@pytest.mark.thorough
@pytest.mark.usefixtures("needs_spark")
def test_a_submitted_job_is_as_it_was_submitted(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT, encoding="utf-8")
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SEXTON_SPARK_MASTER": "local[1]"}
    own["SPARK_SUBMIT_OPTS"] = "-Dspark.executor.memoryOverheadFactor=1.6 -Dspark.cores.max=8"
    given = ["--master", "local[2]", "--conf", "spark.ui.port=0", "--conf", f"{SHUFFLE_PARTITIONS}=7"]
    given += ["--conf", "spark.cores.max=3"]
    for program, told in (
        ([submit, *given], "few rows: 1\nbeside: 7 true 1.6 3 False\njob is on local[2] and has the UI http://"),
        ([sys.executable], "few rows: 1\nbeside: 16 true 1.6 8 True\njob is on local[1] and has the UI None"),
    ):
        done = subprocess.run(
            [*program, script], env=os.environ | own, capture_output=True, text=True, timeout=300, check=False
        )
        assert told in done.stdout, done.stderr[-2_000:]


@pytest.mark.parametrize(
    "argv, name",
    [
        (["/x/spark_jobs/find_expired.py", "--run-dir=r"], "find_expired"),
        (["/x/bin/sexton", "audit", "--out=o"], "sexton audit"),
        (["/x/bin/sexton", "--debug"], "sexton"),
    ],
)
def test_a_session_has_the_name_of_its_job_or_command(monkeypatch: pytest.MonkeyPatch, argv, name) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    assert spark_session.session_name() == name


@pytest.mark.parametrize("is_submitted", [False, True])
def test_jars_are_given_to_a_jvm_that_is_not_submitted(monkeypatch: pytest.MonkeyPatch, is_submitted) -> None:
    """spark-submit has had them as --jars; a publication starts its JVM itself, if it needs one."""
    monkeypatch.setattr(spark_session, "settings", lambda: Settings(spark_jars="/jars/iceberg.jar,/jars/driver.jar"))
    if is_submitted:
        monkeypatch.setenv(spark_session.SUBMITTED, "1")
    assert spark_session._lake_conf().get("spark.jars") == (
        None if is_submitted else "/jars/iceberg.jar,/jars/driver.jar"
    )
