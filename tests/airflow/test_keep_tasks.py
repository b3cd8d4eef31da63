"""The tasks of keep_offsets and approve_keep: what they run, what they ask, and what only an answer puts in force.
`sexton` is a stand-in."""

from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
import typer
from pyarrow import fs as pafs

from sexton import cli
from sexton.airflow import consent, keep_tasks
from sexton.airflow.commands import CommandFailed, CommandRefused
from sexton.airflow.keep_tasks import KeepOffsets, ProposeApproval, RecordApproval
from sexton.execution.standing_approval import FILE, StandingApproval, Terms, approval_in_force
from sexton.job_params import ApproveKeep
from sexton.settings import Settings
from tests.airflow.test_change_tasks import PLAIN, SECRET, World
from tests.approvals import give_approval

VARIABLE = "sexton_keep_approval"
TERMS = Terms(
    cluster_id="west", policy_sha256="a" * 64, patterns=[".*"], max_offsets_per_hour=10_000, max_joins_per_hour=1_000,
    days=30,
)  # fmt: skip
FORM = {name: field.default for name, field in ApproveKeep.model_fields.items()}


def shown(terms: Terms) -> dict:
    return {
        "kind": "standing approval", "cluster_id": terms.cluster_id, "id": terms.sha256, "sha256": terms.sha256,
        "counts": {"days": terms.days}, "terms": terms.model_dump(), "questions": {"keep": "Approving lets."},
        "body": "holds",
    }  # fmt: skip


class Variables(dict):
    """Airflow's Variables."""

    def get(self, name: str, default: object = None) -> object:
        return super().get(name, default)

    def set(self, name: str, value: str, description: str) -> None:
        self[name] = value

    def delete(self, name: str) -> None:
        del self[name]


class KeepWorld(World):
    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(home, monkeypatch)
        self.variables, self.skipped = Variables(), []
        monkeypatch.setattr(keep_tasks, "Variable", self.variables)
        monkeypatch.setattr(keep_tasks, "settings", lambda: Settings(home=home))
        self.says(
            show={"answer": shown(TERMS)},
            keep={"answer": {"would": {"keep": 2, "join": 1, "newer_now": 5}, "counts": {"done": 3}}},
            snapshot={"answer": {}},
        )

    def context(self, task, **params) -> dict:
        return super().context(task, **{**FORM, **params})

    def keep(self):
        return self.run(KeepOffsets(task_id="keep", cluster=PLAIN))

    def propose(self, **params) -> None:
        task = ProposeApproval(task_id="propose", cluster=PLAIN)
        self.monkeypatch.setattr(task, "skip", lambda **told: self.skipped.extend(told["tasks"]), raising=False)
        self.monkeypatch.setattr(task, "get_flat_relatives", lambda **_: ["approve", "record"], raising=False)
        self.run(task, **params)

    def record(self, **params):
        return self.run(RecordApproval(task_id="record", cluster=PLAIN), **params)

    @property
    def approvals(self) -> list[Path]:
        return sorted((self.home / "var" / "archive").rglob(FILE))


@pytest.fixture
def world(tmp_path, monkeypatch) -> KeepWorld:
    return KeepWorld(tmp_path, monkeypatch)


def test_without_an_approval_it_is_a_dry_run(world) -> None:
    assert world.keep() == {}
    (run,) = world.ran
    assert run["argv"][:2] == ["keep", "--json"]
    assert run["config"] == f"sasl.password=reader-{SECRET}\n"
    (alert,) = world.alerts
    assert alert["message"] == "3 offsets under holds would be kept: trigger approve_keep"
    world.says(keep={"answer": {"would": {"newer_now": 5}}})
    world.keep()
    assert len(world.alerts) == 1


def test_a_document_that_nobody_has_approved_in_airflow_is_not_used(world) -> None:
    """Whoever writes files has written one."""
    archive = world.home / "var" / "archive"
    give_approval(str(archive), cluster_id="west", policy_sha256="a" * 64, at_ms=1)
    world.keep()
    assert "--apply" not in world.ran[0]["argv"]


def test_under_an_approval_the_reader_looks_and_the_applier_acts(world) -> None:
    world.variables[VARIABLE] = "f" * 64
    assert world.keep() == {"done": 3}
    snapshot, keep = world.ran
    assert (snapshot["argv"][0], snapshot["config"]) == ("snapshot", f"sasl.password=reader-{SECRET}\n")
    assert keep["argv"][:4] == ["keep", "--no-snapshot", "--apply", f"--approval={'f' * 64}"]
    assert keep["config"] == f"sasl.password=applier-{SECRET}\n"


@pytest.mark.parametrize(("code", "error"), [(6, CommandRefused), (2, CommandRefused), (1, CommandFailed)])
def test_what_could_not_be_kept_fails_the_task(world, code, error) -> None:
    world.variables[VARIABLE] = "f" * 64
    world.says(keep={"code": code, "answer": {"counts": {"done": 2, "refused": 1}}})
    with pytest.raises(error) as failed:
        world.keep()
    assert f"ended with {code}" in failed.value.public
    assert "done 2, refused 1" in failed.value.public


