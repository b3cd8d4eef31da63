"""Finds the batch at which an older coordinator's load stays: it does not fit into offsets.load.buffer.size."""

from collections.abc import Iterable

import numpy as np

from sexton.coordinator.endless import Endless, is_too_large
from sexton.kernels.partial import PartialFold
from sexton.log import framing
from sexton.log.batch import Batch, read_frame
from sexton.log.crc import U8Array
from sexton.log.segment import SegmentSlice

_FRAMES = 4096


def has_too_large_batch(fold: PartialFold, *, buffer_bytes: int | None) -> bool:
    """Whether any batch of the fold is too large, so that it is worth the search for the first one."""
    return is_too_large(fold.counters["largest_batch_bytes"], buffer_bytes=buffer_bytes, profile=fold.profile)


def endless_of(slices: Iterable[tuple[U8Array, SegmentSlice]], *, buffer_bytes: int, cut: int) -> Endless | None:
    """The first batch before `cut` that is larger than the buffer; the pieces of a log partition in log order."""
    for data, span in slices:
        batch = _first(np.asarray(data), span, buffer_bytes)
        if batch is not None:
            if batch.base_offset >= cut:
                return None
            return Endless(log_offset=batch.base_offset, batch_bytes=batch.size_bytes, buffer_bytes=buffer_bytes)
    return None


def _first(data: U8Array, span: SegmentSlice, buffer_bytes: int) -> Batch | None:
    place = framing.first_frame(data, span.start_byte, floor_offset=span.base_offset)
    at, floor, budget = place.at, place.floor_offset, place.budget
    end = min(span.end_byte, len(data))
    frames = np.empty((_FRAMES, 4), np.int64)
    while at < end:
        filled, at, floor, budget = framing.scan(data, at, end, floor, budget, frames)
        some = frames[:filled]
        is_batch = (some[:, framing.KIND] == framing.GOOD) | (some[:, framing.KIND] == framing.BAD_CRC)
        for frame in some[is_batch & (some[:, framing.SIZE] > buffer_bytes)]:
            found = read_frame(data.data, frame.tolist())
            if isinstance(found, Batch):
                return found
    return None
