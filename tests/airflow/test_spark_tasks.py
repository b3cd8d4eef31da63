"""What a task does with its job: arguments, exit codes, secrets, alerts. spark-submit is a stand-in, the hook real."""

import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote
from uuid import UUID

import pytest
from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.sdk import Asset
from airflow.sdk.definitions.asset import AssetUniqueKey
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors
from jinja2 import Template

from sexton.airflow import alerts, assets, brokers, defaults, runs
from sexton.airflow import spark_tasks as tasks
from sexton.airflow.alerts import AlertOnFailure
from sexton.airflow.runs import run_folder
from sexton.airflow.spark_tasks import as_of_ms, spark_job
from sexton.lake.branch import RunKey
from sexton.settings import PROJECT_ROOT, Cluster, Settings

(PLAIN,) = Settings().every_cluster
RUN_ID = "manual__2026-11-21T06:00:00+00:00"
SUBMIT = """#!/usr/bin/env python3
import json, os, pathlib, sys
pathlib.Path({log!r}).write_text(json.dumps(sys.argv[1:]))
pathlib.Path({log!r} + ".opts").write_text(os.environ.get("SPARK_SUBMIT_OPTS", ""))
for argument in sys.argv:
    name, _, value = argument.partition("=")
    if name == "--client-config":
        file = pathlib.Path(value)
        pathlib.Path({log!r} + ".config").write_text(f"{{file.stat().st_mode & 0o777:o}}\\n" + file.read_text())
    if name == "--run-dir" and {outcome!r}:
        told = pathlib.Path(value) / "outcome" / {stage!r}
        told.parent.mkdir(parents=True, exist_ok=True)
        told.with_suffix(".json").write_text({outcome!r})
sys.exit({code})
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    config = Settings(home=tmp_path)
    for module in (tasks, alerts, runs):
        monkeypatch.setattr(module, "settings", lambda: config)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    return tmp_path


def submit_that(home, monkeypatch, code: int, *, stage: str = "find_expired", outcome: dict | None = None) -> Path:
    """Put a spark-submit first in the path that ends with `code` and leaves `outcome`; returns its notes.

    The program of publish_tables, which is not submitted, does the same.
    """
    log = home / "submitted.json"
    told = json.dumps(outcome) if outcome else ""
    program = home / "bin" / "spark-submit"
    program.parent.mkdir(exist_ok=True)
    program.write_text(SUBMIT.format(log=str(log), stage=stage, code=code, outcome=told))
    program.chmod(0o755)
    (home / "spark_jobs").mkdir(exist_ok=True)
    (home / "spark_jobs" / "publish_tables.py").write_text(program.read_text())
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return log


def dag_run(**fields):
    fallback = {"dag_id": "offset_retention", "run_id": RUN_ID, "data_interval_end": None}
    return SimpleNamespace(**{**fallback, "run_after": datetime(2026, 11, 21, 6, tzinfo=UTC), **fields})


def context_of(task, **params):
    run = dag_run()
    ti = SimpleNamespace(dag_id=run.dag_id, run_id=run.run_id, task_id=task.task_id, try_number=1)
    events = {asset: SimpleNamespace(extra={}) for asset in task.outlets}
    return {"dag_run": run, "params": params, "ti": ti, "task": task, "outlet_events": events}


def execute(stage: str, *, arguments: list[str] | None = None, cluster: Cluster = PLAIN, **options):
    task = spark_job(stage, cluster, **options)
    context = context_of(task)
    task.application_args = [f"--run-dir={run_folder('offset_retention', RUN_ID)}"] if arguments is None else arguments
    task.execute(context)
    return context


@pytest.mark.parametrize("code", [0, 5])
def test_what_a_job_wants_people_to_know_is_an_alert(home, monkeypatch, code: int) -> None:
    submit_that(home, monkeypatch, code, outcome={"exit_code": code, "alerts": ["the log ends at 5", "made anew"]})
    execute("find_expired")
    told = [json.loads(file.read_text()) for file in (home / "var" / "alerts").glob("*.json")]
    lines = sorted(alert["message"] for alert in told if "could not be read" not in alert["message"])
    assert lines == ["made anew", "the log ends at 5"]
    assert {alert["severity"] for alert in told} == {"warning"}


def test_findings_are_alerts_also_when_they_stop_the_run(home, monkeypatch) -> None:
    outcome = {"exit_code": 3, "error": "the archive has changed", "alerts": ["corrupt at a", "corrupt at b"]}
    submit_that(home, monkeypatch, 3, stage="expire_runs", outcome=outcome)
    task = spark_job("expire_runs", PLAIN)
    task.application_args = [f"--run-dir={run_folder('offset_retention', RUN_ID)}"]
    with pytest.raises(AirflowFailException, match="the archive has changed"):
        task.execute(context_of(task))
    told = [json.loads(file.read_text()) for file in (home / "var" / "alerts").glob("*.json")]
    assert sorted(alert["message"] for alert in told) == ["corrupt at a", "corrupt at b"]


@pytest.mark.parametrize("subset", ["", None])
@pytest.mark.parametrize("delete, passed", [(False, []), (True, ["--delete"])])
def test_a_step_is_told_what_it_may_remove(home, monkeypatch, delete: bool, passed: list[str], subset) -> None:
    log = submit_that(home, monkeypatch, 0)
    task = spark_job("expire_runs", PLAIN)
    params = SimpleNamespace(delete=delete, subset=subset)
    names = {"params": params, "now_ms": lambda *_: 5, "run_folder": lambda *_: "x", "dag": SimpleNamespace(dag_id="d")}
    task.application_args = [Template(text).render(**names) for text in task.application_args]
    task.execute(context_of(task))
    submitted = json.loads(log.read_text())
    at = submitted.index(str(home / "spark_jobs" / "expire_runs.py"))
    assert sorted(submitted[at + 1 :])[1:] == sorted([*passed, "--now=5", "--run-dir=x"])
    assert any(text.startswith("--archive=") for text in submitted)


def test_reconcile_talks_to_the_cluster_of_the_connection(home, monkeypatch) -> None:
    extra = {"bootstrap.servers": "a:1", "sasl.password": "secret"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    log = submit_that(home, monkeypatch, 0, stage="reconcile")
    task = spark_job("reconcile", PLAIN)
    task.execute(context_of(task))
    submitted = json.loads(log.read_text())
    assert "--bootstrap-servers=a:1" in submitted
    assert not any("secret" in argument for argument in submitted)


@pytest.mark.parametrize("outcome", [{}, {"alerts": None}, {"alerts": "text"}, {"alerts": []}])
def test_nothing_to_know(outcome: dict) -> None:
    assert tasks.alerts_of(outcome) == []


@pytest.mark.parametrize(
    "code, raises",
    [
        (0, None), (1, AirflowException), (2, AirflowFailException), (3, AirflowFailException),
        (4, AirflowSkipException), (5, None), (6, AirflowFailException), (137, AirflowException),
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["by spark-submit", "by the outcome file"])
def test_exit_codes(home, monkeypatch, code, raises, way) -> None:
    outcome = {"exit_code": code, "error": "the archive says no"} if way == "by the outcome file" else None
    submit_that(home, monkeypatch, min(code, 1) if outcome else code, outcome=outcome)
    if raises is None:
        execute("find_expired")
    else:
        with pytest.raises(raises) as caught:
            execute("find_expired")
        assert type(caught.value) is raises
        if outcome and code in (2, 3, 4, 6):
            assert "the archive says no" in str(caught.value)
    assert len(list((home / "var" / "alerts").glob("*.json"))) == (1 if code == 5 else 0)


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize(
    ("code", "raises"), [(0, None), (1, AirflowException), (4, AirflowSkipException), (6, AirflowFailException)]
)
def test_a_job_over_spark_connect(home, monkeypatch, code, raises, is_warm) -> None:
    """It is a Python process whose environment names the server; no argument has the token."""
    monkeypatch.setattr(tasks, "is_warm", lambda: is_warm)
    server = {"conn_type": "spark_connect", "host": "localhost", "port": 15002, "password": "tok en"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(server))
    job = home / "spark_jobs" / "find_expired.py"
    job.parent.mkdir()
    job.write_text(
        "import json, os, pathlib, sys\n"
        f"told = [os.environ['SPARK_REMOTE'], os.getcwd(), *sys.argv[1:]]\n"
        f"pathlib.Path({str(home)!r}, 'told.json').write_text(json.dumps(told))\n"
        f"sys.exit({code})\n"
    )
    if raises is None:
        execute("find_expired", arguments=["--policy=", "--run-dir=x"])
    else:
        with pytest.raises(raises) as caught:
            execute("find_expired", arguments=["--policy=", "--run-dir=x"])
        assert type(caught.value) is raises
    told = json.loads((home / "told.json").read_text())
    url, _, session = told[0].rpartition(";session_id=")
    assert (url, *told[1:]) == ("sc://localhost:15002/;token=tok%20en", str(Path.cwd()), "--run-dir=x")
    assert session == str(UUID(session)), "Spark takes no other"


def test_a_token_goes_without_tls_only_where_the_connection_says_so(monkeypatch) -> None:
    server = {"conn_type": "spark_connect", "host": "spark-connect", "port": 15002, "password": "tok en"}
    for extra, token in (({}, "token=tok%20en"), ({"use_ssl": False}, "authorization=Bearer%20tok%20en;use_ssl=False")):
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({**server, "extra": extra}))
        assert tasks._connect_url("spark_default") == f"sc://spark-connect:15002/;{token}"


@pytest.mark.parametrize("stage", ["verify", "audit_lag"])
def test_a_job_that_needs_no_spark_starts_none(home, monkeypatch, stage) -> None:
    """Whatever Spark's connection is; its modules import none."""
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "a:1"}}')
    submitted = submit_that(home, monkeypatch, 0)
    (home / "spark_jobs").mkdir(exist_ok=True)
    own = (PROJECT_ROOT / "spark_jobs" / f"{stage}.py").read_text("utf-8").partition("if __name__")[0]
    loaded = f"import sys\nopen({str(home / 'loaded')!r}, 'w').write(str('pyspark' in sys.modules))"
    (home / "spark_jobs" / f"{stage}.py").write_text(f"{own}\n{loaded}\n")
    execute(stage)
    assert (home / "loaded").read_text() == "False"
    assert not submitted.exists()


