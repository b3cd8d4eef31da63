"""
### Keep offsets

Carries out the holds of the policy that say `keep`: offsets that the broker would expire before the run after next are
committed again unchanged, Empty groups of consumers are joined and left, and offsets that a sweep has deleted
nevertheless are put back where the hold says `restore: true`.

**Paused until you unpause it, and a dry run until somebody has approved it**: a dry run logs what would be kept, and
raises an alert if that is anything. Trigger `approve_keep` for a standing approval. Each run, and each step of a run,
checks that approval: its hash, its end, the policy, whether it was revoked. A run stays within the approval's limits
for offsets and joins per hour, counted from the ledger. The offsets that expire first are kept first.

If an offset under a hold could not be kept, or the approval is no longer in force, the run fails with an alert (exit
code 6). The snapshot is taken with the reader's connection, the rest is done with `SEXTON_APPLIER_CONN_ID`. Safe to run
again at any time.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.keep_tasks import KeepOffsets
from sexton.airflow.pools import KAFKA_POOL
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.of_dag(cluster, "keep_offsets", __doc__),
        schedule=defaults.timetable("30 * * * *"),  # `sexton keep --every` is an hour
        allowed_run_types=("scheduled", "manual"),  # type: ignore[arg-type]  # the enum has no public name
        is_paused_upon_creation=True,
        description="Keep offsets under holds from expiring at the broker; a dry run without a standing approval",
    ):
        KeepOffsets(task_id="keep", cluster=cluster, pool=cluster.scoped_name(KAFKA_POOL))
