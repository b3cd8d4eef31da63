"""Changes a cluster: one engine with two uses, `delete` (apply a plan) and `restore`.

    compare_and_set  puts offsets back without overwriting a newer commit
    engine         an attempt and its steps: intent, preflight check, call, read back, outcome
    status         the state of each item, from the ledger
    group_records  records of groups in the log
    kafka_admin    the calls to the cluster
    standing_approval  what `sexton keep` may do without being approved each time
    windows        the time between a preflight check and the answer to its call

Not here: how a plan is made (pipeline) and read (plans), and who may approve it (airflow, dags).
"""
