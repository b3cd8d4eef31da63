"""The columns of `consumer_offsets` for the rows that `kernels.commit_rows` reads."""

import json
from collections.abc import Collection
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.layout import Bytes, Int64s
from sexton.log.entry import CODEC_MASK, CODECS, LEADER_EPOCH_AT
from sexton.records import RECORD_TYPES
from sexton.records.schema import ZERO_UUID


def numbers_at(data: Bytes, at: Int64s, kind: str) -> npt.NDArray[np.int64]:
    """The big-endian numbers at some positions; `kind` is a numpy type such as i4."""
    return np.array(data[at[:, None] + np.arange(int(kind[1:]))].view(f">{kind}")[:, 0], np.int64)


def columns_of(
    data: Bytes, source: Bytes, batches: Int64s, rows: Int64s, names: Collection[str]
) -> dict[str, pa.Array]:
    """The requested columns of commits and tombstones. Records are in `source`, batch headers in `data`."""
    batch, key, value = batches[rows[:, L.Q_BATCH]], rows[:, L.Q_KEY], rows[:, L.Q_VALUE]
    group_size, topic_size, is_gone = rows[:, L.Q_GROUP_SIZE], rows[:, L.Q_TOPIC_SIZE], rows[:, L.Q_VALUE_SIZE] < 0
    value = np.where(is_gone, key, value)  # any valid position
    record_type = numbers_at(source, key, "i2")
    committed = numbers_at(source, np.where(is_gone, 0, value + 2), "i8")

    def named(values: Int64s, texts: Collection[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(values), pa.array(texts)).dictionary_decode()

    made = {
        "log_offset": lambda: pa.array(rows[:, L.Q_LOG_OFFSET]),
        "base_offset": lambda: pa.array(batch[:, L.B_BASE_OFFSET]),
        "timestamp_ms": lambda: pa.array(rows[:, L.Q_TIMESTAMP]),
        "record_type": lambda: pa.array(record_type),
        "record_name": lambda: named(record_type, [RECORD_TYPES[number].name for number in (0, 1)]),
        "version": lambda: pa.array(numbers_at(source, value, "i2"), mask=is_gone),
        "group_id": lambda: cols.strings(source, key + 4, group_size),
        "topic": lambda: cols.strings(source, key + 6 + group_size, topic_size),
        "partition": lambda: pa.array(numbers_at(source, key + 6 + group_size + topic_size, "i4")),
        "is_tombstone": lambda: pa.array(is_gone),
        "committed_offset": lambda: pa.array(committed, mask=is_gone),
        "fields": lambda: _fields(source, rows, committed, is_gone),
        "is_transactional": lambda: pa.array(batch[:, L.B_ATTRIBUTES] & L.TRANSACTIONAL != 0),
        "producer_id": lambda: pa.array(batch[:, L.B_PRODUCER]),
        "producer_epoch": lambda: pa.array(batch[:, L.B_EPOCH]),
        "leader_epoch": lambda: pa.array(numbers_at(data, batch[:, L.B_POSITION] + LEADER_EPOCH_AT, "i4")),
        "codec": lambda: named(batch[:, L.B_ATTRIBUTES] & CODEC_MASK, CODECS),
        "crc_ok": lambda: pa.repeat(pa.scalar(True), len(rows)),
        "key": lambda: cols.spans(source, key, rows[:, L.Q_KEY_SIZE]),
        "value": lambda: cols.masked(cols.spans(source, value, np.maximum(rows[:, L.Q_VALUE_SIZE], 0)), is_gone),
    }
    return {name: made[name]() for name in names if name in made}


def _fields(source: Bytes, rows: Int64s, committed: Int64s, is_gone: npt.NDArray[np.bool_]) -> pa.Array:
    """The values as JSON, with the field names of OffsetCommitValue."""
    rows, encode = rows[~is_gone], json.JSONEncoder(ensure_ascii=False).encode
    expire_ms = np.where(rows[:, L.Q_EXPIRE_MS] == L.NONE, -1, rows[:, L.Q_EXPIRE_MS])
    ids = (ZERO_UUID if at < 0 else UUID(bytes=source[at : at + 16].tobytes()) for at in rows[:, L.Q_TOPIC_ID].tolist())
    made = {
        "committed_offset": committed[~is_gone].tolist(),
        "leader_epoch": rows[:, L.Q_LEADER_EPOCH].tolist(),
        "metadata": cols.strings(source, rows[:, L.Q_TEXT_AT], rows[:, L.Q_TEXT_SIZE]).to_pylist(),
        "commit_timestamp_ms": rows[:, L.Q_COMMIT_MS].tolist(),
        "expire_timestamp_ms": expire_ms.tolist(),
        "topic_id": map(str, ids),
    }
    found = np.full(len(is_gone), None, object)
    found[~is_gone] = [encode(dict(zip(made, values, strict=True))) for values in zip(*made.values(), strict=True)]
    return pa.array(found, pa.string())
