"""Makes a JAVA_HOME to use instead of the configured one: its `bin/java` starts Kafka and Spark with archived classes.

    python -m sexton_dev.java_home      makes it; `make install` runs this

With class data sharing (CDS) a broker starts with half of the processor time, and so does a Spark session. Java checks
that an archive fits: if Java or a jar has changed since, it loads the classes one by one, as without an archive.
"""

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sexton.java import JavaHome, find_java
from sexton.kafka import jars
from sexton.runs.spark_session import QUICK_JVM_OPTIONS, spark_environment
from sexton.settings import environment, settings, variable
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".cache" / "java-with-archives"
MADE_FROM = HOME / "made-from.json"
WRAPPER = """\
#!/bin/sh
case " $* " in
  *" kafka.Kafka "* | *" kafka.tools.StorageTool "*) archive={home}/kafka.jsa ;;
  *" org.apache.spark.deploy.SparkSubmit "* | *" org.apache.spark.deploy.master.Master "* | \
  *" org.apache.spark.deploy.worker.Worker "* | *" org.apache.spark.executor.CoarseGrainedExecutorBackend "*)
    archive={home}/spark.jsa
    for word; do
      shift
      case "$word" in
        "${{SPARK_CONF_DIR:-?}}":* | "${{SPARK_CONF_DIR:-?}}"/:*) word="${{word#*:}}:$SPARK_CONF_DIR/" ;;
      esac
      set -- "$@" "$word"
    done ;;
  *) exec {java} "$@" ;;
esac
[ -f "$archive" ] || exec {java} "$@"
exec {java} -XX:SharedArchiveFile="$archive" -Xshare:auto -Xlog:disable "$@"
"""
"""An archive fits if the class path begins as it did when the archive was made: SPARK_CONF_DIR is moved to the end."""
SPARK_WORK = """
import sys
from sexton.runs.engine import Engine

with Engine(quiet=True) as engine:
    rows = engine.session.createDataFrame([(number, str(number)) for number in range(100)], "a long, b string")
    rows.repartition(4, "a").write.parquet(sys.argv[1])
    read = engine.session.read.parquet(sys.argv[1])
    read.createOrReplaceTempView("read")
    engine.session.sql("SELECT b, count(*) AS n FROM read GROUP BY b ORDER BY n").toArrow()
    read.mapInArrow(lambda batches: batches, "a long, b string").collect()
"""
TIMEOUT_S = 300


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variable JAVA_HOME that names HOME; empty if HOME was made for another JAVA_HOME than `environment`'s."""
    if not MADE_FROM.is_file() or json.loads(MADE_FROM.read_text("utf-8"))[0] != environment.get("JAVA_HOME", ""):
        return {}
    return {"JAVA_HOME": str(HOME)}


def make() -> None:
    """Create the JAVA_HOME, unless it exists and was made from the same Java and the same jars."""
    given = variable("JAVA_HOME") or ""
    java = find_java(settings().cache, given, variable("PATH"))
    kafka = jars.ensure(settings().cache, "kafka")
    made_from = json.dumps([given, str(java.home), sys.executable, WRAPPER, SPARK_WORK, *map(str, kafka)])
    if MADE_FROM.is_file() and MADE_FROM.read_text("utf-8") == made_from:
        return
    HOME.mkdir(parents=True, exist_ok=True)
    MADE_FROM.unlink(missing_ok=True)
    _archive_kafka(java, kafka)
    _archive_spark(java)
    program = HOME / "bin" / "java"
    program.parent.mkdir(exist_ok=True)
    program.write_text(WRAPPER.format(home=shlex.quote(str(HOME)), java=shlex.quote(str(java.java))), "utf-8")
    program.chmod(0o755)
    if (release := java.home / "release").is_file():
        (HOME / "release").write_bytes(release.read_bytes())
    MADE_FROM.write_text(made_from, "utf-8")


def _archive_kafka(java: JavaHome, kafka: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = (f"-XX:ArchiveClassesAtExit={_new(HOME / 'kafka.jsa')}",)
        with EmbeddedBroker(Path(folder), port=free_port(), java=java, jars=kafka, jvm_options=options):
            pass


def _archive_spark(java: JavaHome) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "work.py"
        script.write_text(SPARK_WORK, "utf-8")
        options = f"{QUICK_JVM_OPTIONS} -XX:ArchiveClassesAtExit={_new(HOME / 'spark.jsa')}"
        given = environment(**{**spark_environment(), "JAVA_HOME": str(java.home), "SPARK_SUBMIT_OPTS": options})
        submit = Path(sys.executable).parent / "spark-submit"
        command = [str(submit), "--master", "local[2]", str(script), str(Path(folder) / "rows")]
        subprocess.run(command, env=given, capture_output=True, timeout=TIMEOUT_S, check=True)


def _new(archive: Path) -> Path:
    archive.unlink(missing_ok=True)
    return archive


if __name__ == "__main__":
    make()
