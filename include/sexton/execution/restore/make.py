"""make_restore: hold what was against what is, and say what would happen to each offset. Nothing is changed."""

from collections.abc import Callable
from dataclasses import replace

from sexton.coordinator.profiles import NEWEST
from sexton.errors import Refused
from sexton.execution.restore.judge import Judge, by_group
from sexton.execution.restore.keep import RestorePlan
from sexton.execution.restore.port import RestorePort
from sexton.execution.restore.rows import in_order
from sexton.execution.restore.sources import Source
from sexton.runs.choose_profile import of_version


def make_restore(
    source: Source,
    port: RestorePort,
    *,
    overwrites: bool = False,
    clamps: bool = False,
    is_done: Callable[[RestorePlan], bool] = lambda _: False,
) -> RestorePlan:
    """The restore of a source, judged by what the cluster says now.

    `overwrites` also puts back what has been committed anew since, `clamps` moves values into the log of their
    partition. `is_done` tells whether a restore has been carried out to its end: then one that says the same is
    another. Refused when the cluster is another one.
    """
    if port.cluster_id != source.cluster_id:
        raise Refused(f"the values are of cluster {source.cluster_id}, this is {port.cluster_id}", where=source.name)
    judge = judge_of(port, overwrites=overwrites, clamps=clamps)
    topics = port.topics(sorted({topic for _, topic, _ in source.values}))
    rows = [
        row
        for group_id, wanted in by_group(source.values.items()).items()
        for row in judge.rows(port.group(group_id), wanted, topics)
    ]
    plan = RestorePlan(
        cluster_id=source.cluster_id,
        source=source.name,
        overwrites=overwrites,
        clamps=clamps,
        warnings=tuple(source.warnings),
        rows=tuple(in_order(rows)),
    )
    while plan.items and is_done(plan):
        plan = replace(plan, occurrence=plan.occurrence + 1)
    return plan


def judge_of(port: RestorePort, *, overwrites: bool, clamps: bool) -> Judge:
    """A judge by the rules of the release that the brokers run."""
    version = port.broker_version
    return Judge(
        profile=NEWEST if version is None else of_version(version).profile,
        log_partition_count=port.log_partition_count,
        overwrites=overwrites,
        clamps=clamps,
    )
