"""The memory that zstd frames require of a decoder in addition to its output (RFC 8878, sections 3.1.1 and 3.1.2)."""

_FRAME_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_RLE_BLOCK = 1


def largest_window_bytes(data: bytes | memoryview) -> int:
    """The largest window that any frame of `data` claims; stops at bytes that are not a frame, which the decoder
    reports."""
    largest = at = 0
    while at + 5 <= len(data):
        magic = _little(data, at, 4)
        if magic & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
            at += 8 + _little(data, at + 4, 4)
        elif magic == _FRAME_MAGIC:
            window, at = _frame(data, at + 4)
            largest = max(largest, window)
        else:
            break
    return largest


def _little(data: bytes | memoryview, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _frame(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Window of the frame whose header begins at `at`, after its magic, and where the frame ends."""
    flags = data[at]
    is_single_segment = bool(flags & 0x20)
    at += 1
    window = 0
    if not is_single_segment:
        base = 1 << (10 + (_little(data, at, 1) >> 3))
        window = base + base // 8 * (_little(data, at, 1) & 7)
        at += 1
    at += _DICTIONARY_ID_BYTES[flags & 3]
    size = 1 if is_single_segment and flags >> 6 == 0 else _CONTENT_SIZE_BYTES[flags >> 6]
    if is_single_segment:
        window = _little(data, at, size)
    return window, _after_blocks(data, at + size) + (4 if flags & 0x04 else 0)


def _after_blocks(data: bytes | memoryview, at: int) -> int:
    while at + 3 <= len(data):
        header = _little(data, at, 3)
        at += 3 + (1 if header >> 1 & 3 == _RLE_BLOCK else header >> 3)
        if header & 1:
            return at
    return len(data)
