"""The batches of a log partition that may tell of one group, found without decoding the others.

A key holds its group id as it is, so that a batch without those bytes has no record of the group. Bytes that are not
compressed are searched as they lie, others after they have been inflated.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sexton.errors import LogError
from sexton.log import codec as codecs
from sexton.log.batch import Batch, read_frame
from sexton.log.crc import U8Array
from sexton.log.entry import CODEC_MASK
from sexton.log.framing import BAD_CRC, KIND, POSITION, SIZE, first_frame, frames
from sexton.log.segment import SegmentSlice

_HEADER_BYTES = 61
_ATTRIBUTES_AT = (17, 17, 22)
"""Where the byte of attributes with the codec lies, by record format."""
_MAX_TIMESTAMP_AT = (None, 18, 35)
_REPLACED = "\ufffd"


def batches_about(
    data: U8Array, span: SegmentSlice, group_id: str, *, cap_bytes: int, stop_offset: int | None = None
) -> Iterator[Batch]:
    """The batches that begin in `span`, and below `stop_offset`, in log order; some of them may tell of others only.

    `data` is the whole file. A batch that cannot be inflated is left out: it tells of nobody.
    """
    name = group_id.encode()
    needle = None if _REPLACED in group_id else struct.pack(">H", len(name) & 0xFFFF) + name  # its bytes may be others
    place = first_frame(data, span.start_byte, floor_offset=span.base_offset)
    for rows in frames(data, start=place, end=span.end_byte):
        rows = rows[rows[:, KIND] <= BAD_CRC]
        if stop_offset is not None:
            rows = rows[_numbers(data, rows, 0) < stop_offset]
        hits = None if needle is None else _rows_with(data, rows, needle)
        for index, row in enumerate(rows.tolist()):
            if needle is None or (hits is not None and hits[index]) or _inflated_has(data, row, needle, cap_bytes):
                batch = read_frame(data.data, row)
                if isinstance(batch, Batch):
                    yield batch


def cut_of(data: U8Array, span: SegmentSlice, *, as_of_ms: int, future_ms: int) -> int | None:
    """Base offset of the first batch in `span` that reaches `as_of_ms`; None where none does.

    Batches stamped later than `future_ms` are passed over, as by `coordinator.loading`.
    """
    place = first_frame(data, span.start_byte, floor_offset=span.base_offset)
    for rows in frames(data, start=place, end=span.end_byte):
        rows = rows[rows[:, KIND] <= BAD_CRC]
        stamps = np.full(len(rows), -1, np.int64)
        magic = data[rows[:, POSITION] + 16]
        for number, stamp_at in enumerate(_MAX_TIMESTAMP_AT):
            if stamp_at is not None:
                stamps[magic == number] = _numbers(data, rows[magic == number], stamp_at)
        reached = np.flatnonzero((stamps >= as_of_ms) & (stamps <= future_ms))
        if len(reached):
            return int(_numbers(data, rows[reached[:1]], 0)[0])
    return None


def _numbers(data: U8Array, rows: npt.NDArray[np.int64], place: int) -> npt.NDArray[np.int64]:
    """A big-endian field of 8 bytes of each batch."""
    raw = data[rows[:, POSITION][:, None] + np.arange(place, place + 8)]
    return np.ascontiguousarray(raw).view(">i8").reshape(-1).astype(np.int64)


def _rows_with(data: U8Array, rows: npt.NDArray[np.int64], needle: bytes) -> Sequence[bool]:
    """Which batches hold the bytes as they lie."""
    found = np.zeros(len(rows), bool)
    if len(rows):
        start, end = int(rows[0, POSITION]), int(rows[-1, POSITION] + rows[-1, SIZE])
        block = data[start:end].tobytes()
        at = block.find(needle)
        while at >= 0:
            row = int(np.searchsorted(rows[:, POSITION], start + at, side="right")) - 1
            found[row] = True
            at = block.find(needle, int(rows[row, POSITION] + rows[row, SIZE]) - start)
    told: list[bool] = found.tolist()
    return told


def _inflated_has(data: U8Array, row: Sequence[int], needle: bytes, cap_bytes: int) -> bool:
    position, size = row[POSITION], row[SIZE]
    magic = int(data[position + 16])
    number = int(data[position + _ATTRIBUTES_AT[magic]]) & CODEC_MASK
    if number == codecs.NONE:
        return False
    if magic < 2:
        return True
    body = data.data[position + _HEADER_BYTES : position + size]
    try:
        return needle in codecs.inflate(number, body, magic=magic, cap_bytes=cap_bytes)
    except LogError:
        return False
