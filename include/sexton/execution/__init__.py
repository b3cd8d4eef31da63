"""What changes a cluster: one engine with two uses, `delete` (apply a plan) and `restore`.

    compare_and_set  puts offsets back without overwriting a newer commit
    engine         an attempt and its steps: intent, preflight check, call, read back, outcome
    status         what the ledger says of each item
    group_records  what groups have written to the log
    kafka_admin    the calls to the cluster
    windows        how long the time between a preflight check and its answer was

Not here: how a plan is made (pipeline) and read (plans), and who may approve it (airflow, dags).
"""
