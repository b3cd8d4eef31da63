"""Whose master a session has: spark-submit's where that started it, else the setting's."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

SCRIPT = """\
from sexton.runs.engine import spark_session
print("master is", spark_session("test").sparkContext.master)
"""


def test_a_submitted_job_runs_where_it_was_submitted_to(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT, encoding="utf-8")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SEXTON_SPARK_MASTER": "local[1]"}
    done = subprocess.run(
        [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", script],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "master is local[2]" in done.stdout, done.stderr[-2_000:]
