"""The tasks of the DAG maintenance: what is done every day or week, in addition to the runs. Nothing here changes a
cluster.

    verify            read a part of the archive's bytes, so that several runs read all of it
    check_checkpoint  compare the newest checkpoint with a full replay, every week
    expire_runs       remove published runs that the retention (run_retention.py) does not keep
    compact_tables    expire Iceberg's old snapshots and branches (old_snapshots_and_tags.py), rewrite small files
    run_folders       remove old run folders, after compact_tables
    reconcile         compare the folded archive with the live brokers (group_answers.py: both sides)

Each task is a module with a function `run` that returns a small result; its `alerts` are sent to people. A task deletes
only with `deletes=True`; otherwise it reports what it would delete. task_state.py stores a task's state between runs.
The jobs are in spark_jobs/, and their parameters in sexton/job_params.py.
"""
