"""
### Audit of transactions

Finds out whether each open transaction with pending offsets will end. As long as a transaction is open, its offsets
stay pending, its groups can neither be deleted nor expire, and the log cleaner cannot clean the rest of the log
partition. For a transaction that never ends that means forever.

The task archives what is new in `__transaction_state` (it needs only READ on the topic), joins the open transactions of
the newest published run with the states of all transactional ids, and asks the brokers which transactions are still
open. Once Great Expectations has checked the result, it goes to the tables `transactions` and `transactional_ids`. An
alert is raised about a hanging transaction, about a transaction that should have ended, and about a program that keeps
creating transactional ids. **Nothing is ended**: the dashboard and the table show the arguments for
`kafka-transactions.sh abort`.

By default it runs after a run of `offset_retention` whose instant is the latest published so far, so not after
backfills of the past, and at most once in 20 hours. `SEXTON_TRANSACTIONS_SCHEDULE` can set a cron instead. Safe to run
again at any time.
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
