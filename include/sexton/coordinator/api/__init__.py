"""A coordinator's answers from a folded log, by the rules of a profile, without a broker.

Each function is named after the broker operation that it follows:

    fetch.fetch                  OffsetFetch
    listing.list_groups          ListGroups
    listing.describe_groups      DescribeGroups, ConsumerGroupDescribe and the like
    find_coordinator.find_coordinator  FindCoordinator
    commit.validate_commit       OffsetCommit and TxnOffsetCommit, up to where they would append
    append_errors.answered       the answer to a client when the append fails
    unloading.unload             a broker stops leading a log partition
    unloading.unexpected_unload  the check at the end of a Scala coordinator's load
    group_metadata_record.GroupMetadataRecord  the record of a classic group (GroupMetadataManager.storeGroup)
    dry_run.commit_offsets       a commit as a whole: validation, the batch, the answer when its append fails
    dry_run.store_group          likewise for a classic group's record
    sweep_log.failed_tombstones  a broker's log lines and state after a sweep whose append fails
    console                      the output of kafka-consumer-groups, from several of these

They read a `coordinator.Coordinator`: the log partitions that one broker leads, each a `CoordinatorShard` with the
result of its load (`view.PartitionView`). plain_view.py makes such a view from the plain replay, tables_view.py from
the kernels' finished tables or a run's Parquet files. Answers are Kafka's: an error is a value of `errors.Error`, not
an exception.

Not here: authorization and quotas, and state that exists only while a coordinator runs (rebalances, Dead groups),
unless the caller supplies that state.
"""
