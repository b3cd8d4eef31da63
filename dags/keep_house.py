"""
### Keep house

Looks after what the runs of `offset_retention` leave behind: *verify* reads a part of the archive's bytes, each time
the next one; *recheck* proves, once a week, that the newest checkpoint is what a full replay gives; *thin* lets
published runs go that no rule keeps; *tidy* expires Iceberg's old snapshots and branches of failed runs, makes small
files few, and removes old run folders. Beside them *drill* folds the archive anew and holds it against what the live
brokers answer: what differs and stays so is **drift**, an alert.

**By default it deletes nothing**: thin and tidy say in their log what they would remove. It never deletes archived
segments or the ledger of changes, and never writes to the cluster.

| parameter | meaning | default |
|---|---|---|
| `delete` | remove what may go | the setting `SEXTON_HOUSE_DELETES`, else no |
| `subset` | part of the archive to read, `n/t` | the next of `SEXTON_HOUSE_VERIFY_DAYS` parts |

Example: `{"delete": true, "subset": "1/1"}`

All runs of the last `SEXTON_HOUSE_KEEP_ALL_HOURS` stay, then the last of each hour for `SEXTON_HOUSE_KEEP_HOURLY_DAYS`,
of each day for `SEXTON_HOUSE_KEEP_DAILY_MONTHS`, of each month for ever; with them whatever is held
(`SEXTON_HOUSE_HOLDS`) and whatever plan was applied. Findings and drift are alerts; safe to run again. Of several
clusters each has a house of its own, but for the tables: the first one's *tidy* is for all of them.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.tasks import house_job, macros
from sexton.settings import Cluster, settings


def keep_house(cluster: Cluster) -> None:
    with DAG(
        dag_id=cluster.scoped_name("keep_house"),
        schedule=defaults.timetable(cluster.house_schedule),
        start_date=defaults.START_DATE,
        catchup=False,  # ages are told by today: a day that was missed has nothing to make up for
        max_active_runs=1,
        default_args=defaults.default_args(),
        params=defaults.house_params(),
        user_defined_macros=macros(cluster),
        description="Verify the archive, thin published runs, tidy the lake, drill the restore; deletes only if told",
        tags=defaults.tags(cluster),
        doc_md=defaults.doc_of(__doc__, cluster),
    ):
        verify, recheck, thin = (house_job(name, cluster) for name in ("verify", "recheck", "thin"))
        # Nothing goes on a day on which the archive is not what was put into it; what thin lets go, tidy can expire.
        verify >> [recheck, thin]
        if cluster.is_first:  # the lake is one
            thin >> house_job("tidy", cluster)
        house_job("drill", cluster)  # beside them: it waits for a snapshot's turn, not for what is removed


for cluster in settings().every_cluster:
    keep_house(cluster)
