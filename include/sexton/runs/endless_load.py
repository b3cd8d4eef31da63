"""Finds, in the segments of a run, the batch at which a load never ends (coordinators before 2.0.1)."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from pyarrow import fs as pafs

from sexton.archive.folder import filesystem
from sexton.coordinator.endless_load import Endless, is_too_large
from sexton.coordinator.profile import Profile
from sexton.kernels.endless_load import endless_of
from sexton.log.segment import Segment, SegmentSlice, file_bytes, plan_fold_tasks
from sexton.runs.source import LogSource


def endless_load(
    source: LogSource, log_partition: int, *, largest_batch_bytes: int, cut: int, profile: Profile
) -> Endless | None:
    """The batch at which a load never ends, else None. The log is only searched if its largest batch allows it."""
    buffer_bytes = source.load_buffer_bytes
    if not is_too_large(largest_batch_bytes, buffer_bytes=buffer_bytes, profile=profile):
        return None
    fs, _ = filesystem(source.uri)
    slices = _slices(fs, source.segments.get(log_partition, []))
    return endless_of(slices, buffer_bytes=buffer_bytes, cut=cut)


def _slices(fs: pafs.FileSystem, segments: Sequence[Segment]) -> Iterator[tuple[npt.NDArray[np.uint8], SegmentSlice]]:
    for task in plan_fold_tasks(segments):
        for span in task.slices:
            yield file_bytes(fs, span.path, span.size_bytes), span
