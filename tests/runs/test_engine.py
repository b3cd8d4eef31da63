"""Whose master and UI a session has: spark-submit's where that started it, else the setting's, and none."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

SCRIPT = """\
from sexton.runs.engine import spark_session
context = spark_session("test").sparkContext
print("master is", context.master, "and UI", context.uiWebUrl)
"""


@pytest.mark.usefixtures("needs_spark")
def test_a_submitted_job_is_as_it_was_submitted(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT, encoding="utf-8")
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SEXTON_SPARK_MASTER": "local[1]"}
    for program, told in (
        ([submit, "--master", "local[2]", "--conf", "spark.ui.port=0"], "master is local[2] and UI http://"),
        ([sys.executable], "master is local[1] and UI None"),
    ):
        done = subprocess.run(
            [*program, script], env=os.environ | own, capture_output=True, text=True, timeout=300, check=False
        )
        assert told in done.stdout, done.stderr[-2_000:]
