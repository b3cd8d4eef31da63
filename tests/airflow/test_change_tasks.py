"""The tasks of the DAGs that change a cluster: what they ask, check and run. `sexton` is a stand-in."""

import json
import logging
import shutil
import signal
import stat
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from uuid import NAMESPACE_URL, uuid5

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskAwaitingInput
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

from sexton.airflow import alerts, approval, brokers, change_tasks, commands, consent, runs
from sexton.airflow.alerts import AlertOnFailure
from sexton.airflow.approval import Approval
from sexton.airflow.change_tasks import ApplyPlan, ApplyRestore, NotifyOutcome, PreviewPlan, PreviewRestore
from sexton.airflow.commands import Command, CommandFailed, CommandRefused, printable
from sexton.report.approval_page import PLAN_QUESTIONS, RESTORE_QUESTION
from sexton.settings import Settings

PLAN_ID, PLAN_SHA256, RESTORE_ID = "a" * 64, "b" * 64, "c" * 64
RUN_ID = "manual__2026-11-21T06:00:00+00:00"
SECRET = "s3cr3t-canary"
(PLAIN,) = Settings().every_cluster
READER = {"bootstrap.servers": "r:1", "sasl.password": f"reader-{SECRET}"}
APPLIER = {"bootstrap.servers": "w:1", "sasl.password": f"applier-{SECRET}"}
HOSTILE = "<script>x</script> {{ 7*7 }} `b` [c](http://d)"
SHOWN = {"kind": "plan", "cluster_id": "west", "id": PLAN_ID, "sha256": PLAN_SHA256, "counts": {"tombstones": 3},
         "over_limits": [],
         "lead": "Beyond the broker by 3 offsets.", "what_if": None,
         "questions": {**PLAN_QUESTIONS, "restore": RESTORE_QUESTION}}  # fmt: skip
STAND_IN = """#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
name, arguments = sys.argv[1], sys.argv[2:]
said = json.loads((here / "says.json").read_text()).get(name, {})
note = {"argv": sys.argv[1:], "environment": dict(os.environ), "config": None}
for argument in arguments:
    option, _, value = argument.partition("=")
    if option == "--client-config":
        note["config"] = pathlib.Path(value).read_text()
        note["mode"] = oct(os.stat(value).st_mode & 0o777)
        note["file"] = value
with (here / "ran.jsonl").open("a") as file:
    file.write(json.dumps(note) + "\\n")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(17))
print(said.get("stderr", ""), file=sys.stderr, flush=True)
time.sleep(said.get("sleep", 0))
print(json.dumps(said.get("answer", {})))
sys.exit(said.get("code", 0))
"""


class Questions:
    """Airflow's record of what tasks ask: it keeps the first question of a run, and answers with it ever after."""

    def __init__(self) -> None:
        self.asked: list[CreateHITLDetailPayload] = []
        self.shown: dict[str, CreateHITLDetailPayload] = {}

    def send(self, asked: object) -> CreateHITLDetailPayload | None:
        if not isinstance(asked, CreateHITLDetailPayload):
            return None  # Airflow's masker is told of secrets
        self.asked.append(asked)
        return self.shown.setdefault(str(asked.ti_id), asked)


