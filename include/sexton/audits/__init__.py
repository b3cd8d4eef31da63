"""The tasks of the DAGs audit_replicas, audit_transactions and audit_lag. Nothing here changes a cluster.

    audit_replicas      compare what each broker's own replica of the log would serve if it led
    audit_transactions  whether open transactions will end; every transactional id
    audit_lag           how late groups are in time, what they will lose, which would reset
    publish_audit       checks and publishes the rows of an audit
    due_audits          which audits a published run makes due

Each task is a module with a function `run` that returns a small result; its `alerts` are sent to people.
"""
