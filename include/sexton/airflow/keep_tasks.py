"""The tasks that keep offsets alive, and the tasks that ask for the standing approval to do so.

    keep                             keep_offsets
    propose >> approve >> record     approve_keep

The approval is a document in the archive (execution/standing_approval.py). An Airflow Variable has the SHA-256 of the
document in force. Access to files alone does not allow anybody to write the Variable, and no call of Airflow's API can
write the document.
"""

from contextlib import suppress
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.bases.skipmixin import SkipMixin

from sexton.airflow.alerts import raise_alert
from sexton.airflow.change_tasks import ChangeCluster, CommandTask, arguments_of, params_of
from sexton.airflow.commands import CommandFailed, CommandRefused, counted
from sexton.airflow.consent import Request
from sexton.errors import printable
from sexton.job_params import ApproveKeep
from sexton.settings import Cluster, settings

KEPT = ("keep", "join", "restore")
"""The actions of `sexton keep` that change the cluster, as its dry run names them."""


def approval_variable(cluster: Cluster) -> str:
    """Return the name of the Variable with the id of the cluster's standing approval."""
    return cluster.scoped_name("sexton_keep_approval")


class KeepOffsets(CommandTask):
    """Takes a snapshot, and keeps alive the offsets under holds that the broker would expire before the run after next.

    Without a standing approval it is a dry run, and raises an alert if there is something to keep. The task fails if an
    offset could not be kept.
    """

    def execute(self, context: Any) -> dict[str, int]:
        approval_id = Variable.get(approval_variable(self.cluster), default=None)
        if not approval_id:
            shown = self.sexton("keep", conn_id=self.cluster.kafka_conn_id)
            would: dict[str, int] = shown.get("would") or {}
            self.log.info("dry run, nobody has approved anything; it would do: %s", counted({"counts": would}) or "-")
            if due := sum(would.get(what, 0) for what in KEPT):
                raise_alert(context, message=f"{due} offsets under holds would be kept: trigger approve_keep")
            return {}
        # The reader's snapshot: the applier may not see every topic.
        self.sexton("snapshot", conn_id=self.cluster.kafka_conn_id)
        arguments = ("keep", "--no-snapshot", "--apply", f"--approval={approval_id}")
        kept = self.sexton(*arguments, conn_id=self.cluster.applier_conn_id)
        self.log.info("%s", counted(kept) or "nothing falls due")
        return dict(kept.get("counts") or {})


class ProposeApproval(CommandTask, SkipMixin):
    """Shows the terms of a standing approval. A run with `revoke` ends the approval in force, and asks nobody."""

    inherits_from_skipmixin = True

    def execute(self, context: Any) -> None:
        options = params_of(context, ApproveKeep)
        if options["revoke"]:
            name = approval_variable(self.cluster)
            approval_id = Variable.get(name, default=None)
            if approval_id:
                self.log.info("no longer in force: standing approval %s", printable(approval_id))
                Variable.delete(name)
                self.sexton("keep", f"--revoke={approval_id}")
            self.skip(ti=context["ti"], tasks=context["task"].get_flat_relatives(upstream=False))
            return
        shown = _show(self, options)
        self.log_text(shown["body"])
        self.ask(context, shown, options, verb="Keep alive", sink="keep")


class RecordApproval(ChangeCluster):
    """Checks the answer, and writes the standing approval, which replaces the one in force. No cluster is changed."""

    params_read = ApproveKeep

    def shown_now(self, request: Request) -> dict[str, Any]:
        return _show(self, request.options)

    def execute(self, context: Any) -> dict[str, int]:
        from sexton.archive.folder import filesystem
        from sexton.execution.standing_approval import StandingApproval, Terms, write_approval

        request, answer, shown = self.consent(context)
        approval = StandingApproval(
            terms=Terms(**shown["terms"]),
            approved_by=answer.user_name or answer.user_id,
            approved_at_ms=answer.answered_at_ms,
            dag_id=request.dag_id,
            run_id=request.run_id,
            request_sha256=answer.request_sha256,
        )
        approval_id = write_approval(*filesystem(settings().archive_uri), approval)
        name = approval_variable(self.cluster)
        before = Variable.get(name, default=None)
        Variable.set(name, approval_id, description="the standing approval of keep_offsets; delete it to end it")
        self.log.info("in force: standing approval %s of %s", approval_id, printable(approval.approved_by))
        if before and before != approval_id:
            with suppress(CommandFailed, CommandRefused):  # it is not used any more in any case
                self.sexton("keep", f"--revoke={before}")
        return {}


def _show(task: CommandTask, options: dict[str, Any]) -> dict[str, Any]:
    terms = {name: value for name, value in options.items() if name != "revoke"}
    return task.sexton("show", "approval", *arguments_of(terms))
