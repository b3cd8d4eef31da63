"""Finds, in the segments of a run, the batch at which a load never ends (coordinators before 2.0.1)."""

from sexton.archive.folder import filesystem
from sexton.coordinator.endless_load import Endless, is_too_large
from sexton.coordinator.profile import Profile
from sexton.kernels.endless_load import endless_of
from sexton.log.segment import file_bytes, plan_fold_tasks
from sexton.runs.source import LogSource


def endless_load(
    source: LogSource, log_partition: int, profile: Profile, *, largest_batch_bytes: int, cut: int
) -> Endless | None:
    """The batch at which a load never ends, else None. The log is only searched if its largest batch allows it."""
    buffer_bytes = source.load_buffer_bytes
    if not is_too_large(largest_batch_bytes, buffer_bytes=buffer_bytes, profile=profile):
        return None
    fs, _ = filesystem(source.uri)
    spans = (span for task in plan_fold_tasks(source.segments.get(log_partition, [])) for span in task.slices)
    slices = ((file_bytes(fs, span.path, span.size_bytes), span) for span in spans)
    return endless_of(slices, buffer_bytes=buffer_bytes, cut=cut)
