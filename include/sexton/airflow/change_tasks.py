"""The tasks that change a cluster, and those around them: show what would be done, do what was approved, tell what was.

    preview >> approve >> act >> notify

What only reads goes by the reader's connection. Acting goes by the applier's, which nothing else uses: without it the
task fails, it never falls back to the reader's. Commands are those of `sexton`, in a process of their own
(commands.py); whether they may be run is checked here first (consent.py), and once more by the command.
"""

import time
from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.skipmixin import SkipMixin

from sexton.airflow.alerts import raise_alert
from sexton.airflow.approval import approval_folder_of, request_of, terms
from sexton.airflow.brokers import BOOTSTRAP, client_config, config_file
from sexton.airflow.commands import Command, CommandRefused, Done, counted, printable
from sexton.airflow.consent import (
    Answer,
    NoConsent,
    Request,
    consent,
    read_answer,
    read_trigger,
    require_login,
    write_request,
)
from sexton.settings import Cluster, settings

APPROVAL_TASK = "approve"
"""The task whose answer acting asks for."""
DRY_RUN_SINK, LOG_SINK = "dry_run", "log"
SINKS = (DRY_RUN_SINK, "coordinator", LOG_SINK)
"""Where tombstones go: nowhere, through the group coordinators, or into the log itself."""
AS_IT_SHOULD_BE = frozenset({"done", "gone"})
"""Outcomes that nobody has to hear of: what was asked for is so."""
LOG_SINK_WARNING = (
    "**Sink `log`**: tombstones are written into the offsets topic itself, past the group coordinators, which go on "
    "answering from memory until they load the log partition again."
)
PLAN_OPTIONS = ("plan_id", "sink", "allow_log_sink")
RESTORE_OPTIONS = ("from_ledger", "from_plan", "as_of", "groups", "pattern", "topics", "clamp", "overwrite")
LISTS = ("groups", "topics")


