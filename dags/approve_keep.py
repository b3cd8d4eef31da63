"""
### Approve keep

Asks for the standing approval that `keep_offsets` needs: *propose* shows the terms and the holds of the policy,
*approve* asks a person, *record* writes the approval. Manual runs only. It changes nothing in the cluster.

| parameter | meaning | default |
|---|---|---|
| `patterns` | groups that are covered, each a regular expression (RE2) for the whole id | all |
| `max_offsets` | maximum number of offsets committed again per hour | 10,000 |
| `max_joins` | maximum number of Empty groups joined and left per hour | 1,000 |
| `days` | days from the answer until the approval ends, at most 90 | 30 |
| `revoke` | end the approval in force immediately, without asking anybody | no |

Example: `{"patterns": ["billing-.*"], "days": 90}`

A standing approval is given like the approval of a deletion: by another person than whoever triggered the run, with no
default answer, and only for the terms and the policy that were shown. A new approval replaces the one in force. An
approval is void once the policy changes, its days are over, or it is revoked. The Airflow Variable
`sexton_keep_approval` has the id of the approval in force, the SHA-256 of its document in the archive. Deleting the
Variable ends the approval, too.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.approval import Approval
from sexton.airflow.change_tasks import APPROVAL_TASK
from sexton.airflow.keep_tasks import ProposeApproval, RecordApproval
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.by_hand(cluster, "approve_keep", __doc__),
        schedule=None,
        description="Ask a person for the standing approval of keep_offsets, or revoke it",
    ):
        propose = ProposeApproval(task_id="propose", cluster=cluster)
        approve = Approval(task_id=APPROVAL_TASK)
        record = RecordApproval(task_id="record", cluster=cluster)
        # record re-verifies the approval: marking `approve` successful by hand writes nothing.
        propose >> approve >> record
