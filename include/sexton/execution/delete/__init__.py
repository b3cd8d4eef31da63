"""Deletes the offsets and groups of a plan. Nothing else in the commands and DAGs deletes them from a cluster.

    apply_plan      apply a plan, group by group
    context         the state of one attempt, and what a watch is
    log_watch       a watch that reads the effects of calls from the log
    admin_watch      a watch from admin snapshots, where the log cannot be read
    recorded        the archive's evidence for a plan, and the watch that follows from it
    preconditions   what must hold before anything is deleted: approval, age, limits, retention, cluster, clocks
    group_calls     a plan's rows by group, and the calls that remove them
    preflight_check       whether a group is still as the plan saw it
    delete_step     one deletion call, from its intent to its outcome
    call_effects    what a call did, read from the log
    restore_raced   puts back a newer commit that a deletion removed
    resume          settles what earlier calls left open
    log_sink        tombstones written into the log itself
    dry_run, summary  what would be done, and what was done

Not here: how a plan is made (pipeline) and read (plans), and who may approve it (airflow, dags).
"""
