"""
### Audit of lag

Finds out how long each group's first unread message has been waiting, when retention deletes it, and which groups would
not continue at their offsets when they come back.

The task asks the brokers how old the messages at the committed offsets of the newest published run are (ListOffsets and
OffsetForLeaderEpoch; it needs only DESCRIBE on the topics, and reads no message), and archives each answer. Once DuckDB
has checked the result, it goes to the table `time_lag`, with the instant of that run. An alert is raised about offsets
that would reset now but not at the previous audit, and about offsets that lose unread messages within
`SEXTON_LAG_ALERT_HOURS`.

By default it runs after each run of `offset_retention` whose instant is the latest published so far, so not after
backfills of the past. `SEXTON_LAG_SCHEDULE` can set a cron instead. Safe to run again at any time.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.spark_tasks import spark_job
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.of_dag(cluster, "audit_lag", __doc__),
        schedule=defaults.audit_schedule(cluster.lag_schedule, cluster, "audit_lag"),
        description="Measure the lag of groups in time, what they will lose, and which would be reset",
    ):
        spark_job("audit_lag", cluster)
