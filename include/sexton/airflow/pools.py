"""Airflow pools of Sexton's tasks, with one slot each.

The deployment creates them (`POOLS`) before the first run, because Airflow does not schedule tasks of a missing pool.
Each cluster has its own pools, so that a cluster that does not answer delays no other. All clusters share the pool for
writing the published tables.
"""

from sexton.settings import settings

PUBLISH_POOL = "sexton_publish"
KAFKA_POOL = "sexton_kafka"
AUDIT_POOL = "sexton_audit"
APPLY_POOL = "sexton_apply"
OF_A_CLUSTER = {
    KAFKA_POOL: "one snapshot of a cluster at a time: the archive needs no lock beyond this",
    AUDIT_POOL: "one audit of a cluster at a time, which no snapshot waits for",
    APPLY_POOL: "one task at a time that changes a cluster",
}
POOLS = {
    PUBLISH_POOL: "one writer of the published tables at a time",
    **{cluster.scoped_name(pool): text for cluster in settings().every_cluster for pool, text in OF_A_CLUSTER.items()},
}
"""Pool -> its description, for every cluster of the deployment."""
