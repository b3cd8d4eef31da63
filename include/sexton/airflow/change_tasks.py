"""The tasks of the DAGs that change a cluster.

    preview >> approve >> apply   >> notify     apply_tombstones
    diff    >> approve >> restore >> notify     restore_offsets

They run commands of `sexton` in a child process (commands.py). The previews use the reader's connection. The task that
changes the cluster uses the applier's connection, which only changes use, and fails without it. The task checks the
approval again (consent.py); its command checks that the plan or restore is the approved one, to the last byte. The
texts that an approver reads come from `sexton show` (report/approval_page.py).
"""

import time
from collections.abc import Mapping
from inspect import getdoc
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.skipmixin import SkipMixin

from sexton.airflow.alerts import raise_alert
from sexton.airflow.approval import approval_folder_of, request_of
from sexton.airflow.brokers import BOOTSTRAP, client_config, config_file
from sexton.airflow.commands import Command, CommandRefused, counted
from sexton.airflow.consent import (
    ApprovalFolder,
    ConsentAnswer,
    NoConsent,
    Request,
    Trigger,
    consent,
    prepare,
    question,
    require_login,
)
from sexton.as_text import now_ms
from sexton.errors import printable
from sexton.job_params import DRY_RUN_SINK, LOG_SINK, ApplyTombstones, JobRequest, RestoreOffsets
from sexton.settings import Cluster, settings

APPROVAL_TASK = "approve"
EXPECTED_OUTCOMES = frozenset({"done", "gone"})
"""Outcomes that raise no alert: the cluster is as requested."""
RECORD_PATIENCE_S = 60
"""How long a run waits for the scheduler's record of its trigger, which is written while the run starts."""


class CommandTask(BaseOperator):
    """A task that runs commands of `sexton` for one cluster. If the task is killed, it ends its command."""

    def __init__(self, *, cluster: Cluster, **kwargs: Any) -> None:
        super().__init__(doc_md=getdoc(type(self)), **kwargs)
        self.cluster = cluster
        self._command = Command()

    def on_kill(self) -> None:
        self._command.stop()

    def sexton(self, *arguments: str, conn_id: str | None = None) -> dict[str, Any]:
        """Run a command, with the client configuration of a connection if `conn_id` is given.

        The command reads the archive's URI from the settings: an argument would expose the URI's login.
        """
        given = [*arguments, f"--cluster-id={self.cluster.cluster_id or ''}", "--json"]
        variables = {"SEXTON_POLICY": self.cluster.policy}
        if conn_id is None:
            return self._command.run(given, variables=variables)
        config = client_config(conn_id)
        with config_file(config) as file:
            broker = (f"--bootstrap-servers={config[BOOTSTRAP]}", f"--client-config={file or ''}")
            return self._command.run([*given, *broker], variables=variables)

    def show(self, kind: str, document_id: str) -> dict[str, Any]:
        """Return the JSON of `sexton show`: a plan or restore in the archive, after its hashes were checked."""
        return self.sexton("show", kind, document_id)

    def log_text(self, text: str) -> None:
        for line in text.splitlines():
            self.log.info("%s", printable(line))

    def ask(self, context: Any, shown: Mapping[str, Any], options: dict[str, Any], *, verb: str, sink: str) -> None:
        """Write the request for the task `approve`, from the JSON of `sexton show`.

        The request's body is the lead of `shown`, its question for `sink`, and its body.
        """
        folder = approval_folder_of(context)
        lead = f"**{shown['lead']}**\n\n" if shown.get("lead") else ""
        cluster = f" on cluster {self.cluster.name}" if self.cluster.name else ""
        request = Request(
            **folder.run,
            cluster_id=shown["cluster_id"],
            document_id=shown["id"],
            document_sha256=shown["sha256"],
            options=options,
            counts=shown["counts"],
            subject=f"{verb} what {shown['kind']} {shown['id'][:12]} names{cluster}?",
            body=f"{lead}{shown['questions'][sink]}\n\n{shown['body'].removeprefix(lead)}",
        )
        patience_s = RECORD_PATIENCE_S if settings().approval_login_required else 0
        require_login(triggered_through(folder, patience_s=patience_s), settings())
        prepare(folder, request)


class PreviewPlan(CommandTask, SkipMixin):
    """Shows a plan. In a dry run it also logs what would be done now, and skips the tasks after it."""

    inherits_from_skipmixin = True

    def execute(self, context: Any) -> None:
        options = params_of(context, ApplyTombstones)
        sink = options["sink"]
        _require_log_sink_allowed(options)
        shown = self.show("plan", options["plan_id"])
        self.log_text(shown["body"])
        if sink == DRY_RUN_SINK:
            arguments = ("apply", options["plan_id"], f"--sink={sink}")
            now = self.sexton(*arguments, conn_id=self.cluster.kafka_conn_id)
            self.log.info("dry run, nothing is written; now it would do: %s", counted(now) or "nothing")
            self.skip(ti=context["ti"], tasks=context["task"].get_flat_relatives(upstream=False))
            return
        if shown["what_if"]:
            raise CommandRefused("the plan was made with another retention than the broker's: it is never applied")
        if shown["over_limits"]:
            public = "the plan exceeds its limits: it is never applied"
            raise CommandRefused(public, message=f"{public}: {printable('; '.join(shown['over_limits']))}")
        self.ask(context, shown, options, verb="Delete", sink=sink)


