"""
### Offset retention

Describes the consumer groups of a Kafka cluster at one instant (**as_of**) and says which committed offsets its group
coordinator would expire, and why: *snapshot* the offsets topic into the archive, *replay* it as a coordinator does when
it loads, *judge* each committed offset, *plan* the tombstones of the next sweep, *validate* the tables, *publish* them.

**It never deletes.** The plan is its last word; applying one is another DAG's work.

| parameter | meaning | default |
|---|---|---|
| `as_of` | the instant to describe, ISO 8601 or epoch milliseconds | end of the data interval |
| `since` | tell what changed from this instant on | start of the data interval |
| `retention_minutes` | judge with this retention; its plan is to look at only | what the broker says |
| `profile` | whose rules | `auto`: the recorded broker's |
| `policy` | judge by this policy, a file beside that of `SEXTON_POLICY` | that of `SEXTON_POLICY`, if any |
| `full` | read the whole log, from no checkpoint on | no: only what is new since the nearest one |

Example: `{"as_of": "2026-11-21T06:00:00Z", "retention_minutes": 10080}`

Safe to run again and to backfill: a run of a past interval reads the same archived bytes and replaces its own rows.
An instant that the archive cannot answer for is **skipped**, never an empty table. Bytes that cannot be decoded are
rows of `undecodable_records`, an alert, and no tombstone for their log partition. An expectation that fails is an
alert, and a critical one keeps the run from being published. A run that takes longer than `SEXTON_DEADLINE_MINUTES` is
an alert, too.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.spark_tasks import STAGES, macros, spark_job
from sexton.settings import Cluster, settings


def offset_retention(cluster: Cluster) -> None:
    outlets = {"publish_tables": defaults.table_assets(cluster)}
    with DAG(
        dag_id=cluster.scoped_name("offset_retention"),
        schedule=defaults.timetable(cluster.schedule),
        start_date=defaults.START_DATE,
        catchup=settings().catchup,
        max_active_runs=settings().max_active_runs,
        deadline=defaults.deadline(cluster.deadline_minutes),
        default_args=defaults.default_args(),
        params=defaults.retention_params(cluster),
        user_defined_macros=macros(cluster),
        description="Replay __consumer_offsets, judge, plan, validate, publish; never deletes",
        tags=defaults.tags(cluster),
        doc_md=defaults.doc_of(__doc__, cluster),
    ):
        snapshot, replay, find, plan, validate, publish = (
            spark_job(name, cluster, outlets=outlets.get(name, ())) for name in STAGES
        )
        # publish comes only after validate: nobody reads a table that no check has read.
        snapshot >> replay >> find >> plan >> validate >> publish


for cluster in settings().every_cluster:
    offset_retention(cluster)
