"""Headers in columns say what the reader of one batch says, whatever the format and the codec."""

import numpy as np
import pytest

from sexton.log.batch import Batch, read_batches
from sexton.log.codec import GZIP, NONE
from sexton.log.crc import as_u8
from sexton.log.headers import headers_of
from tests.log_encoding import encode_batch, encode_message_set

RECORDS = [(b"k", b"v"), (b"k", None), (b"l", b"w")]
LOG = b"".join(
    (
        encode_message_set(RECORDS, base_offset=0, magic=0),
        encode_message_set(RECORDS, base_offset=3, magic=0, codec=GZIP),
        encode_message_set(RECORDS, base_offset=6, magic=1, timestamp_ms=7),
        encode_message_set(RECORDS, base_offset=9, magic=1, timestamp_ms=8, codec=GZIP),
        encode_batch(RECORDS, base_offset=12, timestamp_ms=9, leader_epoch=4),
        encode_batch(RECORDS, base_offset=15, timestamp_ms=10, leader_epoch=5, codec=GZIP),
        encode_batch([], base_offset=18, timestamp_ms=11, last_offset_delta=4),
    )
)
BAD_CRC = LOG[:-1] + bytes([LOG[-1] ^ 1])


@pytest.mark.parametrize("log", [LOG, BAD_CRC, b""], ids=["good", "one wrong CRC", "empty"])
def test_columns_are_those_of_the_batches(log: bytes) -> None:
    batches = [found for found in read_batches(log) if isinstance(found, Batch)]
    blocks = list(headers_of(as_u8(log)))
    expected = {
        "position": [batch.position for batch in batches],
        "size_bytes": [batch.size_bytes for batch in batches],
        "magic": [batch.magic for batch in batches],
        "base_offset": [batch.base_offset for batch in batches],
        "next_offset": [batch.next_offset for batch in batches],
        "leader_epoch": [batch.leader_epoch for batch in batches],
        "max_timestamp_ms": [batch.max_timestamp_ms for batch in batches],
        "codec": [batch.codec for batch in batches],
        "record_count": [batch.record_count for batch in batches],
    }
    got = {name: [int(one) for block in blocks for one in np.asarray(getattr(block, name))] for name in expected}
    assert got == expected


def test_damage_is_no_batch() -> None:
    log = LOG + b"\x07" * 100 + encode_batch(RECORDS, base_offset=30, timestamp_ms=12)
    offsets = [int(one) for block in headers_of(as_u8(log)) for one in block.base_offset]
    assert offsets == [batch.base_offset for batch in read_batches(log) if isinstance(batch, Batch)]
    assert offsets[-1] == 30


def test_a_codec_is_in_the_header() -> None:
    assert [int(one) for block in headers_of(as_u8(LOG)) for one in block.codec][-3:] == [NONE, GZIP, NONE]
