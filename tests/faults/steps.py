"""How many lines of Sexton's own Python run while a log is read: a count of work that no load of the machine changes.

The kernels are not compiled here: their loops run as the Python that they are written in, over what stands in for their
pointers, so that their lines count, too; a CRC counts a step for every eight bytes. For a process of its own:

    python -m tests.faults.steps PROFILE FILE...

prints for each file the steps of the kernels (fold and finish) and of the plain rules, as JSON.
"""

import json
import sys
import zlib
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numba
import numba.extending
import numpy as np
from kafka.record._crc32c import crc as crc32c

ROOT = Path(__file__).resolve().parents[2]
_OURS = str(ROOT / "include" / "sexton")
_WORD, _HALF = (1 << 64) - 1, 1 << 63


class Steps:
    count = 0


class Pointer:
    """What `words.pointer` gives: elements of a flat array as plain numbers."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.is_bytes = array.dtype == np.uint8

    def __getitem__(self, at: int) -> int:
        return int(self.array[at])

    def __setitem__(self, at: int, value: int) -> None:
        self.array[at] = int(value) & 0xFF if self.is_bytes else value


class Rows:
    """What `memory.rows` gives."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, where: tuple[int, int]) -> int:
        return int(self.array[where])

    def __setitem__(self, where: tuple[int, int], value: int) -> None:
        self.array[where] = value


def _uncompiled(function: Any = None, **_: Any) -> Any:
    return _uncompiled if function is None else function


def _number(size: int, order: str) -> Any:
    def load(data: Pointer, at: int) -> int:
        return int.from_bytes(data.array[at : at + size].tobytes(), order, signed=True)  # type: ignore[arg-type]

    return load


def _folded(left: int, right: int) -> int:
    product = (int(left) & _WORD) * (int(right) & _WORD)
    word = (product >> 64) ^ (product & _WORD)
    return word - (1 << 64) if word & _HALF else word


def _copy(target: Pointer, to: int, source: Pointer, at: int, size: int) -> None:
    target.array[to : to + size] = source.array[at : at + size]


def _crc32c(data: Pointer, start: int, end: int) -> int:
    Steps.count += (end - start) // 8
    return int(crc32c(data.array[start:end].tobytes()))


def _crc32(data: Pointer, start: int, end: int) -> int:
    Steps.count += (end - start) // 8
    return zlib.crc32(data.array[start:end].tobytes())


def uncompile() -> None:
    """Let everything that is imported from here on run as Python."""
    numba.njit = _uncompiled
    numba.extending.intrinsic = _uncompiled
    from sexton.jit import memory

    memory.pointer, memory.be32, memory.be64 = Pointer, _number(4, "big"), _number(8, "big")  # type: ignore[assignment]
    memory.rows = lambda array, _: Rows(array)
    memory.word64, memory.be16 = _number(8, "little"), _number(2, "big")
    memory.prefetch, memory.copy_bytes, memory.folded = (lambda *_: None), _copy, _folded
    from sexton.log import crc

    crc.crc32c_of, crc.crc32_of = _crc32c, _crc32


def counted(work: Any) -> int:
    """The steps that `work` takes."""
    ours: dict[CodeType, bool] = {}

    def on_line(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            Steps.count += 1
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code not in ours:
            ours[code] = code.co_filename.startswith(_OURS)
        return on_line if ours[code] else None

    before = Steps.count
    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(None)
    return Steps.count - before


def main(profile_name: str, *files: str) -> None:
    uncompile()
    from sexton.coordinator.loading import load
    from sexton.coordinator.profiles import profile_of
    from sexton.kernels.fold import fold_task
    from sexton.kernels.results import finish
    from sexton.log.segment import FoldTask, SegmentSlice

    profile, found = profile_of(profile_name), []
    for file in files:
        log = Path(file).read_bytes()
        span = SegmentSlice(path=file, size_bytes=len(log), start_byte=0, end_byte=len(log))
        task = FoldTask(log_partition=0, index=0, slices=(span,), is_last=True)

        def by_kernels(log: bytes = log, task: FoldTask = task) -> None:
            cap_bytes = 64 << 20
            fold = fold_task([log], task=task, cap_bytes=cap_bytes, as_of_ms=None, taken_at_ms=None, profile=profile)
            finish(fold, log_partition=0, partition_count=1)

        def by_rules(log: bytes = log) -> None:
            load([log], cap_bytes=64 << 20, profile=profile)

        found.append({"bytes": len(log), "kernels": counted(by_kernels), "rules": counted(by_rules)})
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
