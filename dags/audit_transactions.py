"""
### Audit of transactions

Finds out whether each open transaction that holds offsets will end. One that never ends keeps its offsets pending, its
groups from being deleted and from expiring, and the log cleaner from the rest of the log partition, forever.

The task archives what is new in `__transaction_state` (READ on the topic is all it needs), joins the open transactions
of the newest published run with the states of all transactional ids, and asks the brokers which of them are still open.
The result goes to the tables `transactions` and `transactional_ids`, once Great Expectations has checked it. A hanging
transaction raises an alert; so does one that should have ended, and a program that makes up new transactional ids.
**Nothing is ended**: the dashboard and the table show the arguments for `kafka-transactions.sh abort`.

It runs after a run of `offset_retention` that publishes a new newest instant, at most once in 20 hours, not after
backfills of the past, or by `SEXTON_TRANSACTIONS_SCHEDULE`. Safe to run again at any time.
"""

from airflow.sdk import DAG

from sexton.airflow import defaults
from sexton.airflow.spark_tasks import spark_job
from sexton.settings import settings

for cluster in settings().every_cluster:
    with DAG(
        **defaults.of_dag(cluster, "audit_transactions", __doc__),
        schedule=defaults.audit_schedule(cluster.transactions_schedule, cluster, "audit_transactions"),
        description="Find the transactions that hold offsets and will never end, and count transactional ids",
    ):
        spark_job("audit_transactions", cluster)
