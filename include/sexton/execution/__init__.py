"""What changes a cluster: one engine with two uses, `delete` (apply a plan) and `restore`.

    engine         an attempt and its steps: look, intent, call, read back, outcome
    status         what the ledger says of each item
    group_records  what groups have written to the log
    admin_client   what is needed of a cluster; kafka_admin is the real one
    windows        how long the time between a last look and its answer was

Not here: how a plan is made (pipeline) and read (plans), and who may approve it (airflow, dags).
"""
