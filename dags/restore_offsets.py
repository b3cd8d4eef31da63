"""
### Restore offsets

Commits offsets again that were deleted or expired: what a plan deleted, or what was committed at a past instant that
the archive covers. *diff* compares then with now, *approve* asks a person, *restore* commits, *notify* reports the
outcome. Manual runs only.

| parameter | meaning | default |
|---|---|---|
| `from_ledger` | plan_id: what the ledger recorded as deleted for it | one of these three |
| `from_plan` | plan_id: every value of its undo file | |
| `as_of` | what was committed at this instant, ISO 8601 or epoch milliseconds | |
| `groups`, `pattern` | only these groups, by id or by a regular expression (RE2) | all |
| `topics` | only these topics, `topic` or `topic:partition` | all |
| `clamp` | move offsets outside of their partition's log to its start or end | no |
| `overwrite` | also restore offsets that were committed again since | no |

Example: `{"from_ledger": "3f9c...", "groups": ["billing"]}`

A restore is approved like a deletion: by another person than whoever triggered the run, with no default answer, and
only for the diff that was shown. Groups with members are refused, because the coordinator would refuse the commits. A
restore cannot bring back commit timestamps (retention starts again), a group's type, generation or members.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.approval import Approval
from sexton.airflow.change_tasks import APPROVAL_TASK, ApplyRestore, NotifyOutcome, PreviewRestore
from sexton.airflow.pools import APPLY_POOL
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.by_hand(cluster, "restore_offsets", __doc__),
        schedule=None,
        description="Commit lost offsets again, from the ledger, a plan or a past instant; asks for approval",
    ):
        diff = PreviewRestore(task_id="diff", cluster=cluster)
        approve = Approval(task_id=APPROVAL_TASK)
        restore = ApplyRestore(task_id="restore", cluster=cluster, pool=cluster.scoped_name(APPLY_POOL))
        notify = NotifyOutcome(task_id="notify", outcome_of=restore.task_id)
        # restore re-verifies the approval: marking `approve` successful by hand writes nothing.
        diff >> approve >> restore >> notify
