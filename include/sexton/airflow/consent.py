"""Checks whether an answer allows a change. The task that changes the cluster checks, whatever state `approve` has.

Why Airflow's own record of the answer is not enough: a task may read only the record of its own task instance, so the
changing task cannot read that of `approve`; whoever may edit XComs or task states could forge an approval; and the
record is not bound to the content, the age or the person who triggered the run.

Therefore the question and the answer are files in the run's folder, which no call of Airflow's API can write. Each file
names its run, and no other run accepts the file. The answer is also the XCom of `approve`, which access to files alone
does not allow anybody to write. File and XCom must agree in every field, and contain the SHA-256 of the request.

A run asks only one question, because Airflow shows the first question again after a task is cleared. When the question
is shown, it is recorded in three places: in asked.json, which is created only once; in the arguments that Airflow
stores for the waiting task, which no call of Airflow's API can change; and in Airflow's own record, with which the
request is compared (approval.py). If a cleared task finds another question, it withdraws the first question, whose
answer then allows nothing.

A file also records how the run was triggered, which only the scheduler knows (listener.py).
"""

import hashlib
import json
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sexton.airflow.commands import CommandRefused
from sexton.as_text import HOUR_MS
from sexton.errors import UsageError
from sexton.settings import Settings

APPROVE = "Approve"
CLOCK_LAG_MS = 300_000
"""How far the API server's clock, which stamps the answer, may be ahead of the worker's."""

FOLDER = "approval"
WITH_LOGIN = frozenset({"ui", "rest_api"})
"""DagRunTriggeredByType of runs whose triggering user logged in. `airflow dags trigger` records the operating-system
user instead, and a task that triggers a run passes on the user of its own run."""
ANOTHER_QUESTION = "this run showed a different question before, and Airflow still shows that one: trigger a new run"


class NoConsent(CommandRefused):
    """Nothing may be done: the task fails without retry. The message names no group and no person, so that everybody
    may read it."""