class World:
    """A deployment: its settings, its connections, and a `sexton` that says what it is told to say."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.monkeypatch = home, monkeypatch
        self.program = home / "bin" / "sexton"
        self.program.parent.mkdir()
        self.program.write_text(STAND_IN)
        self.program.chmod(0o755)
        monkeypatch.setattr(commands, "program", lambda _: str(self.program))
        monkeypatch.setattr(change_tasks, "RECORD_PATIENCE_S", 0)
        self.use()
        for name, extra in (("KAFKA_DEFAULT", READER), ("KAFKA_APPLIER", APPLIER)):
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps({"conn_type": "kafka", "extra": extra}))
        self.run_id = RUN_ID
        self.said: dict[str, dict] = {}
        self.xcoms: dict[str, object] = {}
        self.skipped: list[str] = []
        self.questions = Questions()
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", self.questions, raising=False)
        self.says(
            show={"answer": {**SHOWN, "body": f"`{PLAN_ID}` and groups"}},
            apply={"answer": {"counts": {"done": 3}}},
            restore={"answer": {"restore_id": RESTORE_ID, "counts": {"done": 2}}},
        )

    def use(self, **fields) -> None:
        config = Settings(home=self.home, **fields)
        for module in (change_tasks, alerts, approval, runs):
            self.monkeypatch.setattr(module, "settings", lambda: config)

    def says(self, **said) -> None:
        self.said |= said
        (self.program.parent / "says.json").write_text(json.dumps(self.said))

    @property
    def ran(self) -> list[dict]:
        file = self.program.parent / "ran.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def alerts(self) -> list[dict]:
        return [json.loads(file.read_text()) for file in sorted((self.home / "var" / "alerts").glob("*.json"))]

    @property
    def asked(self) -> list[dict]:
        return [each.model_dump() for each in self.questions.asked]

    def context(self, task, **params) -> dict:
        run = SimpleNamespace(dag_id="apply_tombstones", run_id=self.run_id, triggering_user_name="ann")
        ti = SimpleNamespace(
            id=uuid5(NAMESPACE_URL, self.run_id), dag_id=run.dag_id, run_id=run.run_id, task_id=task.task_id,
            try_number=1, xcom_pull=lambda task_ids: self.xcoms.get(task_ids),
        )  # fmt: skip
        given = {"plan_id": PLAN_ID, "sink": "coordinator", "allow_log_sink": False, **NO_SELECTION, **params}
        return {"dag_run": run, "params": given, "ti": ti, "task_instance": ti, "task": task}

    def run(self, task, **params):
        return task.execute(self.context(task, **params))

    def preview(self, **params):
        return self.run(PreviewPlan(task_id="preview", cluster=PLAIN), **params)

    def approved(self) -> None:
        """Show the plan, ask, and answer with yes."""
        self.preview()
        self.answer()

    def apply(self, **params):
        return self.run(ApplyPlan(task_id="apply", cluster=PLAIN), **params)

    def refuses_to_apply(self, why: str, **params) -> None:
        with pytest.raises(CommandRefused, match=why):
            self.apply(**params)

    @property
    def folder(self) -> consent.ApprovalFolder:
        return approval.approval_folder_of(self.context(PreviewPlan(task_id="preview", cluster=PLAIN)))

    def triggered(self, how: str | None) -> None:
        """As the scheduler notes it, or does not."""
        folder = self.folder
        folder.remove(consent.Trigger)
        if how is not None:
            folder.write(consent.Trigger(**folder.run, triggered_through=how))

    def answer(self, *, chosen: str = "Approve", user: str = "bea", at: datetime | None = None, **params) -> None:
        """Ask as the DAG does, and answer."""
        waiting = self.ask(**params)
        self.resume(waiting, chosen=chosen, user=user, at=at, **params)

    def ask(self, **params) -> TaskAwaitingInput:
        """Ask as the DAG does; what Airflow keeps of the waiting task."""
        with pytest.raises(TaskAwaitingInput) as waiting:
            self.run(Approval(task_id="approve"), **params)
        return waiting.value

    def resume(self, waiting: TaskAwaitingInput, *, chosen="Approve", user="bea", at=None, **params) -> None:
        """As Airflow does when somebody has answered."""
        event = {
            "chosen_options": [chosen],
            "params_input": {},
            "responded_at": at or datetime.now(UTC),
            "responded_by_user": {"id": user, "name": user},
        }
        task = Approval(task_id="approve")
        self.xcoms["approve"] = None  # Airflow clears it when the task starts again
        go_on = getattr(task, waiting.method_name)
        self.xcoms["approve"] = go_on(self.context(task, **params), event=event, **waiting.kwargs)


NO_SELECTION = {
    "from_ledger": "", "from_plan": "", "as_of": "", "groups": [], "pattern": "", "topics": [], "clamp": False,
    "overwrite": False,
}  # fmt: skip


@pytest.fixture
def world(tmp_path, monkeypatch) -> World:
    return World(tmp_path, monkeypatch)


def test_shown_approved_applied(world) -> None:
    world.approved()
    assert world.apply() == {"done": 3}
    show, show_again, apply = (each["argv"] for each in world.ran)
    assert show == show_again == ["show", "plan", PLAN_ID, "--json"]
    assert apply[:3] == ["apply", PLAN_ID, f"--plan-sha256={PLAN_SHA256}"]  # what was shown, and nothing else
    assert apply[3:7] == ["--sink=coordinator", "--approved-by=bea", "--json", "--bootstrap-servers=w:1"]
    (asked,) = world.asked
    assert asked["body"].startswith("**Beyond the broker by 3 offsets.**\n\nApproving deletes")
    assert asked["body"].endswith(f"`{PLAN_ID}` and groups")
    assert asked["subject"] == "Delete what plan aaaaaaaaaaaa names?"
    assert asked["defaults"] is None
    assert asked["options"] == ["Approve", "Reject"]
    assert world.ask().timeout == timedelta(hours=24)


def test_the_applier_acts_and_the_reader_does_not(world) -> None:
    world.approved()
    world.apply()
    *before, apply = world.ran
    assert all(each["config"] is None for each in before)
    assert apply["config"] == f"sasl.password=applier-{SECRET}\n"
    assert apply["mode"] == "0o600"
    assert not Path(apply["file"]).exists()
    assert not any(SECRET in argument for each in world.ran for argument in each["argv"])


def test_a_child_gets_nothing_of_airflows_environment(world, monkeypatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", SECRET)
    monkeypatch.setenv("SEXTON_SETTLE_MS", "5")
    world.preview()
    (show,) = world.ran
    assert not any(name.startswith("AIRFLOW_") for name in show["environment"])
    assert SECRET not in json.dumps(show["environment"])
    assert show["environment"]["SEXTON_SETTLE_MS"] == "5"


def test_secrets_reach_no_log(world, monkeypatch, caplog) -> None:
    """Airflow's masker is told all of them, also those that it would not know by their names."""
    masked = []
    monkeypatch.setattr(brokers, "mask_secret", masked.append)
    jaas = f'org.apache.kafka.Scram required username="u" password="in-{SECRET}";'
    extra = {**APPLIER, "sasl.jaas.config": jaas, "ssl.key.pem": f"pem-{SECRET}", "ssl.ca.location": "/etc/ca.pem"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_APPLIER", json.dumps({"conn_type": "kafka", "extra": extra}))
    caplog.set_level(logging.DEBUG)
    world.approved()
    world.apply()
    assert {f"applier-{SECRET}", jaas, f"in-{SECRET}", f"pem-{SECRET}"} <= set(masked)
    assert "/etc/ca.pem" not in masked
    assert SECRET not in caplog.text
    assert SECRET not in json.dumps(world.asked, default=str) + json.dumps(world.xcoms, default=str)


def test_without_an_applier_nothing_is_done(world, monkeypatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_APPLIER")
    world.approved()
    with pytest.raises(AirflowFailException, match="kafka_applier"):
        world.apply()
    assert {each["argv"][0] for each in world.ran} == {"show"}


def test_a_dry_run_asks_nobody_and_reads_only(world, monkeypatch) -> None:
    task = PreviewPlan(task_id="preview", cluster=PLAIN)
    skipped = []
    monkeypatch.setattr(task, "skip", lambda **told: skipped.append(told["tasks"]), raising=False)
    monkeypatch.setattr(task, "get_flat_relatives", lambda **_: ["approve", "apply", "notify"], raising=False)
    world.run(task, sink="dry_run")
    assert skipped == [["approve", "apply", "notify"]]
    assert world.ran[-1]["argv"][:3] == ["apply", PLAN_ID, "--sink=dry_run"]
    assert world.ran[-1]["config"] == f"sasl.password=reader-{SECRET}\n"
    assert world.folder.read(consent.Request) is None


@pytest.mark.parametrize(
    ("setting", "param", "is_allowed"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_the_log_sink_is_asked_for_twice(world, setting, param, is_allowed) -> None:
    world.use(allow_log_sink=setting)
    params = {"sink": "log", "allow_log_sink": param}
    if not is_allowed:
        with pytest.raises(CommandRefused, match="SEXTON_ALLOW_LOG_SINK"):
            world.preview(**params)
        return
    world.preview(**params)
    world.answer(**params)
    world.apply(**params)
    assert world.ran[-1]["argv"][3:5] == ["--sink=log", "--allow-log-sink"]
    assert "go on answering from memory" in world.asked[0]["body"]


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ({"over_limits": [f"too many in {HOSTILE}"]}, "never applied"),
        (
            {"what_if": "It is a what-if."},
            "the plan was made with another retention than the broker's: it is never applied",
        ),
    ],
)
def test_what_is_never_applied_is_not_even_asked_for(world, shown, told) -> None:
    world.says(show={"answer": {**SHOWN, **shown, "body": "x"}})
    with pytest.raises(CommandRefused, match=told):
        world.preview()
    with pytest.raises(CommandRefused, match="nothing to approve"):
        world.answer()
    if "what_if" in shown:
        world.preview(sink="dry_run")  # looking is allowed


def test_the_first_line_that_is_read_says_by_how_much_it_goes_beyond_the_broker(world) -> None:
    world.says(show={"answer": {**SHOWN, "body": f"**{SHOWN['lead']}**\n\n| | |\n"}})
    world.approved()
    lines = world.asked[0]["body"].splitlines()
    assert lines[0] == "**Beyond the broker by 3 offsets.**"
    assert lines[2].startswith("Approving deletes what this plan names")
    assert lines[3:] == ["", "| | |"]


NOT_APPROVED = {
    "rejected": {"chosen": "Reject"},
    "same person": {"user": "ann"},
    "stale": {"at": datetime(2020, 1, 1, tzinfo=UTC)},
}


@pytest.mark.parametrize("answered", list(NOT_APPROVED.values()), ids=list(NOT_APPROVED))
def test_apply_does_not_trust_the_graph(world, answered) -> None:
    world.preview()
    world.answer(**answered)
    world.refuses_to_apply("nothing was done")
    assert {each["argv"][0] for each in world.ran} == {"show"}


@pytest.mark.parametrize("changed", [{"sha256": "d" * 64}, {"cluster_id": "east"}], ids=["bytes", "cluster"])
def test_a_plan_that_changed_meanwhile(world, changed) -> None:
    """Or the same bytes, in an archive that has become another cluster's."""
    world.approved()
    world.says(show={"answer": {**SHOWN, **changed, "body": "x"}})
    world.refuses_to_apply("has changed since")


def test_an_approval_task_that_somebody_marked_as_done(world) -> None:
    """With an XCom that says all that an approval would."""
    world.preview()
    asked = approval.request_of(world.context(ApplyPlan(task_id="apply", cluster=PLAIN)))
    world.xcoms["approve"] = {
        **world.folder.run, "request_sha256": asked.sha256, "chosen": ["Approve"], "user_id": "bea", "user_name": "bea",
        "answered_at_ms": time.time_ns() // 1_000_000,
    }  # fmt: skip
    world.refuses_to_apply("nobody was asked")
    world.ask()
    world.refuses_to_apply("nobody has answered")


def test_an_answer_that_somebody_edited(world) -> None:
    world.preview()
    world.answer(chosen="Reject")
    world.xcoms["approve"] = {**world.xcoms["approve"], "chosen": ["Approve"]}
    world.refuses_to_apply("differs from the one in the run's folder")


def test_an_answer_holds_for_what_was_triggered(world) -> None:
    world.approved()
    world.use(allow_log_sink=True)
    world.refuses_to_apply("another question", sink="log", allow_log_sink=True)


NEW_RUN = "a different question before, and Airflow still shows that one: trigger a new run"


def show(world, number: int) -> None:
    """From now on the plan has other bytes, and another size."""
    changed = {**SHOWN, "sha256": f"{number:064d}", "counts": {"tombstones": number}, "body": f"{number} offsets"}
    world.says(show={"answer": changed})


def preview(world) -> None:
    """Run the first task; a refusal leaves the others as they are."""
    with suppress(CommandRefused):
        world.preview()


STEPS = ("preview", "swap", "ask", "answer", "keep")
"""What happens to a run, in any order: its first task is cleared, also after the plan was changed; `approve` is
cleared; somebody answers what it shows; the plan is as it was again."""


@pytest.mark.parametrize("order", list(permutations(STEPS)), ids="-".join)
def test_no_consent_to_what_was_not_shown(world, order, monkeypatch) -> None:
    """Whatever is cleared, changed and answered in whatever order: who applies has shown that very plan before."""
    ran = []

    def run(_, arguments, *, variables) -> dict:  # 120 orders, without a process for each command
        ran.append(arguments[0])
        return world.said[arguments[0]]["answer"]

    monkeypatch.setattr(Command, "run", run)
    show(world, 1)
    preview(world)
    waiting = world.ask()
    for step in order:
        match step:
            case "preview":
                preview(world)
            case "swap":
                show(world, 100_000)
                preview(world)
            case "keep":
                show(world, 1)
            case "ask":
                with suppress(CommandRefused, TaskAwaitingInput):
                    world.run(Approval(task_id="approve"))
            case "answer":
                with suppress(CommandRefused):
                    world.resume(waiting)
    assert {each["body"].rpartition("\n")[2] for each in world.asked} == {"1 offsets"}
    show(world, 100_000)
    world.refuses_to_apply("nothing was done")
    show(world, 1)
    world.refuses_to_apply(NEW_RUN)  # a question that was swapped once is void for good
    assert set(ran) == {"show"}


def test_a_cleared_task_that_finds_the_same_takes_nothing_back(world) -> None:
    world.preview()
    waiting = world.ask()
    world.preview()
    world.resume(waiting)
    assert world.apply() == {"done": 3}


def test_an_answer_counts_for_what_was_shown_when_the_task_began_to_wait(world) -> None:
    """Although whoever writes files has made the run's folder say something else throughout."""
    show(world, 1)
    preview(world)
    waiting = world.ask()
    for file in world.home.rglob("approval/*.json"):
        file.unlink()
    show(world, 100_000)
    preview(world)
    consent.begin_asking(world.folder, world.folder.read(consent.Request))
    with pytest.raises(CommandRefused, match=NEW_RUN):
        world.resume(waiting)
    with pytest.raises(CommandRefused, match=NEW_RUN):  # nor can it be asked: Airflow shows the first question again
        world.run(Approval(task_id="approve"))
    assert world.alerts[1:] == []


def test_a_task_that_an_earlier_release_has_asked_with_is_refused(world) -> None:
    preview(world)
    waiting = world.ask()
    waiting.kwargs = {}
    with pytest.raises(CommandRefused, match="trigger a new run"):
        world.resume(waiting)


def test_a_run_folder_of_an_earlier_release_is_refused(world) -> None:
    world.approved()
    (file,) = world.home.rglob("request.json")
    request = json.loads(file.read_text())
    del request["cluster_id"]
    file.write_text(json.dumps(request))
    world.refuses_to_apply("an earlier release wrote it: trigger a new run")


@pytest.mark.parametrize("has_trigger", [False, True])
def test_the_consent_to_one_run_is_none_to_another(world, has_trigger) -> None:
    """With every file of the first, its XCom, and the same plan."""
    world.triggered("ui" if has_trigger else None)
    world.approved()
    (first,) = world.home.rglob("approval")
    world.run_id = f"{RUN_ID}x"
    preview(world)
    world.ask()
    (second,) = set(world.home.rglob("approval")) - {first}
    for file in first.iterdir():
        shutil.copy(file, second / file.name)
    world.refuses_to_apply("belongs to another run: trigger a new run")
    assert {each["argv"][0] for each in world.ran} == {"show"}


def test_asking_again_forgets_the_answer(world) -> None:
    world.approved()
    world.ask()
    world.refuses_to_apply("nobody has answered")


def test_silence_means_no_and_is_never_retried(world) -> None:
    world.preview()
    task = Approval(task_id="approve")
    with pytest.raises(AirflowFailException, match="which means no"):
        task.execute_complete(world.context(task), {"error": "too late", "error_type": "timeout"})


def test_the_body_is_no_template(world) -> None:
    world.says(show={"answer": {**SHOWN, "body": HOSTILE}})
    world.preview()
    task = Approval(task_id="approve")
    assert not {"body", "subject"} & set(task.template_fields)
    world.answer()
    assert world.asked[0]["body"].endswith(HOSTILE)
    (told,) = world.alerts
    assert HOSTILE not in told["message"]
    assert "tombstones 3" in told["message"]


def test_only_who_is_named_may_answer(world) -> None:
    world.use(approvers=["bea", "cid"])
    world.preview()
    world.answer(user="dan")  # Airflow itself would refuse that
    assert world.asked[0]["assigned_users"] == [{"id": "bea", "name": "bea"}, {"id": "cid", "name": "cid"}]
    world.refuses_to_apply("may not approve")


@pytest.mark.parametrize("how", ["cli", "operator", None])
def test_a_run_from_a_shell_is_not_even_asked_about(world, how) -> None:
    world.use(approval_login_required=True)
    world.triggered(how)
    with pytest.raises(CommandRefused, match=r"(was|was not) triggered"):
        world.preview()
    assert world.asked == []


def test_a_run_waits_for_the_record_of_its_trigger(world, monkeypatch) -> None:
    world.use(approval_login_required=True)
    monkeypatch.setattr(change_tasks, "RECORD_PATIENCE_S", 60)
    monkeypatch.setattr(change_tasks.time, "sleep", lambda _: world.triggered("ui"))
    world.preview()
    world.answer()
    assert len(world.asked) == 1


def test_a_run_from_a_shell_does_not_act(world) -> None:
    """Also when the task that would have asked was got around."""
    world.approved()
    world.use(approval_login_required=True)
    world.triggered("cli")
    world.refuses_to_apply("had logged in")
    assert {each["argv"][0] for each in world.ran} == {"show"}
    world.triggered("ui")
    assert world.apply() == {"done": 3}


def test_restoring(world) -> None:
    world.says(show={"answer": {**SHOWN, "kind": "restore", "id": RESTORE_ID, "sha256": RESTORE_ID, "body": "x"}})
    params = {"from_ledger": PLAN_ID, "groups": ["a", "b="], "topics": ["t:0"], "pattern": "x=", "clamp": True}
    world.run(PreviewRestore(task_id="diff", cluster=PLAIN), **params)
    world.answer(**params)
    assert world.run(ApplyRestore(task_id="restore", cluster=PLAIN), **params) == {"done": 2}
    diff, _, _, restore = (each["argv"] for each in world.ran)
    assert diff[:7] == [
        "restore", f"--from-ledger={PLAN_ID}", "--group=a", "--group=b=", "--pattern=x=", "--topic=t:0", "--clamp"
    ]  # fmt: skip
    assert restore[:4] == ["restore", f"--id={RESTORE_ID}", "--apply", "--approved-by=bea"]
    assert [each["config"] for each in world.ran if each["argv"][0] == "restore"] == [
        f"sasl.password=reader-{SECRET}\n",
        f"sasl.password=applier-{SECRET}\n",
    ]


def test_a_field_that_is_null_is_an_empty_one(world) -> None:
    """The form sends null; a run that was triggered before the form allowed null has an empty text."""
    nothing = dict.fromkeys(("from_ledger", "as_of", "groups", "pattern", "topics"))
    world.says(show={"answer": {**SHOWN, "kind": "restore", "id": RESTORE_ID, "sha256": RESTORE_ID, "body": "x"}})
    world.run(PreviewRestore(task_id="diff", cluster=PLAIN), from_plan=PLAN_ID, **nothing)
    assert world.ran[0]["argv"][:3] == ["restore", f"--from-plan={PLAN_ID}", "--json"]
    world.answer(from_plan=PLAN_ID, **nothing)
    assert world.run(ApplyRestore(task_id="restore", cluster=PLAIN), from_plan=PLAN_ID) == {"done": 2}


def test_nothing_to_restore(world) -> None:
    world.says(restore={"answer": {"restore_id": None, "counts": {"group_has_members": 3}}})
    with pytest.raises(CommandRefused, match="nothing to restore: group has members 3"):
        world.run(PreviewRestore(task_id="diff", cluster=PLAIN), from_plan=PLAN_ID)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(1, CommandFailed), (2, CommandRefused), (3, CommandRefused), (4, CommandRefused), (5, CommandRefused),
     (6, CommandRefused), (9, CommandFailed)],
)  # fmt: skip
def test_exit_codes(world, monkeypatch, code, kind) -> None:
    """Whoever is told of the failure reads how far it came, and no name; the task's own log has both."""
    world.approved()
    sent = []
    monkeypatch.setattr(alerts, "send", lambda message, _: sent.append(message.text))
    counts = {"done": 1, "not_done": 2}
    failure = {"error": "no", "where": f"group {HOSTILE}", "fix": None, "exit_code": code}
    world.says(apply={"code": code, "stderr": json.dumps(failure), "answer": {"counts": counts}})
    task = ApplyPlan(task_id="apply", cluster=PLAIN)
    with pytest.raises(AirflowException) as caught:
        world.run(task)
    assert type(caught.value) is kind
    assert HOSTILE in str(caught.value)
    AlertOnFailure().notify({**world.context(task), "exception": caught.value})
    (told,) = sent
    assert told.startswith(f"`sexton apply` ended with {code}")
    assert "done 1, not done 2" in told
    assert HOSTILE not in told


