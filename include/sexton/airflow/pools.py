"""Airflow pools that our tasks run in: one slot each, created by the deployment before the first run.

Without them Airflow never schedules those tasks, so whatever starts an Airflow for us creates them (`POOLS`). Each of
several clusters has its own, so that none waits for another that does not answer; only the tables are of all of them.
"""

from sexton.settings import settings

PUBLISH_POOL = "sexton_publish"
KAFKA_POOL = "sexton_kafka"
APPLY_POOL = "sexton_apply"
OF_A_CLUSTER = {
    KAFKA_POOL: "one snapshot of a cluster at a time: the archive needs no lock beyond this",
    APPLY_POOL: "one task at a time that changes a cluster",
}
POOLS = {
    PUBLISH_POOL: "one writer of the published tables at a time",
    **{cluster.scoped_name(pool): told for cluster in settings().every_cluster for pool, told in OF_A_CLUSTER.items()},
}
"""Pool -> what it keeps apart, of every cluster of this deployment."""
