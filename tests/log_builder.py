"""Logs for tests: batches written out by hand, of few groups, topics, members and producers, and their bytes.

Random ones are in tests/campaign: its `histories` are for Hypothesis.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sexton.log.crc import crc32c
from sexton.log.entry import ATTRIBUTES_AT, CRC_AT, SIZE_AT
from tests.log_encoding import encode_batch, encode_message_set
from tests.record_fields import encode_key, encode_value

Entry = tuple[bytes | None, bytes | None]
"""Key and value."""

BASE_MS = 1_790_000_000_000
GROUP_IDS = ("a", "b", "группа", "日本😀", "")
TOPICS = ("t", "u")
PARTITIONS = (0, 1)
MEMBER_IDS = ("m1", "m2")
TOPIC_IDS = (UUID(int=0), UUID(int=7), UUID(int=8 << 64))
NO_PRODUCER = -1
COMMIT, ABORT = 1, 0
_CONTROL_VALUE = bytes(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """A batch: its records, or, of a control batch, the types of its control records; none of either make the empty
    batch that is kept for a producer.

    `holes` log_offsets are missing before the records, as compaction leaves them, and `gap` before the batch. A control
    type of None is a key too short to be one.
    """

    entries: tuple[Iterable[bytes | None], ...] = ()
    control: tuple[int | None, ...] | None = None
    producer_id: int = NO_PRODUCER
    transactional: bool = False
    timestamp_ms: int = BASE_MS
    holes: tuple[int, ...] = ()
    gap: int = 0
    codec: int = 0
    magic: int = 2
    crc_ok: bool = True
    is_append_time: bool = False
    delete_horizon_ms: int | None = None


def place(spec: BatchSpec, next_offset: int) -> tuple[int, tuple[int, ...], int]:
    """Where a batch lies: its base offset, the log_offsets of its records, and its last one, which may have none."""
    base_offset = next_offset + spec.gap
    at, offset = [], base_offset - 1
    for number in range(len(spec.entries if spec.control is None else spec.control)):
        offset += 1 + (spec.holes[number] if number < len(spec.holes) else 0)
        at.append(offset)
    return base_offset, tuple(at), max(offset, base_offset)


def encode(spec: BatchSpec, base_offset: int, at: Sequence[int], last: int) -> bytes:
    """The bytes of a batch there."""
    records = [(key, value) for key, value in spec.entries]
    if spec.control is not None:
        records = [(b"\0\0\0" if kind is None else kind.to_bytes(4), _CONTROL_VALUE) for kind in spec.control]
    where: dict[str, Any] = {"base_offset": base_offset, "offset_deltas": [offset - base_offset for offset in at]}
    if spec.magic < 2:
        stamp_ms = spec.timestamp_ms if spec.magic else -1
        return encode_message_set(records, **where, magic=spec.magic, timestamp_ms=stamp_ms, codec=spec.codec)
    data = encode_batch(
        records,
        **where,
        timestamp_ms=spec.timestamp_ms,
        producer_id=spec.producer_id,
        producer_epoch=-1 if spec.producer_id < 0 else 0,
        codec=spec.codec if spec.control is None else 0,
        transactional=spec.transactional or spec.control is not None,
        control=spec.control is not None,
        log_append_time=spec.is_append_time,
        delete_horizon_ms=spec.delete_horizon_ms,
        last_offset_delta=last - base_offset,
    )
    return data if spec.crc_ok else data[:17] + bytes([data[17] ^ 0xFF]) + data[18:]


def encode_log(history: Sequence[BatchSpec], *, codec: int = 0, base_offset: int = 0) -> bytes:
    """The bytes of a segment with `history`, its data batches compressed with `codec` where they say nothing else."""
    return b"".join(encode_batches(history, codec=codec, base_offset=base_offset))


def sealed(batch: bytes | bytearray) -> bytes:
    """A batch of format 2 with the size and the CRC that it should have."""
    behind = bytes(batch[ATTRIBUTES_AT:])
    size, crc = (len(batch) - SIZE_AT - 4).to_bytes(4), crc32c(behind).to_bytes(4)
    return bytes(batch[:SIZE_AT]) + size + bytes(batch[SIZE_AT + 4 : CRC_AT]) + crc + behind


def encode_batches(history: Sequence[BatchSpec], *, codec: int = 0, base_offset: int = 0) -> list[bytes]:
    """As `encode_log`, batch by batch."""
    batches = []
    for spec in history:
        where = place(spec, base_offset)
        batches.append(encode(replace(spec, codec=spec.codec or codec), *where))
        base_offset = where[-1] + 1
    return batches


# --- offsets


def offset_key(group_id: str, topic: str = "t", partition: int = 0, *, record_type: int = 1) -> bytes:
    return encode_key(record_type, {"group_id": group_id, "topic": topic, "partition": partition})


def offset_value(committed_offset: int, *, version: int = 3, record_type: int = 1, **fields: Any) -> bytes:
    """A value; `fields` are those of the record type beyond the committed offset."""
    known = {"metadata": "", "commit_timestamp_ms": BASE_MS, "leader_epoch": -1, **fields}
    return encode_value(record_type, version, {"committed_offset": committed_offset, **known})


def commit(group_id: str, committed_offset: int = 1, topic: str = "t", partition: int = 0, **fields: Any) -> Entry:
    return offset_key(group_id, topic, partition), offset_value(committed_offset, **fields)


def tombstone(group_id: str, topic: str = "t", partition: int = 0) -> Entry:
    return offset_key(group_id, topic, partition), None


# --- groups


def group_entry(record_type: int, group_id: str, fields: Mapping[str, Any] | None, **key_parts: str) -> Entry:
    """A group record; `fields` of None make a tombstone."""
    key = encode_key(record_type, {"group_id": group_id, **key_parts})
    version = 3 if record_type == 2 else 0
    return key, None if fields is None else encode_value(record_type, version, fields)


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription of version 0."""
    names = b"".join(len(name.encode()).to_bytes(2) + name.encode() for name in topics)
    return bytes(2) + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"


def classic_fields(
    *members: tuple[str, bytes],
    protocol_type: str = "consumer",
    protocol: str | None = "range",
    state_timestamp_ms: int = -1,
    generation: int = 1,
    instance_id: str | None = None,
) -> dict[str, Any]:
    """The value of a type-2 record; members are (member_id, subscription)."""
    return {
        "protocol_type": protocol_type,
        "generation": generation,
        "protocol": protocol,
        "leader": members[0][0] if members else None,
        "current_state_timestamp_ms": state_timestamp_ms,
        "members": [
            {
                "member_id": member_id, "group_instance_id": instance_id, "client_id": "client",
                "client_host": "/127.0.0.1", "rebalance_timeout_ms": -1, "session_timeout_ms": 45_000,
                "subscription": data,
                "assignment": bytes(2) + (1).to_bytes(4) + b"\x00\x01t" + (1).to_bytes(4) + bytes(4) + b"\xff" * 4,
            }
            for member_id, data in members
        ],
    }  # fmt: skip


def old_group_entry(group_id: str, *members: tuple[str, bytes]) -> Entry:
    """A type-2 record in the version that every release reads; up to 0.10.0 the leader is never null."""
    fields = classic_fields(*members)
    return encode_key(2, {"group_id": group_id}), encode_value(2, 0, {**fields, "leader": fields["leader"] or ""})


BAD_SUBSCRIPTION = bytes.fromhex("0001000000ff00")
SHORT_SUBSCRIPTION = b"\x00"
