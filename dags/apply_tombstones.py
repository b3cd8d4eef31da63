"""
### Apply tombstones

Deletes the offsets and groups that a plan of `offset_retention` names, after a person has approved it: *preview* shows
the plan, *approve* asks a person, *apply* deletes, *notify* reports the outcome. Manual runs only: no schedule or
backfill deletes anything.

**By default it deletes nothing**: with the sink `dry_run` a run shows the plan, reports what would be done, and ends.

| parameter | meaning | default |
|---|---|---|
| `plan_id` | the plan, 64 hexadecimal digits: from its page, or `plan_id` in the table `runs` | none, required |
| `sink` | `dry_run`; `coordinator`: through the group coordinators; `log`: into the topic itself | `dry_run` |
| `allow_log_sink` | required for the sink `log` | no |

Example: `{"plan_id": "3f9c...", "sink": "coordinator"}`

There is no default answer. No answer within `SEXTON_APPROVAL_TIMEOUT_HOURS` means no and fails the run. *Reject* ends
the run without deletions. Whoever triggered the run cannot approve it, unless `SEXTON_APPROVAL_SELF_ALLOWED` is set;
`SEXTON_APPROVERS` lists who may. *apply* checks the approval again: who approved what and when
(`SEXTON_APPROVAL_MAX_AGE_HOURS`), and that the plan is byte for byte the one that was shown. It checks each offset
right before the call, writes the intent and the outcome to the ledger, and skips offsets that have changed. It uses the
connection `SEXTON_APPLIER_CONN_ID`, which only the tasks that change the cluster use. Safe to run again: finished items
are skipped, the rest continues.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.approval import Approval
from sexton.airflow.change_tasks import APPROVAL_TASK, ApplyPlan, NotifyOutcome, PreviewPlan
from sexton.airflow.pools import APPLY_POOL
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.by_hand(cluster, "apply_tombstones", __doc__),
        schedule=None,
        description="Delete what an approved plan names; asks for approval; a dry run unless a sink is chosen",
    ):
        preview = PreviewPlan(task_id="preview", cluster=cluster)
        approve = Approval(task_id=APPROVAL_TASK)
        apply = ApplyPlan(task_id="apply", cluster=cluster, pool=cluster.scoped_name(APPLY_POOL))
        notify = NotifyOutcome(task_id="notify", outcome_of=apply.task_id)
        # apply re-verifies the approval: marking `approve` successful by hand deletes nothing.
        preview >> approve >> apply >> notify