def test_who_hears_of_a_failure_hears_no_name(world, monkeypatch) -> None:
    sent = []
    monkeypatch.setattr(alerts, "send", lambda message, _: sent.append(message.text))
    error = CommandRefused("a guard said no", message=f"refused: {HOSTILE}")
    context = {**world.context(ApplyPlan(task_id="apply", cluster=PLAIN)), "exception": error}
    AlertOnFailure().notify(context)
    assert sent[0].startswith("a guard said no")
    assert HOSTILE not in sent[0]
    world.use(notify_details=True)
    AlertOnFailure().notify(context)
    assert HOSTILE in sent[1]


@pytest.mark.parametrize(
    ("counts", "is_told"),
    [({"done": 3}, False), ({"done": 3, "gone": 1}, False), ({}, False), (None, False), ({"changed_since": 0}, False),
     ({"done": 3, "changed_since": 1}, True), ({"refused": 1}, True), ({"raced": 1}, True)],
    ids=str,
)  # fmt: skip
def test_what_was_not_done_is_an_alert(world, counts, is_told) -> None:
    world.preview()
    world.xcoms["apply"] = counts
    world.run(NotifyOutcome(task_id="notify", outcome_of="apply"))
    assert [alert["message"].startswith("not everything was done: ") for alert in world.alerts] == [True] * is_told


