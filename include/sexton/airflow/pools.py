"""Airflow pools that our tasks run in: one slot each, created by the deployment before the first run.

Without them Airflow never schedules those tasks, so whatever starts an Airflow for us creates them (`POOLS`).
"""

PUBLISH_POOL = "sexton_publish"
KAFKA_POOL = "sexton_kafka"
APPLY_POOL = "sexton_apply"
POOLS = {
    PUBLISH_POOL: "one writer of the published tables at a time",
    KAFKA_POOL: "one snapshot of a cluster at a time: the archive needs no lock beyond this",
    APPLY_POOL: "one task at a time that changes a cluster",
}
"""Pool -> what it keeps apart."""
