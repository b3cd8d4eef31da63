"""Opens a log, an archive or a run for `coordinator.api`; reads only the log partitions that are needed.

    coordinator_view  opens the source of a request: a view, its `coordinator`, and the log partitions that were read
    log_view          the view of segments or an archive; log_parts reads its log partitions, log_profile its profile
    run_view          the view of a run folder
    admin_view        the view of admin snapshots
    judged_group      a group with its offsets for a policy

No Spark: all offsets of a group are in one log partition, which is folded here.
"""
