"""
### Maintenance

Checks and cleans up daily what the runs of `offset_retention` leave:

- *verify* reads a part of the archive's bytes, in each run the next part.
- *check_checkpoint* proves once a week that the newest checkpoint equals a full replay.
- *expire_runs* removes published runs that no retention rule keeps.
- *compact_tables* expires old Iceberg snapshots and branches of failed runs, rewrites small files, and removes old run
  folders.
- *reconcile* folds the whole archive and compares the result with what the live brokers answer. A difference that
  persists is **drift**, and raises an alert.

**By default it deletes nothing**: expire_runs and compact_tables log what they would remove. It never deletes archived
segments, or rows of `offset_changes`, `expiry_sweeps`, `commit_counts`, `apply_ledger`, `replica_state`,
`replica_differences`, `transactions` and `transactional_ids`, and never writes to the cluster.

| parameter | meaning | default |
|---|---|---|
| `delete` | delete what expire_runs and compact_tables find | `SEXTON_MAINTENANCE_DELETES`, else no |
| `subset` | part of the archive to read, `n/t` | the next of `SEXTON_MAINTENANCE_VERIFY_DAYS` parts |

Example: `{"delete": true, "subset": "1/1"}`

All runs of the last `SEXTON_MAINTENANCE_KEEP_ALL_HOURS` stay, then the last run of each hour for
`SEXTON_MAINTENANCE_KEEP_HOURLY_DAYS`, of each day for `SEXTON_MAINTENANCE_KEEP_DAILY_MONTHS`, and of each month
forever. Runs under hold (`SEXTON_MAINTENANCE_HOLDS`) and runs whose plan was applied always stay. Findings and drift
raise alerts. Safe to run again. With several clusters, each cluster has its own maintenance DAG; *compact_tables* of
the first cluster serves all of them, because they share their tables.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.forms import form
from sexton.airflow.spark_tasks import spark_job
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.of_dag(cluster, "maintenance", __doc__),
        schedule=defaults.timetable(cluster.maintenance_schedule),
        params=form(cluster, "expire_runs", "verify"),
        description="Verify the archive, expire published runs, compact tables, reconcile with the brokers; "
        "deletes only with the parameter `delete`",
    ):
        verify, check, expire = (spark_job(name, cluster) for name in ("verify", "check_checkpoint", "expire_runs"))
        # A damaged archive stops the deletions. Snapshots of expired runs can be expired only after expire_runs.
        verify >> [check, expire]
        if cluster.is_first:  # all clusters share the tables
            expire >> spark_job("compact_tables", cluster)
        spark_job("reconcile", cluster)  # independent of the others: it deletes nothing
