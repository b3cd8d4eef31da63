"""Questions to a coordinator, over a log, an archive or an earlier run: reads only the log partitions they need.

    opening    opens the view that a request names
    view       what that gives: `CoordinatorView.coordinator` is asked by sexton.coordinator.api
    log_view   a view of segments or an archive, log_parts its log partitions
    run_view   a view of a run folder, run_parts its log partitions
    part       a log partition that was read, and the mapping that reads one when it is first asked for

No Spark: a group's offsets lie in one log partition, and that is folded here.
"""
