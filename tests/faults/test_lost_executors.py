"""An executor that is killed in the middle of a stage changes nothing: Spark does its tasks again, elsewhere.

The stages run on a standalone cluster of two executors, the log in tasks of one segment, so that partial folds go from
task to task. The first task of a stage that reads or writes a file of the run kills the JVM of its executor, as a node
that goes does, with the partial folds that it has made.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from sexton.runs.folder import RunFolder
from sexton.settings import environment
from sexton.tables import SNAPSHOT_TABLES
from tests.archived import Archive
from tests.plans.plan_runs import archive_of_commits

JOB = """
import os, sys
from pathlib import Path
import psutil
import pytest
from sexton.lake.catalog import open_lake
from sexton.lake.read import published_runs, read_published
from sexton.pipeline import find_expired, plan_tombstones, publish_tables, replay_groups, validate_tables
from sexton.job_params import ReplayRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from tests.lake_session import check_by_duckdb
from tests.pipeline.archive_runs import LATER_MS, SETTLE_MS, instant

root, archive, kills = sys.argv[1], sys.argv[2], sys.argv[3] == "kills"

class Folder(RunFolder):
    stage = "none"

    def sub(self, *names):
        found = Folder(self._root, *self._names, *names)
        found.stage = self.stage
        return found

    def open(self, *names):
        self.once()
        return super().open(*names)

    def read(self, *names):
        self.once()
        return super().read(*names)

    def write(self, data, *names, **options):
        self.once()
        super().write(data, *names, **options)

    def once(self):
        for parent in psutil.Process().parents():
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in parent.cmdline():
                try:
                    os.close(os.open(f"{self._root}.{self.stage}.killed", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return
                parent.kill()

check_by_duckdb(pytest.MonkeyPatch())
asked = ReplayRequest(
    run_id="r", archive=archive, as_of_ms=instant(3), taken_at_ms=LATER_MS, settle_ms=SETTLE_MS, retention_minutes=1
)
with Engine(iceberg=True, quiet=True) as engine:
    for stage, run in (
        ("replay", lambda folder: replay_groups.run(engine, folder, asked)),
        ("judge", lambda folder: find_expired.run(engine, folder)),
        ("plan", lambda folder: plan_tombstones.run(engine, folder)),
        ("validate", lambda folder: validate_tables.run(engine, folder)),
        ("publish", lambda folder: publish_tables.run(engine, folder)),
    ):
        folder = (Folder if kills else RunFolder)(root)
        folder.stage = stage
        run(folder)
        print(stage, "done", flush=True)
(run,) = published_runs(open_lake())
print({name: read_published(open_lake(), run, name).num_rows for name in ("groups", "committed_offsets", "tombstones")})
"""


def ran(home: Path, archive: Archive, *, kills: bool) -> RunFolder:
    """A run of all stages: on two executors of which one is killed in each stage, or on threads of one process."""
    master = "local-cluster[2,1,1024]" if kills else "local[2]"
    given = environment(SEXTON_HOME=str(home), SEXTON_SPARK_MASTER=master, SEXTON_FOLD_TASK_BYTES="1")
    words = [sys.executable, "-c", JOB, str(home / "run"), archive.root, "kills" if kills else "lets live"]
    done = subprocess.run(words, env=given, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    (home / "published").write_text(done.stdout.splitlines()[-1])
    return RunFolder(home / "run")


STAGES = ("replay", "judge", "plan", "validate")
"""Publishing only moves what the lake has: it has no tasks that touch the run's files."""


@pytest.mark.full
@pytest.mark.usefixtures("needs_spark")
@pytest.mark.timeout(1_700)
def test_the_run_is_the_same(tmp_path: Path) -> None:
    whole, killed = (
        ran(tmp_path / name, archive_of_commits(tmp_path / name / "archive"), kills=name == "killed")
        for name in ("whole", "killed")
    )
    assert all((tmp_path / "killed" / f"run.{stage}.killed").exists() for stage in STAGES)
    assert killed.read_run().model_copy(update={"source": whole.read_run().source}) == whole.read_run()
    tables = [table.name for table in SNAPSHOT_TABLES if table.name != "dq_results"]
    files = [name for name in whole.files() if name.split("/")[0] in (*tables, "fold", "plan", "batches")]
    assert len(files) > len(tables)
    assert {name: killed.read(name) for name in files} == {name: whole.read(name) for name in files}
    told = [(tmp_path / name / "published").read_text() for name in ("whole", "killed")]
    assert told[0] == told[1] != ""