class PreviewRestore(CommandTask):
    """Makes a restore, which goes into the archive, and shows it."""

    def execute(self, context: Any) -> None:
        options = params_of(context, RestoreOffsets)
        made = self.sexton("restore", *arguments_of(options), conn_id=self.cluster.kafka_conn_id)
        if not made.get("restore_id"):
            raise CommandRefused(f"there is nothing to restore: {counted(made) or 'no such offsets'}")
        shown = self.show("restore", str(made["restore_id"]))
        self.log_text(shown["body"])
        self.ask(context, shown, options, verb="Write back", sink="restore")


class ChangeCluster(CommandTask):
    """Does what was approved, after a complete check of the approval. Its XCom is the number of items by outcome."""

    kind = ""
    params_read: type[JobRequest]

    def execute(self, context: Any) -> dict[str, int]:
        request, answer, _ = self.consent(context)
        approver = answer.user_name or answer.user_id
        self.log.info("approved by %s (%s)", printable(approver), printable(answer.user_id))
        command = (*self.command(request), f"--approved-by={approver}")
        outcome = self.sexton(*command, conn_id=self.cluster.applier_conn_id)
        self.log.info("%s: %s", request.document_id, counted(outcome))
        return dict(outcome.get("counts") or {})

    def command(self, request: Request) -> tuple[str, ...]:
        raise NotImplementedError

    def shown_now(self, request: Request) -> dict[str, Any]:
        """Return the JSON of `sexton show` for what was requested, as it is now."""
        return self.show(self.kind, request.document_id)

    def consent(self, context: Any) -> tuple[Request, ConsentAnswer, dict[str, Any]]:
        """Return the request, the answer that allows it and `shown_now`. Without such an answer fail without retry."""
        folder = approval_folder_of(context)
        try:
            request = question(folder)
            now = self.shown_now(request)
            answer = consent(
                request,
                folder.read(ConsentAnswer),
                context["ti"].xcom_pull(task_ids=APPROVAL_TASK),
                options=params_of(context, self.params_read),
                document_sha256=now["sha256"],
                cluster_id=now["cluster_id"],
                triggered_by=context["dag_run"].triggering_user_name,
                triggered_through=triggered_through(folder),
                terms=settings(),
                now_ms=now_ms(),
            )
        except NoConsent as error:
            raise CommandRefused(f"nothing was done: {error}") from None
        return request, answer, now


class ApplyPlan(ChangeCluster):
    """Checks the approval again and applies the plan through its sink. The ledger has the outcome of each offset."""

    kind, params_read = "plan", ApplyTombstones

    def command(self, request: Request) -> tuple[str, ...]:
        _require_log_sink_allowed(request.options)
        allowed = "--allow-log-sink" if request.options["allow_log_sink"] else ""
        exactly = f"--plan-sha256={request.document_sha256}"
        return ("apply", request.document_id, exactly, f"--sink={request.options['sink']}", allowed)


class ApplyRestore(ChangeCluster):
    """Checks the approval again and commits the offsets of the restore."""

    kind, params_read = "restore", RestoreOffsets

    def command(self, request: Request) -> tuple[str, ...]:
        return ("restore", f"--id={request.document_id}", "--apply")


class NotifyOutcome(BaseOperator):
    """Logs the outcome, and raises an alert, which names no group, if anything was not done."""

    def __init__(self, *, outcome_of: str, **kwargs: Any) -> None:
        super().__init__(doc_md=getdoc(type(self)), **kwargs)
        self.outcome_of = outcome_of

    def execute(self, context: Any) -> None:
        counts = context["ti"].xcom_pull(task_ids=self.outcome_of) or {}
        text = counted({"counts": counts}) or "there was nothing to do"
        self.log.info("%s: %s", request_of(context).document_id, text)
        if any(number for outcome, number in counts.items() if outcome not in EXPECTED_OUTCOMES):
            raise_alert(context, message=f"not everything was done: {text}")


def triggered_through(folder: ApprovalFolder, *, patience_s: float = 0) -> str | None:
    """Return how the run was triggered; None if the scheduler has not recorded it within `patience_s`."""
    until = time.monotonic() + patience_s
    while (trigger := folder.read(Trigger)) is None and time.monotonic() < until:
        time.sleep(0.5)
    return None if trigger is None else trigger.triggered_through


def params_of(context: Any, form: type[JobRequest]) -> dict[str, Any]:
    """Return the run's params that `form` declares, with an empty text or list for null."""
    values = {name: context["params"][name] for name in form.model_fields}
    empty = {name: [] if field.default == [] else "" for name, field in form.model_fields.items()}
    return {name: empty[name] if value is None else value for name, value in values.items()}


def arguments_of(options: Mapping[str, Any]) -> list[str]:
    """Return the params of a run as options of a command. Command.run drops the empty ones."""
    given: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            given += [f"{flag.removesuffix('s')}={one}" for one in value]  # --group for each of `groups`
        else:
            given.append((flag if value else "") if isinstance(value, bool) else f"{flag}={value}")
    return given


def _require_log_sink_allowed(options: Mapping[str, Any]) -> None:
    """Refuse the sink log unless both the deployment and the run allow it."""
    if options["sink"] == LOG_SINK and not (options["allow_log_sink"] and settings().allow_log_sink):
        raise CommandRefused(
            "the sink log is off: it needs the setting SEXTON_ALLOW_LOG_SINK and the parameter allow_log_sink"
        )
