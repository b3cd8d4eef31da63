"""
### Audit of lag

Finds out how long each group's first unread message has been waiting, when retention deletes it, and which groups would
not continue at their offsets when they come back.

The task asks the brokers how new their logs are at the committed offsets of the newest published run (ListOffsets and
OffsetForLeaderEpoch: DESCRIBE on the topics is all it needs, no message is read) and archives each answer. The result
goes to the table `time_lag`, once DuckDB has checked it, under the instant of that run. Offsets that would reset since
the previous audit raise an alert; so do those that lose unread messages within `SEXTON_LAG_ALERT_HOURS`.

It runs after each run of `offset_retention` that publishes a new newest instant, not after backfills of the past, or by
`SEXTON_LAG_SCHEDULE`. Safe to run again at any time.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.spark_tasks import spark_job
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.of_dag(cluster, "audit_lag", __doc__),
        schedule=defaults.audit_schedule(cluster.lag_schedule, cluster, "audit_lag"),
        description="Measure how late groups are in time, what they will lose, and which would reset",
    ):
        spark_job("audit_lag", cluster)