def test_only_an_answer_puts_an_approval_in_force(world) -> None:
    world.variables[VARIABLE] = "e" * 64
    world.propose()
    (asked_with,) = world.ran
    assert asked_with["argv"][:6] == [
        "show", "approval", "--pattern=.*", "--max-offsets=10000", "--max-joins=1000", "--days=30"
    ]  # fmt: skip
    assert asked_with["config"] is None
    world.answer()
    (asked,) = world.asked
    assert asked["subject"] == f"Keep alive what standing approval {TERMS.sha256[:12]} names?"
    assert asked["body"] == "Approving lets.\n\nholds"
    assert world.approvals == []
    world.record()
    (file,) = world.approvals
    given = StandingApproval.model_validate_json(file.read_bytes())
    assert (given.terms, given.approved_by, given.run_id) == (TERMS, "bea", world.run_id)
    assert world.variables == {VARIABLE: given.sha256}
    assert world.ran[-1]["argv"][:2] == ["keep", f"--revoke={'e' * 64}"]
    assert all(each["config"] is None for each in world.ran)  # no broker is asked anything
    archive = str(world.home / "var" / "archive")
    now_ms = given.approved_at_ms + 1
    assert given == approval_in_force(
        pafs.LocalFileSystem(), archive, "west", given.sha256, policy_sha256="a" * 64, now_ms=now_ms
    )
    world.record()  # the task is run once more
    assert (world.approvals, len(world.ran)) == ([file], 4)


NO_ANSWER = {
    "rejected": {"chosen": "Reject"},
    "same person": {"user": "ann"},
    "stale": {"at": datetime(2020, 1, 1, tzinfo=UTC)},
}


@pytest.mark.parametrize("answered", list(NO_ANSWER.values()), ids=list(NO_ANSWER))
def test_no_consent_no_approval(world, answered) -> None:
    world.propose()
    world.answer(**answered)
    refuses(world, "nothing was done")


def refuses(world: KeepWorld, why: str, **params) -> None:
    with pytest.raises(CommandRefused, match=why):
        world.record(**params)
    assert (world.approvals, dict(world.variables)) == ([], {})


def test_an_approval_task_that_somebody_marked_as_done(world) -> None:
    """With the XCom that an answer would have, and, by whoever writes files, with the answer alone."""
    world.propose()
    world.ask()
    refuses(world, "nobody has answered")
    asked = world.folder.read(consent.Asked)
    answer = consent.ConsentAnswer(
        **world.folder.run, request_sha256=asked.request_sha256, chosen=["Approve"], user_id="bea", user_name="bea",
        answered_at_ms=1,
    )  # fmt: skip
    world.xcoms["approve"] = answer.model_dump()
    refuses(world, "nobody has answered")
    world.xcoms["approve"] = None
    world.folder.write(answer)
    refuses(world, "nobody has answered")


@pytest.mark.parametrize("changed", [{"policy_sha256": "b" * 64}, {"cluster_id": "east"}])
def test_a_policy_that_changed_before_the_answer_is_another_question(world, changed) -> None:
    world.propose()
    world.answer()
    world.says(show={"answer": shown(TERMS.model_copy(update=changed))})
    refuses(world, "has changed since")


def test_terms_other_than_those_that_were_shown(world) -> None:
    world.propose()
    world.answer()
    refuses(world, "another question", days=90)


def test_revoking_asks_nobody(world) -> None:
    world.propose(revoke=True)
    assert world.ran == []
    world.variables[VARIABLE] = "f" * 64
    world.propose(revoke=True)
    (run,) = world.ran
    assert (run["argv"][:2], run["config"]) == (["keep", f"--revoke={'f' * 64}"], None)
    assert world.variables == {}
    assert set(world.skipped) == {"approve", "record"}
    assert world.asked == []


def test_a_revocation_that_fails_has_ended_the_approval_all_the_same(world) -> None:
    world.variables[VARIABLE] = "f" * 64
    world.says(keep={"code": 1})
    with pytest.raises(CommandFailed):
        world.propose(revoke=True)
    assert world.variables == {}


def test_the_command_line_takes_what_the_tasks_run(world) -> None:
    """Of a cluster with a name, too."""
    eu = PLAIN.model_copy(update={"name": "eu", "is_first": False, "cluster_id": "eu-id"})
    variable = f"{VARIABLE}__eu"
    world.run(KeepOffsets(task_id="keep", cluster=eu))
    world.variables[variable] = "f" * 64
    world.run(KeepOffsets(task_id="keep", cluster=eu))
    world.run(ProposeApproval(task_id="propose", cluster=eu))
    world.answer()
    world.run(RecordApproval(task_id="record", cluster=eu))
    assert set(world.variables) == {variable}
    ran = [each["argv"] for each in world.ran]
    assert [argv[0] for argv in ran] == ["keep", "snapshot", "keep", "show", "show", "keep"]
    for argv in ran:
        assert "--cluster-id=eu-id" in argv
        command = typer.main.get_command(cli.app)
        while isinstance(command, click.Group):
            command = command.commands[argv.pop(0)]
        command.make_context("sexton", [word for word in argv if not word.startswith("--client-config")])
