"""
### Offset retention

Describes the consumer groups of a Kafka cluster at one instant (**as_of**) and reports which committed offsets the
group coordinator would expire, and why: *snapshot* the offsets topic into the archive, *replay* it as a coordinator
does when it loads, *find* the expired offsets, *plan* the tombstones of the next sweep, *validate* the tables,
*publish* them.

**It never deletes.** It ends with a plan, which the DAG `apply_tombstones` can apply.

| parameter | meaning | default |
|---|---|---|
| `as_of` | the instant to describe, ISO 8601 or epoch milliseconds | end of the data interval |
| `since` | start of the interval whose changes are reported | start of the data interval |
| `retention_minutes` | use this retention; the plan is a what-if | the broker's |
| `profile` | whose rules | `auto`: the recorded broker's |
| `policy` | use this policy, a file next to `SEXTON_POLICY` | `SEXTON_POLICY`, if set |
| `full` | replay the whole log instead of starting from a checkpoint | no: from the nearest one |

Example: `{"as_of": "2026-11-21T06:00:00Z", "retention_minutes": 10080}`

Safe to run again and to backfill: a run of a past interval reads the same archived bytes and replaces its rows. If the
archive does not cover an instant, the tasks are **skipped**; tables are never empty for that reason. Undecodable bytes
become rows of `undecodable_records` and an alert, and their log partition gets no tombstones. A failed expectation
raises an alert; a critical one stops the publication. A run that takes longer than `SEXTON_DEADLINE_MINUTES` raises an
alert, too.
"""

from airflow.sdk import DAG, Asset, AssetAlias

from sexton.airflow import assets, defaults
from sexton.airflow.forms import form
from sexton.airflow.spark_tasks import STAGES, spark_job
from sexton.settings import settings

for cluster in settings().every_cluster:
    published: list[Asset | AssetAlias] = [*assets.table_assets(cluster), *assets.due_audits(cluster)]
    with DAG(
        **defaults.of_dag(
            cluster, "offset_retention", __doc__, catchup=settings().catchup, max_active_runs=settings().max_active_runs
        ),
        schedule=defaults.timetable(cluster.schedule),
        deadline=defaults.deadline(cluster.deadline_minutes),
        params=form(cluster, *STAGES),
        description="Replay __consumer_offsets, reach verdicts, plan, validate, publish; never deletes",
    ):
        snapshot, replay, find, plan, validate, publish = (
            spark_job(name, cluster, outlets=published if name == "publish_tables" else ()) for name in STAGES
        )
        # publish runs only after validate: readers never see unchecked tables.
        snapshot >> replay >> find >> plan >> validate >> publish
