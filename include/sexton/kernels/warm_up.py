"""Compiles the kernels ahead of time, once per deployment, so that jobs need not."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from sexton.archive.folder import Folder
from sexton.coordinator.profiles import NEWEST, profile_of
from sexton.kernels import layout as L
from sexton.kernels.columns import spans, strings
from sexton.kernels.commit_rows import commit_rows
from sexton.kernels.divide import Divider, fold_bucket
from sexton.kernels.encode_batches import encode_tombstone_batches
from sexton.kernels.encode_keys import encode_keys
from sexton.kernels.fold import PartialFold, fold_task, merge, read_only
from sexton.kernels.growth import move_texts, reserve
from sexton.kernels.merge import prune_dead
from sexton.kernels.results import finish
from sexton.log.batch import encode_batch
from sexton.log.codec import LZ4, NONE, SNAPPY, ZSTD
from sexton.log.framing import frames
from sexton.log.segment import FoldTask, SegmentSlice

_KEY = b"\0\1\0\1g\0\1t\0\0\0\0"
_VALUE = b"\0\3" + bytes(12) + b"\0\1\xff" + bytes(8)  # its metadata is malformed, to compile that path, too
_GROUP_KEY = b"\0\2\0\1g"
_COMMIT = b"\0\0\0\1", bytes(6)


def warm_up() -> None:
    """Run every compiled function once on a tiny log; the results stay in numba's cache (NUMBA_CACHE_DIR)."""
    plain = encode_batch([(_KEY, _VALUE), (_KEY, None), (_GROUP_KEY, None)], base_offset=0, timestamp_ms=0)
    pending = encode_batch([(_KEY, _VALUE)], base_offset=3, timestamp_ms=0, producer_id=1, producer_epoch=0)
    marker = encode_batch([_COMMIT], base_offset=4, timestamp_ms=0, producer_id=1, transactional=True, control=True)
    log = plain + pending + marker
    for number, name in enumerate((LZ4, SNAPPY, ZSTD)):
        log += encode_batch([(_KEY, _VALUE)], base_offset=5 + number, timestamp_ms=0, codec=name)
    span = SegmentSlice(path="", size_bytes=len(log), start_byte=0, end_byte=len(log))
    middle = SegmentSlice(path="", size_bytes=len(log), start_byte=1, end_byte=len(log))
    left, right = (
        fold_task(
            [log],
            task=FoldTask(log_partition=0, index=index, slices=(part,), is_last=False),
            cap_bytes=len(log),
            as_of_ms=None,
            taken_at_ms=None,
        )
        for index, part in enumerate([span, middle])
    )
    with TemporaryDirectory() as folder:
        left.write_parquet(Folder(folder))
        left = PartialFold.read_parquet(Folder(folder))
    fold = merge(left, PartialFold.from_bytes(right.to_bytes()))
    state = prune_dead(merge(PartialFold.empty(), fold).state)
    state = reserve(state, dict.fromkeys(L.ROW_TABLES, 1 << 12))
    move_texts(state, np.empty_like(state.text_bytes))
    finish(fold, log_partition=0, partition_count=1)
    with TemporaryDirectory() as folder:
        divider = Divider(PartialFold.empty(is_prefix=True), cap_bytes=len(log))
        divider.divide_into(["g"], Path(folder))
        divider.fold_slice(read_only(log), span)
        fold_bucket(divider.buckets[:1], divider.finish(), is_first=True)
    data = read_only(log)
    for _, _, rows, _ in commit_rows(data, next(frames(data)), cap_bytes=len(log)):
        spans(data, rows[:1, L.Q_KEY], rows[:1, L.Q_KEY_SIZE])
        strings(data, rows[:1, L.Q_TEXT_AT], rows[:1, L.Q_TEXT_SIZE])
    encode_keys(pa.table({"record_type": [1], "group_id": ["g"], "topic": ["t"], "partition": [0]}))
    for profile, name in ((NEWEST, NONE), (profile_of("group_metadata_manager"), LZ4)):
        groups, keys = pa.array(["g"]), pa.array([_KEY])
        encode_tombstone_batches(groups, keys, base_offset=0, as_of_ms=0, profile=profile, codec=name)
