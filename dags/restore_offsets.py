"""
### Restore offsets

Commits offsets again that are gone: what a plan has deleted, or what was committed at any past instant that the archive
can answer for. *diff* holds then against now, *approve* asks a person, *restore* commits, *notify* reports the outcome.
Runs by hand only.

| parameter | meaning | default |
|---|---|---|
| `from_ledger` | plan_id: what the ledger says was deleted for it | one of these three |
| `from_plan` | plan_id: every value of its undo file | |
| `as_of` | what was committed at this instant, ISO 8601 or epoch milliseconds | |
| `groups`, `pattern` | only these groups, by id or by a regular expression (RE2) | all |
| `topics` | only these topics, `topic` or `topic:partition` | all |
| `clamp` | move offsets that are outside of their partition's log into it | no |
| `overwrite` | also where something has been committed since | no |

Example: `{"from_ledger": "3f9c...", "groups": ["billing"]}`

Approved like deleting: by another person than who triggered the run, with no default answer, bound to the very diff
that was shown. Groups with members are refused, as their coordinator refuses them. What cannot come back: commit
timestamps (retention starts anew), a group's type, generation and members.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.approval import Approval
from sexton.airflow.change_tasks import APPROVAL_TASK, ApplyRestore, NotifyOutcome, PreviewRestore
from sexton.airflow.forms import restoring_params
from sexton.airflow.pools import APPLY_POOL
from sexton.settings import Cluster, settings


def restore_offsets(cluster: Cluster) -> None:
    with DAG(
        dag_id=cluster.scoped_name("restore_offsets"),
        schedule=None,
        allowed_run_types=defaults.BY_HAND,
        start_date=defaults.START_DATE,
        catchup=False,
        max_active_runs=defaults.WAITING_RUNS,
        default_args=defaults.default_args(),
        params=restoring_params(),
        description="Commit offsets again that are gone: from the ledger, a plan or a past instant; asks a person",
        tags=defaults.tags(cluster),
        doc_md=defaults.doc_of(__doc__, cluster),
    ):
        diff = PreviewRestore(task_id="diff", cluster=cluster)
        approve = Approval(task_id=APPROVAL_TASK)
        restore = ApplyRestore(task_id="restore", cluster=cluster, pool=cluster.scoped_name(APPLY_POOL))
        notify = NotifyOutcome(task_id="notify", act=restore.task_id)
        # What the arrows promise, restore does not believe: it asks the answer itself.
        diff >> approve >> restore >> notify


for cluster in settings().every_cluster:
    restore_offsets(cluster)
