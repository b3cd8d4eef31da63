"""Checks whether an answer allows a change. The task that changes the cluster calls it, whatever state `approve` has.

Why Airflow's own record of the answer is not enough: a task may read only the record of its own task instance, so the
changing task cannot read that of `approve`; whoever may edit XComs or task states could forge an approval; and the
record is not bound to the content, the age or the person who triggered the run.

So request and answer are files in the run's folder, which no call of Airflow's API writes. The answer is also the XCom
of `approve`, which nobody with access to files alone can write. Both must agree in every field, and the answer has the
SHA-256 of the request. A run asks one question once, because Airflow shows the first one again after a task is cleared.
How the run was triggered is a file, too: only the scheduler knows it (listener.py).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from sexton.errors import SextonError

if TYPE_CHECKING:
    from sexton.archive.folder import Folder

APPROVE = "Approve"
CLOCK_LAG_MS = 300_000
"""How far the API server's clock, which stamps the answer, may be ahead of the worker's."""

REQUEST, ASKED, ANSWER, TRIGGERED = "request.json", "asked.json", "answer.json", "triggered.json"
FOLDER = "approval"
WITH_LOGIN = frozenset({"ui", "rest_api"})
"""DagRunTriggeredByType of runs whose triggering user logged in. `airflow dags trigger` has the user of the shell
instead, and a task that triggers a run has whoever triggered its own run."""


class NoConsent(Exception):
    """Why nothing may be done. The message names no group and no person, so everybody may read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an approver is asked by one run of one DAG.

    `document_id` and `document_sha256` identify the plan or restore to the last byte. `options` are the run's params,
    `counts` the size of the change, `body` is Markdown in which foreign names are escaped.
    """

    dag_id: str
    run_id: str
    document_id: str
    document_sha256: str
    options: Mapping[str, Any]
    counts: Mapping[str, int]
    subject: str
    body: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(_json(asdict(self)).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request: what, by whom (as Airflow's auth manager names them) and when."""

    request_sha256: str
    chosen: list[str]
    user_id: str
    user_name: str
    answered_at_ms: int

    @property
    def is_approval(self) -> bool:
        return self.chosen == [APPROVE]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Document = TypeVar("Document", Request, Answer)
FILES: dict[type[Request] | type[Answer], str] = {Request: REQUEST, Answer: ANSWER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Who may approve and trigger, and how long an answer is valid. No `approvers`: anybody who may answer."""

    approvers: frozenset[str]
    is_self_allowed: bool
    is_login_required: bool
    max_age_ms: int


def consent(
    request: Request | None,
    answer: Answer | None,
    xcom: Any,
    *,
    options: Mapping[str, Any],
    document_sha256: str,
    triggered_by: str | None,
    triggered_through: str | None,
    terms: Terms,
    now_ms: int,
) -> Answer:
    """Return the answer if it allows `request` now; else raise NoConsent.

    `xcom` is that of the task `approve`, `options` are the run's params, `document_sha256` is the plan's in the archive
    now, `triggered_by` the user who triggered the run, `triggered_through` its DagRunTriggeredByType.
    """
    if request is None or answer is None or xcom is None:
        raise NoConsent("nobody was asked, or nobody has answered")
    if xcom != answer.to_dict():
        raise NoConsent("the answer that Airflow keeps is not the one that was given")
    if answer.request_sha256 != request.sha256 or dict(request.options) != dict(options):
        raise NoConsent("the answer is to another question")
    if not answer.is_approval:
        raise NoConsent("the answer is no")
    require_login(triggered_through, terms)
    _require_person(answer, triggered_by, terms)
    if not now_ms - terms.max_age_ms <= answer.answered_at_ms <= now_ms + CLOCK_LAG_MS:
        raise NoConsent("the answer is too old, or from the future: ask again")
    if request.document_sha256 != document_sha256:
        raise NoConsent("what was approved has changed since: ask again")
    return answer


def require_login(triggered_through: str | None, terms: Terms) -> None:
    """Raise NoConsent if a login is required and the run was triggered without one, or nobody knows how."""
    if not terms.is_login_required or triggered_through in WITH_LOGIN:
        return
    if triggered_through is None:
        raise NoConsent("it is not known how the run was triggered: the scheduler has not noted it")
    raise NoConsent("the run was not triggered by somebody who had logged in to Airflow: trigger it in the UI")


def _require_person(answer: Answer, triggered_by: str | None, terms: Terms) -> None:
    who = {name for name in (_folded(answer.user_id), _folded(answer.user_name)) if name}
    if not who:
        raise NoConsent("nobody has answered")
    if terms.approvers and answer.user_id not in terms.approvers:
        raise NoConsent("the answer is of somebody who may not approve")
    if terms.is_self_allowed:
        return
    if not _folded(triggered_by):
        raise NoConsent("it is not known who triggered the run: it could be who has approved it")
    if _folded(triggered_by) in who:
        raise NoConsent("who triggered the run has approved it: another person must")


def approval_folder(run_folder: str) -> "Folder":
    """Return the folder of a run's request and answer."""
    from sexton.archive.folder import Folder  # pyarrow is imported when a task runs, not when a DAG file is read

    return Folder(run_folder, FOLDER)


def write(folder: "Folder", document: Request | Answer) -> None:
    """Write a run's request or answer."""
    _write(folder, FILES[type(document)], asdict(document))


def read(folder: "Folder", kind: type[Document]) -> Document | None:
    """Return a run's request or answer, None if there is no valid one."""
    found = _load(folder, FILES[kind])
    names = {field.name for field in fields(kind)}
    return kind(**found) if isinstance(found, dict) and found.keys() == names else None


def begin_asking(folder: "Folder", request: Request) -> None:
    """Record the request and delete an earlier answer; NoConsent if the run has asked something else before."""
    folder.remove(ANSWER)
    noted = _load(folder, ASKED)
    if noted is not None and noted != {"request_sha256": request.sha256}:
        raise NoConsent("this run has shown something else before, which Airflow goes on showing: trigger a new run")
    _write(folder, ASKED, {"request_sha256": request.sha256})


def write_trigger(folder: "Folder", triggered_through: str) -> None:
    """Record the DagRunTriggeredByType of a run."""
    _write(folder, TRIGGERED, {"triggered_through": triggered_through})


def read_trigger(folder: "Folder") -> str | None:
    """Return the DagRunTriggeredByType of a run, None if it was not recorded."""
    noted = _load(folder, TRIGGERED)
    found = noted.get("triggered_through") if isinstance(noted, dict) else None
    return found if isinstance(found, str) else None


def _load(folder: "Folder", name: str) -> Any:
    try:
        return json.loads(folder.read(name))
    except (SextonError, OSError, ValueError):
        return None


def _write(folder: "Folder", name: str, value: Mapping[str, Any]) -> None:
    """Write a file, readable by this user only where a disk has it: it may name groups."""
    folder.write(f"{_json(value)}\n".encode(), name, is_private=True)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def _folded(name: str | None) -> str:
    return (name or "").strip().casefold()
