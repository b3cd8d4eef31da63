"""The offsets log of a stopped broker, as if all of it had happened earlier: nobody has to wait for a retention."""

import struct
from pathlib import Path

from sexton.log.batch import Batch, Record, read_batches, read_records
from tests.log_builder import sealed
from tests.record_fields import decode_key, decode_value, encode_value

INSTANTS = ("commit_timestamp_ms", "expire_timestamp_ms", "current_state_timestamp_ms")
TIMESTAMPS = 27
"""Where a batch has them."""


def age(data: Path, by_ms: int) -> None:
    """Move every instant of the batches and records of `__consumer_offsets` in a broker's `data` into the past."""
    for file in data.glob("__consumer_offsets-*/*.log"):
        file.write_bytes(b"".join(aged(batch, by_ms) for batch in read_batches(file.read_bytes())))


def aged(batch: object, by_ms: int) -> bytes:
    """The bytes of a batch that is whole and not compressed; none of its records changes its size."""
    assert isinstance(batch, Batch)
    data = bytes(batch.data)
    for record in () if batch.is_control else read_records(batch, cap_bytes=1 << 24):
        assert isinstance(record, Record)
        number = decode_key(record.key or b"")[0]
        if number in (1, 2) and record.value is not None:
            version, fields = decode_value(number, record.value)
            moved = {name: fields[name] - by_ms for name in INSTANTS if fields.get(name, -1) != -1}
            old, new = bytes(record.value), encode_value(number, version, fields | moved)
            assert len(old) == len(new)
            assert old in data or new in data, "it is compressed"
            data = data.replace(old, new)
    whole = bytearray(data)
    struct.pack_into(">qq", whole, TIMESTAMPS, batch.base_timestamp_ms - by_ms, batch.max_timestamp_ms - by_ms)
    return sealed(whole)
