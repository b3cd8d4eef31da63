"""Compiles the comparison of records ahead of time, once for each deployment, as `kernels.warm_up` does the fold."""

from pathlib import Path
from tempfile import TemporaryDirectory

from sexton.log.batch import encode_batch
from sexton.log.codec import LZ4
from sexton.replicas.compare import compare
from sexton.replicas.folders import open_replicas

_KEY = b"\0\1\0\1g\0\1t\0\0\0\0"
_VALUE = b"\0\3" + bytes(12) + b"\0\0" + bytes(8)


def warm_up() -> None:
    """Compare two tiny replicas, one with a value and one with its tombstone: this compiles every function into numba's
    cache (NUMBA_CACHE_DIR)."""
    value = encode_batch([(_KEY, _VALUE)], base_offset=0, timestamp_ms=0, codec=LZ4)
    tombstone = encode_batch([(_KEY, None)], base_offset=1, timestamp_ms=0)
    end = encode_batch([(_KEY[:-1] + b"\1", None)], base_offset=2, timestamp_ms=0)
    with TemporaryDirectory() as folder:
        replicas = {"right": tombstone + end, "wrong": value + end}
        for name, log in replicas.items():
            place = Path(folder, name, "__consumer_offsets-0")
            place.mkdir(parents=True)
            (place / f"{0:020d}.log").write_bytes(log)
        compare(open_replicas([f"{folder}/{name}" for name in replicas], []))
