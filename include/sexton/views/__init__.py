"""Questions to a coordinator, over a log, an archive or an earlier run: reads only the log partitions they need.

    opening    opens a desk over whatever a request names
    desk       what that gives: `Desk.coordinator` takes the questions of sexton.coordinator.api
    log_desk   a desk over segments or an archive, log_parts its log partitions
    run_desk   a desk over a run folder, run_parts its log partitions
    part       a log partition that was read, and the mapping that reads one when it is first asked for

No Spark: a group's offsets lie in one log partition, and that is folded here.
"""