class ConsentDocument(BaseModel):
    """A file about the approval of the run `run_id` of `dag_id`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    dag_id: str
    run_id: str


class Request(ConsentDocument):
    """The request that an approver answers.

    `document_id` and `document_sha256` identify the plan or restore, for the cluster `cluster_id`, to the last byte.
    `options` are the run's params, `counts` the size of the change. `body` is Markdown with foreign names escaped.
    """

    cluster_id: str
    document_id: str
    document_sha256: str
    options: dict[str, Any]
    counts: dict[str, int]
    subject: str
    body: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(_json(self).encode()).hexdigest()


class Asked(ConsentDocument):
    """The request that was shown."""

    request_sha256: str


class Withdrawn(Asked):
    """Marks that, since it asked, the run has found another question, which has the hash `request_sha256`."""


class ConsentAnswer(ConsentDocument):
    """The answer to a request: what was chosen, by whom (with the names of Airflow's auth manager) and when."""

    request_sha256: str
    chosen: list[str]
    user_id: str
    user_name: str
    answered_at_ms: int

    @property
    def is_approval(self) -> bool:
        return self.chosen == [APPROVE]


class Trigger(ConsentDocument):
    """How the run was triggered, a DagRunTriggeredByType."""

    triggered_through: str


AnyDocument = TypeVar("AnyDocument", bound=ConsentDocument)
FILES: dict[type[ConsentDocument], str] = {
    Request: "request.json",
    Asked: "asked.json",
    Withdrawn: "withdrawn.json",
    ConsentAnswer: "answer.json",
    Trigger: "triggered.json",
}


class ApprovalFolder:
    """The files about the approval of one run, in its folder."""

    def __init__(self, run_folder: str, *, dag_id: str, run_id: str) -> None:
        from sexton.archive.folder import Folder  # pyarrow is imported when a task runs, not when a DAG file is read

        self.run = {"dag_id": dag_id, "run_id": run_id}
        self._folder = Folder(run_folder, FOLDER)

    def read(self, kind: type[AnyDocument]) -> AnyDocument | None:
        """Return a file of this run, None if it does not exist; NoConsent for an invalid file or one of another run."""
        try:
            found = kind.model_validate_json(self._folder.read(FILES[kind]))
        except UsageError:
            return None
        except ValidationError:
            raise NoConsent(f"{FILES[kind]} was changed, or an earlier release wrote it: trigger a new run") from None
        if {"dag_id": found.dag_id, "run_id": found.run_id} != self.run:
            raise NoConsent(f"{FILES[kind]} belongs to another run: trigger a new run")
        return found

    def write(self, document: ConsentDocument) -> None:
        """Write a file with mode 0600 if the store has modes: it may name groups."""
        self._folder.write(f"{_json(document)}\n".encode(), FILES[type(document)], is_private=True)

    def create(self, document: ConsentDocument) -> bool:
        """Write a file unless it exists; return False if it does."""
        return self._folder.create(f"{_json(document)}\n".encode(), FILES[type(document)], is_private=True)

    def remove(self, kind: type[ConsentDocument]) -> None:
        self._folder.remove(FILES[kind])


def prepare(folder: ApprovalFolder, request: Request) -> None:
    """Record what `approve` will ask. If the run has asked another question, withdraw that and raise NoConsent."""
    asked = folder.read(Asked)
    if asked is not None and asked.request_sha256 != request.sha256:
        folder.write(Withdrawn(**folder.run, request_sha256=request.sha256))
        raise NoConsent(ANOTHER_QUESTION)
    folder.write(request)


def begin_asking(folder: ApprovalFolder, request: Request) -> None:
    """Record that the request is shown, and delete an earlier answer. NoConsent if the run has shown another one."""
    folder.remove(ConsentAnswer)
    folder.create(Asked(**folder.run, request_sha256=request.sha256))
    question(folder)


def question(folder: ApprovalFolder) -> Request:
    """Return the request that was shown; NoConsent if none was, or if the run has found another question since."""
    request, asked = folder.read(Request), folder.read(Asked)
    if request is None or asked is None:
        raise NoConsent("nobody was asked")
    if request.sha256 != asked.request_sha256 or folder.read(Withdrawn) is not None:
        raise NoConsent(ANOTHER_QUESTION)
    return request


def consent(
    request: Request,
    answer: ConsentAnswer | None,
    xcom: Any,
    *,
    options: dict[str, Any],
    document_sha256: str,
    cluster_id: str,
    triggered_by: str | None,
    triggered_through: str | None,
    terms: Settings,
    now_ms: int,
) -> ConsentAnswer:
    """Return the answer if it allows `request` now; else raise NoConsent.

    `request` is the run's `question`, `xcom` the XCom of the task `approve`, `options` are the run's params.
    `document_sha256` and `cluster_id` describe the plan or restore that is in the archive now. `triggered_by` is the
    user who triggered the run, `triggered_through` the run's DagRunTriggeredByType. `terms` are the settings: who may
    approve and how long an answer is valid; without `approvers` everybody who may answer can approve.
    """
    if answer is None or xcom is None:
        raise NoConsent("nobody has answered")
    if xcom != answer.model_dump():
        raise NoConsent("the answer in Airflow differs from the one in the run's folder")
    if answer.request_sha256 != request.sha256 or request.options != options:
        raise NoConsent("the answer is to another question")
    if not answer.is_approval:
        raise NoConsent("the answer is no")
    require_login(triggered_through, terms)
    _require_person(answer, triggered_by, terms)
    max_age_ms = int(terms.approval_max_age_hours * HOUR_MS)
    if not now_ms - max_age_ms <= answer.answered_at_ms <= now_ms + CLOCK_LAG_MS:
        raise NoConsent("the answer is too old, or from the future: clear `approve` to ask again")
    if (request.document_sha256, request.cluster_id) != (document_sha256, cluster_id):
        raise NoConsent("what was approved has changed since: trigger a new run")
    return answer


def require_login(triggered_through: str | None, terms: Settings) -> None:
    """Raise NoConsent if a login is required and the run was triggered without one, or in an unknown way."""
    if not terms.approval_login_required or triggered_through in WITH_LOGIN:
        return
    if triggered_through is None:
        raise NoConsent("it is not known how the run was triggered: the scheduler did not record it")
    raise NoConsent("the run was not triggered by a user who had logged in to Airflow: trigger it in the UI")


def _require_person(answer: ConsentAnswer, triggered_by: str | None, terms: Settings) -> None:
    who = {name for name in (_folded(answer.user_id), _folded(answer.user_name)) if name}
    if not who:
        raise NoConsent("nobody has answered")
    if terms.approvers and answer.user_id not in terms.approvers:
        raise NoConsent("the person who answered may not approve")
    if terms.approval_self_allowed:
        return
    if not _folded(triggered_by):
        raise NoConsent("it is not known who triggered the run: it may be the person who approved it")
    if _folded(triggered_by) in who:
        raise NoConsent("the person who triggered the run has approved it: another person must")


def _json(document: ConsentDocument) -> str:
    return json.dumps(document.model_dump(), sort_keys=True, ensure_ascii=True)


def _folded(name: str | None) -> str:
    return (name or "").strip().casefold()
