"""Records of `__transaction_state`, byte for byte as brokers of 4.3.1 write them."""

import struct

import pytest

from sexton.records.registry import MalformedRecord
from sexton.records.transactions import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
    UnknownVersion,
    decode_transaction_key,
    decode_transaction_value,
)
from tests.transactions.logs import encode_transaction_key, encode_transaction_value

KEY = struct.pack(">hh", 0, 8) + b"payments"
VALUE = TransactionLogValue(
    producer_id=5,
    producer_epoch=2,
    timeout_ms=60_000,
    status=1,
    partitions=(TransactionPartitions(topic="t", partition_ids=(3, 1)),),
    updated_at_ms=1_700_000_000_001,
    started_at_ms=1_700_000_000_000,
)
HEAD = struct.pack(">qhib", 5, 2, 60_000, 1)
STAMPS = struct.pack(">qq", 1_700_000_000_001, 1_700_000_000_000)
V0 = struct.pack(">h", 0) + HEAD + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">iii", 2, 3, 1) + STAMPS
COMPACT = HEAD + b"\x02\x02t\x03" + struct.pack(">ii", 3, 1) + b"\0" + STAMPS
V1 = struct.pack(">h", 1) + COMPACT + b"\x02" + b"\x01\x08" + struct.pack(">q", 9) + b"\x02\x02" + struct.pack(">h", 2)


def test_bytes_of_both_versions() -> None:
    assert encode_transaction_key("payments") == KEY
    assert decode_transaction_key(KEY) == TransactionLogKey(transactional_id="payments")
    assert encode_transaction_value(VALUE, 0) == V0
    assert decode_transaction_value(V0) == VALUE
    tagged = TransactionLogValue(
        **{name: getattr(VALUE, name) for name in VALUE.__slots__[:7]}, next_producer_id=9, client_transaction_version=2
    )
    assert encode_transaction_value(tagged, 1) == V1
    assert decode_transaction_value(V1) == tagged


def test_unknown_versions_and_broken_bytes_differ() -> None:
    assert decode_transaction_key(struct.pack(">h", 3)) == UnknownVersion(3)
    assert decode_transaction_value(struct.pack(">h", 2)) == UnknownVersion(2)
    assert decode_transaction_value(V1, newest=0) == UnknownVersion(1)
    for cut in (0, 1, len(V0) - 1):
        with pytest.raises(MalformedRecord, match="value of a transaction cannot be read"):
            decode_transaction_value(V0[:cut])
    with pytest.raises(MalformedRecord, match="key of a transaction cannot be read"):
        decode_transaction_key(KEY[:-1])
