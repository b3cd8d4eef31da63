"""Finds the batch at which an older coordinator's load never ends: `coordinator.endless_load` over whole segments."""

from collections.abc import Iterable

import numpy as np

from sexton.coordinator.endless_load import Endless
from sexton.log.crc import U8Array
from sexton.log.framing import first_frame
from sexton.log.headers import headers_of
from sexton.log.segment import SegmentSlice


def endless_of(slices: Iterable[tuple[U8Array, SegmentSlice]], *, buffer_bytes: int, cut: int) -> Endless | None:
    """The first batch before `cut` that is larger than the load buffer; `slices` are in log order."""
    for data, span in slices:
        start = first_frame(data, span.start_byte, floor_offset=span.base_offset)
        for headers in headers_of(data, start=start, end=span.end_byte):
            large = np.flatnonzero(headers.size_bytes > buffer_bytes)
            if len(large):
                log_offset, batch_bytes = int(headers.base_offset[large[0]]), int(headers.size_bytes[large[0]])
                if log_offset >= cut:
                    return None
                return Endless(log_offset=log_offset, batch_bytes=batch_bytes, buffer_bytes=buffer_bytes)
    return None
