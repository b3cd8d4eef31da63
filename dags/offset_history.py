"""
### Offset history

Publishes runs of many past instants of the archive at once, as if `offset_retention` had run at each: from **from** to
**to**, **step_minutes** apart. The log is folded once and read on from instant to instant; a hundred instants are
published together, in one commit per table. For one or a few instants, Airflow's own Backfill of `offset_retention`
suffices.

**It never deletes**, talks to no broker, and keeps no plan, because plans of the past are not applied.

| parameter | meaning | default |
|---|---|---|
| `from` | the first instant, ISO 8601 or epoch milliseconds | none, required |
| `to` | the latest possible instant | the time of triggering |
| `step_minutes` | minutes between instants | 60 |
| `retention_minutes` | use this retention | the broker's |
| `profile` | whose rules | `auto`: the recorded broker's |
| `policy` | use this policy, a file next to `SEXTON_POLICY` | `SEXTON_POLICY`, if set |

Example: `{"from": "2026-10-21T00:00:00Z", "to": "2026-11-20T00:00:00Z", "step_minutes": 60}`

**Instants that are published already stay as they are**, so that running it again changes nothing. Instants that the
archive does not cover are skipped and counted. An instant whose tables break a critical expectation raises an alert and
stays unpublished; the others are published. A task that was killed continues where it stopped. The log of the task says
how far it is.
"""

from airflow.sdk import DAG

from sexton.airflow import assets, defaults
from sexton.airflow.forms import form
from sexton.airflow.spark_tasks import spark_job
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.of_dag(cluster, "offset_history", __doc__),
        schedule=None,
        params=form(cluster, "build_history"),
        description="Publish runs of many past instants at once; never deletes",
    ):
        spark_job("build_history", cluster, outlets=assets.table_assets(cluster))