def test_a_task_that_is_killed_ends_its_child(world) -> None:
    world.says(apply={"sleep": 60})
    command = Command()
    threading.Timer(1.0, command.stop).start()
    start = time.monotonic()
    with pytest.raises(CommandFailed, match="ended with 17"):
        command.run(["apply"], variables={})
    assert time.monotonic() - start < 20


def test_a_task_that_times_out_leaves_no_child(world) -> None:
    class TimedOutError(BaseException): ...

    def interrupt(*_) -> None:
        raise TimedOutError

    world.says(apply={"sleep": 60})
    others = psutil.Process().children()
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(2)
    start = time.monotonic()
    try:
        with pytest.raises(TimedOutError):
            Command().run(["apply"], variables={})
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 20
    assert [child for child in psutil.Process().children() if child not in others] == []


def test_a_child_that_dies_of_a_signal_is_retried(world) -> None:
    world.program.write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(CommandFailed):
        Command().run(["apply"], variables={})


def test_lines_of_a_log_cannot_be_forged(world, caplog) -> None:
    caplog.set_level(logging.INFO)
    world.says(show={"stderr": "one\r\x1b[2Jtwo‮\u2028x"})
    Command().run(["show", "a\nb"], variables={})
    assert caplog.messages[:3] == ["running: sexton show a\\nb", "one", "\\x1b[2Jtwo\\u202e\\u2028x"]
    assert printable("é ok") == "é ok"


def test_files_of_a_run_are_private(world) -> None:
    world.approved()
    files = list((world.home / "var" / "runs").rglob("*.json"))
    assert {file.name for file in files} == {"request.json", "asked.json", "answer.json"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
