"""
### Audit of replicas

Compares what each broker's own replica of `__consumer_offsets` would serve if it became the leader. Each replica
compacts its log on its own: a tombstone or a transaction marker that the cleaner removes while a replica is down never
reaches that replica. When such a replica becomes the leader, deleted offsets and groups come back, aborted offsets
count as committed, or a whole log partition cannot be loaded.

The task asks every broker for its own bytes (consumers may fetch from followers; it needs only READ on the topic), and
compares them record by record. Once Great Expectations has checked the result, it goes to the tables `replica_state`
and `replica_differences`. The archive, which no cleaner touches, decides which replica is right. A difference raises an
alert. **Nothing is repaired**: the dashboard and the tables show the steps.

| parameter | meaning | default |
|---|---|---|
| `log_partitions` | compare only these, such as `7,12` | all |

Example: `{"log_partitions": "7,12"}`

It reads all replicas once, at most `SEXTON_FETCH_BYTES_PER_SECOND` in total. Safe to run again at any time.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.forms import form
from sexton.airflow.spark_tasks import spark_job
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.of_dag(cluster, "audit_replicas", __doc__),
        schedule=defaults.timetable(cluster.replicas_schedule),
        params=form(cluster, "audit_replicas"),
        description="Compare the replicas of the offsets topic: what clients would read if another broker led",
    ):
        spark_job("audit_replicas", cluster)
