"""The task that asks a person: Airflow's ApprovalOperator, with the request and the answer kept in the run's folder.

There is no default answer, and a timeout fails the task without retry. The text is never a Jinja template, because it
quotes names that clients of the cluster choose. An approval alone allows nothing: the task that changes the cluster
checks who approved what and when (consent.py).
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from inspect import getdoc
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

from sexton.airflow.alerts import raise_alert
from sexton.airflow.commands import CommandRefused
from sexton.airflow.consent import (
    ANOTHER_QUESTION,
    ApprovalFolder,
    ConsentAnswer,
    NoConsent,
    Request,
    begin_asking,
    question,
)
from sexton.airflow.runs import run_folder
from sexton.as_text import ms_of
from sexton.settings import settings


class Approval(ApprovalOperator):
    """Waits for a person to approve the run's request. A rejection skips the later tasks; a timeout fails the run."""

    template_fields = ()

    def __init__(self, **kwargs: Any) -> None:
        config = settings()
        super().__init__(
            subject="Approve?",
            doc_md=getdoc(type(self)),
            notifiers=[AlertApprovalWaits()],
            assigned_users=[{"id": user, "name": user} for user in config.approvers] or None,
            response_timeout=timedelta(hours=config.approval_timeout_hours),
            ignore_downstream_trigger_rules=True,
            **kwargs,
        )

    def execute(self, context: Any) -> Any:
        """Show the question and wait. The task is refused if Airflow shows another question than this run asks.

        Unlike ApprovalOperator.execute, this checks the question in Airflow's response. Airflow keeps the question that
        the run asked first, even after the task is cleared. Replacing it would delete an answer that arrived meanwhile.
        """
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

        request = request_of(context)
        begin_asking(approval_folder_of(context), request)
        self.subject, self.body = request.subject, request.body
        asked = CreateHITLDetailPayload(
            ti_id=context["task_instance"].id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            params={},
            assigned_users=self.assigned_users or [],
        )
        shown: Any = SUPERVISOR_COMMS.send(asked)
        if (shown.subject, shown.body, shown.options) != (self.subject, self.body, self.options):
            raise CommandRefused(ANOTHER_QUESTION)
        for notifier in self.notifiers:
            notifier(context)
        raise TaskAwaitingInput(
            method_name="execute_complete", kwargs={"asked": request.sha256}, timeout=self.response_timeout
        )

    def execute_complete(self, context: Any, event: dict[str, Any], asked: str = "") -> Any:
        """Write the answer to the run's folder and return it as XCom.

        `asked` is the SHA-256 of the request that was shown, as stored by Airflow.
        """
        super().execute_complete(context, event)
        folder = approval_folder_of(context)
        if question(folder).sha256 != asked:
            raise NoConsent(ANOTHER_QUESTION)
        user: Mapping[str, Any] = event["responded_by_user"] or {}
        answer = ConsentAnswer(
            **folder.run,
            request_sha256=asked,
            chosen=[str(option) for option in event["chosen_options"]],
            user_id=str(user.get("id") or ""),
            user_name=str(user.get("name") or ""),
            answered_at_ms=ms_of(event["responded_at"]),
        )
        folder.write(answer)
        return answer.model_dump()

    def process_trigger_event_error(self, event: dict[str, Any]) -> None:
        if event["error_type"] == "timeout":
            hours = settings().approval_timeout_hours
            raise CommandRefused(f"nobody answered within {hours:g} hours, which means no: nothing was done")
        super().process_trigger_event_error(event)


class AlertApprovalWaits(BaseNotifier):
    """Raises an alert that a request waits for an answer, with its counts and its deadline, but without group ids."""

    def notify(self, context: Any) -> None:
        request = request_of(context)
        until = datetime.now(UTC) + timedelta(hours=settings().approval_timeout_hours)
        counts = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in request.counts.items())
        message = f"waits for an answer until {until:%Y-%m-%d %H:%M} UTC: {request.subject} ({counts})"
        raise_alert(context, message=message)


def approval_folder_of(context: Any) -> ApprovalFolder:
    """Return the folder with the request and the answer of the run of `context`."""
    run = {"dag_id": context["dag_run"].dag_id, "run_id": context["dag_run"].run_id}
    return ApprovalFolder(run_folder(**run), **run)


def request_of(context: Any) -> Request:
    """Return the run's request; fail the task without retry if the preceding task wrote none."""
    request = approval_folder_of(context).read(Request)
    if request is None:
        raise NoConsent("there is nothing to approve: trigger a new run")
    return request