class CommandTask(BaseOperator):
    """A task that runs commands of `sexton` about one cluster, which end when it does."""

    def __init__(self, *, cluster: Cluster, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self._command = Command()

    @property
    def where(self) -> str:
        """The cluster, for a sentence that people read before they answer; nothing where clusters have no names."""
        return f" on cluster {self.cluster.name}" if self.cluster.name else ""

    def on_kill(self) -> None:
        self._command.stop()

    def sexton(self, *arguments: str, conn_id: str | None = None) -> Done:
        """Run a command, with the client configuration of a connection where one is named.

        The archive is that of the settings, which the command reads by itself: its URI may hold a login.
        """
        given = [*arguments, f"--cluster-id={self.cluster.cluster_id or ''}", "--json"]
        variables = {"SEXTON_POLICY": self.cluster.policy}
        if conn_id is None:
            return self._command.run(given, variables=variables)
        config = client_config(conn_id)
        with config_file(config) as file:
            broker = (f"--bootstrap-servers={config[BOOTSTRAP]}", f"--client-config={file or ''}")
            return self._command.run([*given, *broker], variables=variables)

    def shown(self, kind: str, document_id: str) -> dict[str, Any]:
        """What the archive keeps by that id, verified: see `sexton show`."""
        return self.sexton("show", kind, document_id).require_success("show")

    def ask(self, context: Any, told: Mapping[str, Any], options: Mapping[str, Any], subject: str, intro: str) -> None:
        """Leave what people are to be asked for the next task: the first line that `shown` gave, if any, then `intro`,
        then the rest."""
        run, folder = context["dag_run"], approval_folder_of(context)
        lead, body = f"**{told['lead']}**\n\n" if told.get("lead") else "", told["body"]
        try:
            require_login(read_trigger(folder), terms())
        except NoConsent as error:
            raise CommandRefused(str(error), public=str(error)) from None
        request = Request(
            dag_id=run.dag_id,
            run_id=run.run_id,
            document_id=told["id"],
            document_sha256=told["sha256"],
            options=options,
            counts=told["counts"],
            subject=subject,
            body=f"{lead}{intro}\n\n{body.removeprefix(lead)}",
        )
        write_request(folder, request)


class PreviewPlan(CommandTask, SkipMixin):
    """Shows a plan. With the sink `dry_run` that is all: nobody is asked, and nothing that follows runs."""

    inherits_from_skipmixin = True

    def execute(self, context: Any) -> None:
        options = options_of(context, PLAN_OPTIONS)
        sink = options["sink"]
        _require_log_sink_allowed(options)
        told = self.shown("plan", options["plan_id"])
        _tell_log(self.log, told["body"])
        if sink == DRY_RUN_SINK:
            arguments = ("apply", options["plan_id"], f"--sink={sink}")
            now = self.sexton(*arguments, conn_id=self.cluster.kafka_conn_id).require_success("apply")
            self.log.info("nothing is written; it would be now: %s", counted(now) or "nothing")
            self.skip(ti=context["ti"], tasks=context["task"].get_flat_relatives(upstream=False))
            return
        if told["what_if"]:
            public = "the plan is a what-if by another retention than the broker's: it is never applied"
            raise CommandRefused(public, public=public)
        if told["over_limits"]:
            public = "the plan exceeds its limits: it is never applied"
            raise CommandRefused(f"{public}: {printable('; '.join(told['over_limits']))}", public=public)
        intro = f"Approving deletes what this plan names from the cluster, by the sink `{sink}`."
        if sink == LOG_SINK:
            intro = f"{intro}\n\n{LOG_SINK_WARNING}"
        self.ask(context, told, options, subject=f"Delete what plan {told['id'][:12]} names{self.where}?", intro=intro)


class PreviewRestore(CommandTask):
    """Makes a restore, which the archive keeps, and shows it."""

    def execute(self, context: Any) -> None:
        options = options_of(context, RESTORE_OPTIONS)
        done = self.sexton("restore", *restore_arguments(options), conn_id=self.cluster.kafka_conn_id)
        made = done.require_success("restore")
        if not made.get("restore_id"):
            public = f"there is nothing to restore: {counted(made) or 'no such offsets'}"
            raise CommandRefused(public, public=public)
        told = self.shown("restore", str(made["restore_id"]))
        _tell_log(self.log, told["body"])
        subject = f"Write back what restore {told['id'][:12]} names{self.where}?"
        self.ask(context, told, options, subject=subject, intro="Approving commits these offsets again.")


class Act(CommandTask):
    """Does what was approved, once everything about the approval has been looked at again; its XCom are counts."""

    kind = ""
    options: tuple[str, ...] = ()

    def execute(self, context: Any) -> dict[str, int]:
        request = request_of(context)
        answer = self.consent(context, request)
        approver = answer.user_name or answer.user_id
        self.log.info("approved by %s (%s)", printable(approver), printable(answer.user_id))
        command = self.command(request)
        done = self.sexton(*command, f"--approved-by={approver}", conn_id=self.cluster.applier_conn_id)
        told = done.require_success(command[0])
        self.log.info("%s: %s", request.document_id, counted(told))
        counts: dict[str, int] = told.get("counts") or {}
        return counts

    def command(self, request: Request) -> tuple[str, ...]:
        """The command that does it."""
        raise NotImplementedError

    def consent(self, context: Any, request: Request) -> Answer:
        """The answer that allows it; fails the task for good when there is none that does."""
        now, folder = self.shown(self.kind, request.document_id), approval_folder_of(context)
        try:
            return consent(
                request,
                read_answer(folder),
                context["ti"].xcom_pull(task_ids=APPROVAL_TASK),
                options=options_of(context, self.options),
                document_sha256=now["sha256"],
                triggered_by=context["dag_run"].triggering_user_name,
                triggered_through=read_trigger(folder),
                terms=terms(),
                now_ms=time.time_ns() // 1_000_000,
            )
        except NoConsent as error:
            public = f"nothing was done: {error}"
            raise CommandRefused(public, public=public) from None


class ApplyPlan(Act):
    """Applies a plan through its sink."""

    kind, options = "plan", PLAN_OPTIONS

    def command(self, request: Request) -> tuple[str, ...]:
        _require_log_sink_allowed(request.options)
        allowed = "--allow-log-sink" if request.options["allow_log_sink"] else ""
        exactly = f"--plan-sha256={request.document_sha256}"
        return ("apply", request.document_id, exactly, f"--sink={request.options['sink']}", allowed)


class ApplyRestore(Act):
    """Commits the offsets of a restore."""

    kind, options = "restore", RESTORE_OPTIONS

    def command(self, request: Request) -> tuple[str, ...]:
        return ("restore", f"--id={request.document_id}", "--apply")


class NotifyOutcome(BaseOperator):
    """Says what came of it, and raises an alert when anything was not done; names no group."""

    def __init__(self, *, act: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.act = act

    def execute(self, context: Any) -> None:
        counts = context["ti"].xcom_pull(task_ids=self.act) or {}
        told = counted({"counts": counts}) or "there was nothing to do"
        self.log.info("%s: %s", request_of(context).document_id, told)
        if any(number for outcome, number in counts.items() if outcome not in AS_IT_SHOULD_BE):
            raise_alert(context, severity="warning", message=f"not everything was done: {told}")


def options_of(context: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """What the run was triggered with. A field that was left empty may be null; here it is an empty text or list."""
    values = {name: context["params"][name] for name in names}
    empty = {name: [] if name in LISTS else "" for name in names}
    return {name: empty[name] if value is None else value for name, value in values.items()}


def restore_arguments(options: Mapping[str, Any]) -> list[str]:
    """The options of `sexton restore` that say from where, of what, and how; those without a value are left out."""
    return [
        f"--from-ledger={options['from_ledger']}",
        f"--from-plan={options['from_plan']}",
        f"--as-of={options['as_of']}",
        *(f"--group={group}" for group in options["groups"]),
        f"--pattern={options['pattern']}",
        *(f"--topic={topic}" for topic in options["topics"]),
        "--clamp" if options["clamp"] else "",
        "--overwrite" if options["overwrite"] else "",
    ]


def _require_log_sink_allowed(options: Mapping[str, Any]) -> None:
    """The log sink is asked for twice: by the deployment and by the run."""
    if options["sink"] == LOG_SINK and not (options["allow_log_sink"] and settings().allow_log_sink):
        public = "the sink log is off: it takes the setting SEXTON_ALLOW_LOG_SINK and the parameter allow_log_sink"
        raise CommandRefused(public, public=public)


def _tell_log(log: Any, text: str) -> None:
    for line in text.splitlines():
        log.info("%s", printable(line))
