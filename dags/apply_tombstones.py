"""
### Apply tombstones

Deletes what a plan of `offset_retention` names, after a person has approved it: *preview* the plan, *approve* it,
*apply* it, *notify* of the outcome. Runs by hand only; no schedule and no backfill can delete.

**By default it deletes nothing**: with the sink `dry_run` a run shows the plan, says what would be done now, and ends.

| parameter | meaning | default |
|---|---|---|
| `plan_id` | the plan, 64 digits: from its page, or `plan_id` in the table `runs` | none, it must be given |
| `sink` | `dry_run`: write nothing; `coordinator`: by the group coordinators; `log`: into the topic | `dry_run` |
| `allow_log_sink` | the sink `log` is meant | no |

Example: `{"plan_id": "3f9c...", "sink": "coordinator"}`

There is no default answer. No answer within `SEXTON_APPROVAL_TIMEOUT_HOURS` means no and fails the run; *Reject* ends
it and deletes nothing. Who triggered the run cannot approve it (`SEXTON_APPROVAL_SELF_ALLOWED`); `SEXTON_APPROVERS`
says who may. Applying looks at the approval again by itself: who, what, when (`SEXTON_APPROVAL_MAX_AGE_HOURS`), and
that the plan is byte for byte the one that was shown. It then checks each offset right before its call, writes intent
and outcome of each to the ledger, and leaves alone what has changed since. It uses the connection of
`SEXTON_APPLIER_CONN_ID`, which nothing else does. Safe to run again: what is done stays done, the rest goes on.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.approval import Approval
from sexton.airflow.change_tasks import APPROVAL_TASK, ApplyPlan, NotifyOutcome, PreviewPlan
from sexton.airflow.forms import applying_params
from sexton.airflow.pools import APPLY_POOL
from sexton.settings import Cluster, settings


def apply_tombstones(cluster: Cluster) -> None:
    with DAG(
        dag_id=cluster.scoped_name("apply_tombstones"),
        schedule=None,
        allowed_run_types=defaults.BY_HAND,
        start_date=defaults.START_DATE,
        catchup=False,
        max_active_runs=defaults.WAITING_RUNS,
        default_args=defaults.default_args(),
        params=applying_params(),
        description="Delete what an approved plan names; asks a person first, deletes nothing unless told to",
        tags=defaults.tags(cluster),
        doc_md=defaults.doc_of(__doc__, cluster),
    ):
        preview = PreviewPlan(task_id="preview", cluster=cluster)
        approve = Approval(task_id=APPROVAL_TASK)
        apply = ApplyPlan(task_id="apply", cluster=cluster, pool=cluster.scoped_name(APPLY_POOL))
        notify = NotifyOutcome(task_id="notify", act=apply.task_id)
        # What the arrows promise, apply does not believe: it asks the answer itself.
        preview >> approve >> apply >> notify


for cluster in settings().every_cluster:
    apply_tombstones(cluster)
