"""Finds, in the segments of a run, the batch at which a load never ends (coordinators before 2.0.1)."""

from sexton.archive.folder import filesystem
from sexton.coordinator.endless_load import Endless, is_too_large
from sexton.coordinator.profile import Profile
from sexton.kernels.endless_load import endless_of
from sexton.kernels.partial_fold import PartialFold
from sexton.log.segment import file_bytes, plan_fold_tasks
from sexton.runs.source import LogSource


def endless_load(
    source: LogSource, log_partition: int, profile: Profile, *, largest_batch_bytes: int, cut: int
) -> Endless | None:
    """The batch at which a load never ends, else None. The log is only searched if its largest batch allows it."""
    if not is_too_large(largest_batch_bytes, buffer_bytes=source.load_buffer_bytes, profile=profile):
        return None
    fs, _ = filesystem(source.uri)
    spans = (span for task in plan_fold_tasks(source.segments.get(log_partition, [])) for span in task.slices)
    slices = ((file_bytes(fs, span.path, span.size_bytes), span) for span in spans)
    return endless_of(slices, buffer_bytes=source.load_buffer_bytes, cut=cut)


def endless_load_of(source: LogSource, log_partition: int, fold: PartialFold) -> Endless | None:
    """`endless_load` of a log partition that was folded."""
    largest_bytes = fold.counters["largest_batch_bytes"]
    return endless_load(source, log_partition, fold.profile, largest_batch_bytes=largest_bytes, cut=fold.end)