def test_a_publication_is_not_submitted(home, monkeypatch) -> None:
    """It needs a Spark only where main has moved, and then starts one itself."""
    notes = submit_that(home, monkeypatch, 0)
    (home / "bin" / "spark-submit").write_text("#!/bin/sh\nexit 9\n")
    execute("publish_tables", arguments=["--archive=", "--run-dir=x"])
    assert json.loads(notes.read_text()) == ["--run-dir=x"]


def test_a_killed_task_ends_its_job(home, monkeypatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark_connect", "host": "localhost"}))
    job = home / "spark_jobs" / "find_expired.py"
    job.parent.mkdir()
    job.write_text("import time\ntime.sleep(600)\n")
    task = spark_job("find_expired", PLAIN)
    task.application_args = ["--run-dir=x"]

    def kill() -> None:
        while task.process is None or task.process.sub_process is None:
            time.sleep(0.05)
        task.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(AirflowException, match="ended with -15"):
        task.execute(context_of(task))
    killer.join()


def test_an_earlier_outcome_does_not_speak_for_this_attempt(home, monkeypatch) -> None:
    submit_that(home, monkeypatch, 4)
    with pytest.raises(AirflowSkipException):
        execute("find_expired")
    told = Path(run_folder("offset_retention", RUN_ID)) / "outcome" / "find_expired.json"
    told.parent.mkdir(parents=True)
    told.write_text(json.dumps({"exit_code": 4, "error": "old"}))
    submit_that(home, monkeypatch, 1)
    with pytest.raises(AirflowException) as caught:
        execute("find_expired")
    assert type(caught.value) is AirflowException


def test_a_job_that_died_after_success_failed(home, monkeypatch) -> None:
    submit_that(home, monkeypatch, 137, outcome={"exit_code": 0})
    with pytest.raises(AirflowException):
        execute("find_expired")


def test_empty_options_are_not_passed(home, monkeypatch) -> None:
    log = submit_that(home, monkeypatch, 0)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dspark.cores.max=99")
    execute("replay_groups", arguments=["--as-of=5", "--retention-minutes=", "--run-dir=x"])
    submitted = json.loads(log.read_text())
    assert submitted[-3:] == [str(home / "spark_jobs" / "replay_groups.py"), "--as-of=5", "--run-dir=x"]
    assert submitted[submitted.index("--master") + 1] == "local[1]"
    assert (home / "submitted.json.opts").read_text() == f"{tasks.CLUSTER_DEFAULTS} -Dspark.cores.max=99"


@pytest.mark.parametrize("full, passed", [(False, []), (True, ["--full"])])
def test_a_full_replay_is_asked_for_by_a_flag(home, monkeypatch, full: bool, passed: list[str]) -> None:
    log = submit_that(home, monkeypatch, 0, stage="replay_groups")
    template = next(text for text in tasks.arguments_of("replay_groups", PLAIN) if "full" in text)
    rendered = Template(template).render(params=SimpleNamespace(full=full))
    execute("replay_groups", arguments=["--as-of=5", rendered, "--run-dir=x"])
    submitted = json.loads(log.read_text())
    assert submitted[-2 - len(passed) :] == ["--as-of=5", *passed, "--run-dir=x"]


@pytest.mark.parametrize(
    ("setting", "param", "expected"),
    [
        ("", "", ""),
        ("/etc/sexton/rules.yaml", "", "/etc/sexton/rules.yaml"),
        ("/etc/sexton/rules.yaml", "strict.yaml", "/etc/sexton/strict.yaml"),
        ("rules.yaml", "strict.yaml", "strict.yaml"),
    ],
)
def test_policy(home, monkeypatch, setting: str, param: str, expected: str) -> None:
    assert tasks.policy_file(setting, {"policy": param}) == expected
    log = submit_that(home, monkeypatch, 0)
    (template,) = tasks.arguments_of("find_expired", PLAIN)
    cluster = PLAIN.model_copy(update={"policy": setting})
    rendered = Template(template).render(params={"policy": param}, **tasks.macros(cluster))
    execute("find_expired", arguments=[rendered, "--run-dir=x"])
    passed = [f"--policy={expected}"] if expected else []
    assert json.loads(log.read_text())[-1 - len(passed) :] == [*passed, "--run-dir=x"]


def test_a_policy_beside_none_fails_for_good() -> None:
    with pytest.raises(AirflowFailException, match="SEXTON_POLICY, whose folder is used, is not set"):
        tasks.policy_file("", {"policy": "strict.yaml"})


def test_no_coverage_skips_and_says_why(home, monkeypatch) -> None:
    outcome = {"exit_code": 4, "error": "archive: no coverage for 5 ms: the log was truncated"}
    submit_that(home, monkeypatch, 1, stage="replay_groups", outcome=outcome)
    with pytest.raises(AirflowSkipException, match="no coverage: archive: no coverage for 5 ms: the log was truncated"):
        execute("replay_groups")
    assert not (home / "var" / "alerts").exists()


def test_secrets_go_by_a_private_file(home, monkeypatch) -> None:
    extra = {"bootstrap.servers": "a:1,b:2", "sasl.password": "p=:#\\ss\n", "check.crcs": True, "client.id": "x"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    log = submit_that(home, monkeypatch, 0, stage="snapshot_log")
    execute("snapshot_log")
    submitted = json.loads(log.read_text())
    assert "--bootstrap-servers=a:1,b:2" in submitted
    assert not any("p=" in argument for argument in submitted)
    mode, *lines = Path(f"{log}.config").read_text().splitlines()
    assert mode == "600"
    assert lines == ["check.crcs=true", "client.id=x", r"sasl.password=p\=\:#\\ss\n"]
    (file,) = [argument.partition("=")[2] for argument in submitted if argument.startswith("--client-config=")]
    assert not Path(file).exists()


def test_the_private_file_goes_also_when_the_job_fails(home, monkeypatch) -> None:
    seen = []

    def fail() -> None:
        with brokers.config_file({"sasl.password": "x"}) as file:
            seen.append((file, stat.S_IMODE(file.stat().st_mode)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    ((file, mode),) = seen
    assert mode == 0o600
    assert not file.exists()


@pytest.mark.parametrize("connection", [None, {"conn_type": "kafka"}], ids=["missing", "without address"])
def test_no_cluster_is_guessed(home, monkeypatch, connection) -> None:
    if connection:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    log = submit_that(home, monkeypatch, 0, stage="snapshot_log")
    with pytest.raises(AirflowFailException, match="kafka_default"):
        execute("snapshot_log")
    assert not log.exists()


def test_assets_say_which_instant(home, monkeypatch) -> None:
    run = {"cluster_id": "c-1", "as_of_ms": 1795240800000, "plan_id": "p", "counts": {"groups": 2}, "tables": 13}
    submit_that(home, monkeypatch, 0, stage="publish_tables", outcome={"stage": "x", "exit_code": 0, **run})
    asset = Asset(name="sexton.groups", uri="file:///w/groups")
    context = execute("publish_tables", outlets=[asset])
    folder = run_folder("offset_retention", RUN_ID)
    about = {name: run[name] for name in ("cluster_id", "as_of_ms", "plan_id", "counts")}
    assert context["outlet_events"][asset].extra == {**about, "run_folder": folder}


@pytest.mark.parametrize("due", [["audit_lag"], ["audit_lag", "audit_transactions"], []])
def test_the_audits_that_are_due_get_an_asset_event(home, monkeypatch, due: list[str]) -> None:
    """As their DAGs wait for it: an alias that is given none updates nothing."""
    cluster = PLAIN.model_copy(update={"name": "eu", "is_first": False})
    submit_that(home, monkeypatch, 0, stage="publish_tables", outcome={"exit_code": 0, "due": due})
    task = spark_job("publish_tables", cluster, outlets=assets.due_audits(cluster))
    context = context_of(task)
    task.application_args = [f"--run-dir={run_folder('offset_retention', RUN_ID)}"]
    context["outlet_events"] = OutletEventAccessors()
    task.execute(context)
    events = [event for alias in task.outlets for event in context["outlet_events"][alias].asset_alias_events]
    waited_for = [defaults.audit_schedule("published", cluster, name)[0] for name in due]
    assert [event.dest_asset_key for event in events] == [AssetUniqueKey.from_asset(asset) for asset in waited_for]
    assert all(event.extra["run_folder"] for event in events)


def test_what_a_job_tells_is_its_xcom_and_leads_to_the_dashboard(home, monkeypatch) -> None:
    run = {"cluster_id": "c/1", "as_of_ms": 5, "lake": "here"}
    untold = {"stage": "x", "exit_code": 0, "warnings": ["group 'billing' is in several log partitions"]}
    submit_that(home, monkeypatch, 0, stage="publish_tables", outcome={**untold, **run})
    task = spark_job("publish_tables", PLAIN)
    link = links_of(task)["Dashboard"]
    assert link.get_link(task, ti_key=None) == ""
    task.application_args = [f"--run-dir={run_folder('offset_retention', RUN_ID)}"]
    assert task.execute(context_of(task)) == run
    assert link.get_link(task, ti_key=None).endswith("/sexton/?cluster=c%2F1&as_of=5")


def links_of(task) -> dict:
    return {link.name: link for link in task.operator_extra_links}


def test_the_task_that_checks_leads_to_what_it_wrote(home) -> None:
    """Each once it is there, whatever became of the task."""
    task, run = spark_job("validate_tables", PLAIN), "scheduled__2026-11-21T06:00:00+00:00"
    key = TaskInstanceKey("offset_retention", task.task_id, run)
    written = {"Data Docs": ("dq/index.html", "data-docs/"), "Report": ("report.html", "report.html")}
    for name, (file, page) in written.items():
        link = links_of(task)[name]
        assert link.get_link(task, ti_key=key) == ""
        path = Path(run_folder("offset_retention", run), file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        url = f"/sexton/runs/offset_retention/scheduled__2026-11-21T06%3A00%3A00%2B00%3A00/{page}"
        assert link.get_link(task, ti_key=key).endswith(url)


def test_tasks_of_spark_lead_to_its_pages(home, monkeypatch) -> None:
    stages = [spark_job(name, PLAIN) for name in ("replay_groups", "validate_tables", "publish_tables", "verify")]
    told = [links_of(task)["Spark UI"].get_link(task, ti_key=None) for task in stages]
    assert told == [""] * 4, "nobody said where they are"
    config = Settings(spark_ui="http://spark.example:4040")
    monkeypatch.setattr(tasks, "settings", lambda: config)
    told = [links_of(task)["Spark UI"].get_link(task, ti_key=None) for task in stages]
    assert told == ["http://spark.example:4040"] * 3 + [""]


@pytest.mark.parametrize(
    "params, fields, expected",
    [
        ({"as_of": "1795228111458"}, {}, 1795228111458),
        ({"as_of": "2026-11-21T06:00:00.123Z"}, {}, 1795240800123),
        ({"as_of": "2026-11-21t06:00:00z"}, {}, 1795240800000),
        ({"as_of": "2026-11-21 08:00:00+02:00"}, {}, 1795240800000),
        ({"as_of": "2026-11-21T06:00"}, {}, 1795240800000),
        ({"as_of": ""}, {"data_interval_end": datetime(2026, 11, 21, 5, tzinfo=UTC)}, 1795237200000),
        ({"as_of": None}, {}, 1795240800000),
        ({}, {}, 1795240800000),
    ],
)
def test_as_of(params, fields, expected) -> None:
    assert as_of_ms(dag_run(**fields), params) == expected


@pytest.mark.parametrize(
    "task_id", ["verify", "expire_runs", "reconcile", "audit_replicas", "audit_transactions", "audit_lag"]
)
def test_a_task_of_the_present_is_of_when_it_was_triggered(task_id: str) -> None:
    """A manual run has the interval before: with a weekly schedule it knew no run that was published since Sunday."""
    (now,) = (text for text in tasks.arguments_of(task_id, PLAIN) if text.startswith("--now="))
    run = dag_run(data_interval_end=datetime(2026, 11, 15, tzinfo=UTC))
    assert Template(now).render(**tasks.macros(PLAIN), dag_run=run, params={}) == "--now=1795240800000"


INTERVAL = {
    "data_interval_start": datetime(2026, 11, 21, 5, tzinfo=UTC),
    "data_interval_end": datetime(2026, 11, 21, 6, tzinfo=UTC),
}


@pytest.mark.parametrize(
    "params, fields, expected",
    [
        ({}, INTERVAL, 1795237200000),
        ({"as_of": "2026-11-21T06:00Z"}, INTERVAL, 1795237200000),
        ({"as_of": None, "since": None}, INTERVAL, 1795237200000),
        ({"as_of": "", "since": ""}, INTERVAL, 1795237200000),
        ({"as_of": "2026-11-21T05:30Z"}, INTERVAL, ""),
        ({"as_of": "2026-11-21T05:30Z", "since": "1795228111458"}, INTERVAL, 1795228111458),
        ({"since": "2026-11-21T05:00"}, {}, 1795237200000),
        ({}, {}, ""),
        ({}, {**INTERVAL, "data_interval_start": INTERVAL["data_interval_end"]}, ""),
    ],
)
def test_since(params, fields, expected) -> None:
    assert tasks.since_ms(dag_run(**fields), params) == expected


def test_an_as_of_that_is_none_fails_for_good() -> None:
    with pytest.raises(AirflowFailException, match="yesterday"):
        as_of_ms(dag_run(), {"as_of": "yesterday"})


def test_run_folders_have_tame_names(home) -> None:
    folder = Path(run_folder("offset_retention", "manual__2026/../x y"))
    assert folder.parent == home / "var" / "runs" / "offset_retention"
    assert re.fullmatch(r"manual__2026_.._x_y-[0-9a-f]{64}", folder.name)


def test_no_run_has_the_folder_of_another(home) -> None:
    named = run_folder("d", "a:b")
    alike = [f"manual__2026-11-21T06:00:00+00:00_{'x' * 66}{number}" for number in (8343034, 18968187)]
    assert len({sha256(run_id.encode()).hexdigest()[:12] for run_id in alike}) == 1  # found in a minute
    ids = [*alike, "a:b", "a+b", "a_b", "A_b", "a_B", ".", "..", "...", "", "x" * 101, "x" * 102, Path(named).name]
    folders = [Path(run_folder("d", run_id)) for run_id in ids]
    assert len({str(folder).lower() for folder in folders}) == len(ids)  # some disks take A for a
    assert {folder.parent for folder in folders} == {home / "var" / "runs" / "d"}
    assert not {folder.name for folder in folders} & {".", ".."}
    assert Path(run_folder("d", "manual__1")).name == "manual__1"


def test_no_run_has_the_branch_of_another() -> None:
    """Run ids are chosen by whoever may trigger: two whose hashes begin alike are found in a moment."""
    keys = [RunKey(cluster_id="c", as_of_ms=1, run_id=f"manual__{'x' * 80}{number}") for number in range(200_000)]
    branches = {key.branch for key in keys}
    assert len(branches) == len(keys)
    assert len({branch[:-56] for branch in branches}) < len(keys)  # of 32 bits of the hash two are the same


def test_alert_of_a_failure(home, caplog) -> None:
    task = spark_job("find_expired", PLAIN)
    AlertOnFailure().notify({**context_of(task), "exception": ValueError("first line\nsecond")})
    (file,) = (home / "var" / "alerts").glob("*.json")
    alert = json.loads(file.read_text())
    assert alert["severity"] == "error"
    assert (alert["dag_id"], alert["task_id"]) == ("offset_retention", "find_expired")
    assert alert["message"] == "first line\nsecond"
    assert "first line" in caplog.text
    assert "second" not in caplog.text


def test_an_alert_that_cannot_be_kept_is_still_told(home, caplog) -> None:
    (home / "var").write_text("not a folder")
    assert (
        alerts.raise_alert(context_of(spark_job("find_expired", PLAIN)), severity="warning", message="careful") is None
    )
    assert "careful" in caplog.text


@pytest.mark.parametrize("secret", ["kept+secret", "se/cr@et-key", "kept%2Fsecret"])
def test_a_login_in_the_uri_of_the_archive_is_no_argument_of_a_job(home, monkeypatch, secret) -> None:
    told, shown = f"s3://key-id:{secret}@bucket/archive", "--archive=s3://***@bucket/archive"
    config, masked = Settings(home=home, archive=told), []
    monkeypatch.setattr(tasks, "settings", lambda: config)
    monkeypatch.setattr(tasks, "mask_secret", masked.append)
    log = submit_that(home, monkeypatch, 0)
    execute("publish_tables", arguments=[shown, f"--run-dir={run_folder('offset_retention', RUN_ID)}"])
    assert shown in json.loads(log.read_text())
    assert {"key-id", secret, unquote(secret)} <= set(masked)


def test_what_airflow_keeps_of_a_task_has_no_login(home) -> None:
    variables = {**os.environ, "SEXTON_ARCHIVE": "s3://key-id:ke/pt@secret@bucket/archive", "SEXTON_HOME": str(home)}
    code = (
        "from sexton.airflow.spark_tasks import spark_job, STAGES;"
        "from sexton.settings import settings;"
        "(one,) = settings().every_cluster;"
        "print([spark_job(name, one).application_args for name in (*STAGES, 'expire_runs')])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.count("s3://***@bucket/archive") == 4
    assert "ke/pt" not in done.stdout
