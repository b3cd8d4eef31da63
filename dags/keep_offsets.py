"""
### Keep offsets

Carries out the holds of the policy that say `keep`: offsets that the broker would expire before the run after next are
committed again unchanged, Empty groups of consumers are joined and left, and offsets that a sweep has deleted
nevertheless are put back where the hold says `restore: true`.

**Off until you switch it on, and a dry run until somebody has approved it**: its log then says what would be kept, and
an alert that something would be. Trigger `approve_keep` for a standing approval. Each run, and each of its steps,
checks that approval: its hash, its end, the policy, whether it was revoked. It stays within the approval's limits of
offsets and joins an hour, counted from the ledger; what is due first comes first.

A held offset that could not be kept fails the run with an alert (exit code 6), and so does an approval that is no
longer in force. The snapshot is taken with the reader's connection, the rest is done with `SEXTON_APPLIER_CONN_ID`.
Safe to run again at any time.
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
