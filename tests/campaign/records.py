"""The records that histories are made of: offsets written out by hand, values of groups by the declared layouts.

Offset keys and values are packed here and not by sexton.records, so that a mistake there cannot hide. The values of
groups are a few hundred that are made once, of small domains, so that members, topics and epochs meet.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from sexton.records import RECORD_TYPES
from sexton.records.schema import ID, Array, Blob, Field, Fixed, Kind, Struct, Text
from tests.log_builder import BAD_SUBSCRIPTION, BASE_MS, MEMBER_IDS, SHORT_SUBSCRIPTION, TOPIC_IDS, TOPICS, subscription
from tests.record_fields import encode_key, encode_value

OffsetKey = tuple[str, str, int]
INT64 = (-(1 << 63), (1 << 63) - 1)
HIGHEST_VALUE_VERSION = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as it lies in the log, and what it is: `offset_key` for those of types 0 and 1 that can be read.

    `group_id` is the group that the record is about. `version` is that of an offset value, None for a tombstone;
    `is_broken` says that no release reads the value.
    """

    key: bytes | None
    value: bytes | None
    text: str
    group_id: str | None = None
    record_type: int | None = None
    offset_key: OffsetKey | None = None
    version: int | None = None
    is_broken: bool = False

    def __iter__(self) -> Iterator[bytes | None]:
        """Key and value, as those of a plain record."""
        return iter((self.key, self.value))


# --- offsets


def offset_key_bytes(record_type: int, group: bytes, topic: str, partition: int) -> bytes:
    name = topic.encode()
    return struct.pack(f">hh{len(group)}sh{len(name)}si", record_type, len(group), group, len(name), name, partition)


def offset_value_bytes(
    version: int, committed_offset: int, *, metadata: bytes, leader_epoch: int, commit_ms: int, expire_ms: int,
    tag: bytes,
) -> bytes:  # fmt: skip
    """A value; `expire_ms` is in version 1 alone, `leader_epoch` from 3 on, `tag`, the tagged fields, in 4."""
    head = struct.pack(">hq", version, committed_offset)
    if version >= 3:
        head += struct.pack(">i", leader_epoch)
    if version >= 4:
        head += _uvarint(len(metadata) + 1) + metadata
    else:
        head += struct.pack(">h", len(metadata)) + metadata
    return (
        head
        + struct.pack(">q", commit_ms)
        + (struct.pack(">q", expire_ms) if version == 1 else b"")
        + (tag if version == 4 else b"")
    )


def _uvarint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])


_METADATA = tuple(text.encode() for text in ("", "", "", "m", "метка", "x" * 130, "\x00", "😀"))
_TAGS = (
    b"\0", b"\0", *(b"\1\0\x10" + topic_id.bytes for topic_id in TOPIC_IDS), b"\1\5\2zz",
    b"\2\0\x10" + TOPIC_IDS[1].bytes + b"\5\0",
)  # fmt: skip
ALIKE = (b"\xff", "�".encode())
"""Ends of a name that read alike: bytes that are no UTF-8, and what is read in their place."""


def random_commit_ms(rng: Random) -> int:
    return rng.choice(INT64) if rng.random() < 0.01 else BASE_MS + rng.randrange(20) * 1000


def value_entry(rng: Random, record_type: int, group: bytes, offset_key: OffsetKey, *, highest_version: int) -> Entry:
    """An offset value of a random version that is legal for its type."""
    version = 0 if record_type == 0 and rng.random() < 0.8 else rng.randint(0, highest_version)
    value = offset_value_bytes(
        version,
        rng.randrange(1000),
        metadata=rng.choice(_METADATA),
        leader_epoch=rng.choice((-1, -1, 0, 3)),
        commit_ms=random_commit_ms(rng),
        expire_ms=rng.choice((-1, BASE_MS + rng.randrange(20) * 1000)),
        tag=rng.choice(_TAGS),
    )
    if rng.random() < 0.02:
        value += b"junk"
    cleared = tombstone_entry(record_type, group, offset_key)
    text = f"set {'/'.join(map(str, offset_key))} (type {record_type}, v{version})"
    return replace(cleared, value=value, text=text, version=version)


def tombstone_entry(record_type: int, group: bytes, offset_key: OffsetKey) -> Entry:
    return Entry(
        key=offset_key_bytes(record_type, group, offset_key[1], offset_key[2]),
        value=None,
        text=f"clear {'/'.join(map(str, offset_key))} (type {record_type})",
        group_id=offset_key[0],
        record_type=record_type,
        offset_key=offset_key,
    )


# --- groups


FAMILIES = ((2,), (3, 4, 5, 6, 7, 8, 16), (9, 10, 11, 12, 13, 14, 15), (17, 18, 19, 20, 21, 22, 23))
_REMOVALS = {2: (2,), 3: (8, 7, 6, 5, 16, 4, 3), 9: (14, 13, 12, 10, 15, 11), 17: (22, 21, 20, 19, 17, 23)}
"""By the first type of the family, tombstones in an order that no coordinator refuses."""
SHARE = FAMILIES[2]
CREATING = frozenset((2, 3, 11, 17))
"""The types of which a value makes a group, and a tombstone removes it (GroupMetadataManager.replay)."""
_TIMEOUTS_MS = (1_999_999_999, 2_000_000_000)
"""So long that no member of a broker that has loaded a history leaves it."""
_DOMAINS: dict[str, tuple[Any, ...]] = {
    "protocol_type": ("consumer", "consumer", "consumer", "connect", ""),
    "protocol": ("range", "range", None),
    "generation": (0, 0, 1, 7),
    "current_state_timestamp_ms": (-1, *range(BASE_MS, BASE_MS + 20_000, 2000), *INT64),
    "session_timeout_ms": _TIMEOUTS_MS,
    "rebalance_timeout_ms": _TIMEOUTS_MS,
    "member_id": MEMBER_IDS,
    "subscription": (
        subscription(), subscription("t"), subscription("t"), subscription("t", "u"), b"", SHORT_SUBSCRIPTION,
        BAD_SUBSCRIPTION,
    ),
    "epoch": (0, 1, 2, 3),
    "member_epoch": (0, 1, 2, 3),
    "assignment_epoch": (-2, -1, 1, 1, 2, 2, 3),
    "assignment_timestamp": (0, 0, 0, BASE_MS, -1),
    "state": (0, 0, 1, 1, 2, 3, 127),
    "process_id": ("p", "q"),
    "subtopology_id": ("0", "1"),
    "key": ("a", "b"),
    "num_partitions": (1, 1, 1, -1),
    "topic_name": ("t", "t", "t", ""),
    "subscribed_topic_regex": (None, None, "", "t.*"),
}  # fmt: skip
_RELEASES = ((4, 0), (4, 1), (4, 2), None)
_VALUES_BY_TYPE = 60


@cache
def group_values(record_type: int, *, version: int) -> tuple[bytes, ...]:
    """The values of a type that histories choose from."""
    rng, schema = Random(record_type), RECORD_TYPES[record_type].value
    found: list[bytes] = []
    while len(found) < _VALUES_BY_TYPE:
        fields = {field.name: _random(rng, field) for field in schema.fields if not _is_left_out(rng, field)}
        found.append(encode_value(record_type, version, fields, release=rng.choice(_RELEASES)))
    return tuple(found)


def _is_left_out(rng: Random, field: Field) -> bool:
    return field.tag is not None and rng.random() < 0.5


def _random(rng: Random, field: Field) -> Any:
    if field.name in _DOMAINS:
        return rng.choice(_DOMAINS[field.name])
    return _random_of(rng, field.kind)


def _random_of(rng: Random, kind: Kind) -> Any:
    match kind:
        case Fixed():
            return rng.choice(TOPIC_IDS[1:] if kind is ID else (0, 1))
        case Text():
            return rng.choice((None, *TOPICS) if kind.nullable else TOPICS)
        case Blob():
            return b"\0\1"
        case Array():
            items = [_random_of(rng, kind.item) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
            return items if rng.random() < 0.1 else _without_repeats(items)
        case Struct():
            if kind.nullable and rng.random() < 0.5:
                return None
            return {field.name: _random(rng, field) for field in kind.fields if not _is_left_out(rng, field)}


def _without_repeats(items: list[Any]) -> list[Any]:
    """Items of which the first fields differ: on repeats Kafka's replay throws."""
    firsts = [next(iter(item.values())) if isinstance(item, dict) else item for item in items]
    return [item for number, item in enumerate(items) if firsts[number] not in firsts[:number]]


def _key_parts(record_type: int, member_id: str) -> dict[str, str]:
    parts = {"member_id": member_id, "regular_expression": "t.*"}
    return {field.name: parts[field.name] for field in RECORD_TYPES[record_type].key.fields if field.name in parts}


def group_entry(rng: Random, record_type: int, group_id: str, *, old: bool) -> Entry:
    """A record of a group, one in five a tombstone; `old` is for brokers that know version 0 of type 2 alone."""
    if rng.random() > 0.2:
        return group_value_entry(rng, record_type, group_id, old=old)
    return _group_entry(record_type, group_id, rng.choice(MEMBER_IDS), None)


def group_value_entry(rng: Random, record_type: int, group_id: str, *, old: bool) -> Entry:
    """As group_entry, no tombstone."""
    version = 0 if record_type != 2 or old else rng.randrange(5)
    value = rng.choice(group_values(record_type, version=version))
    return _group_entry(record_type, group_id, rng.choice(MEMBER_IDS), value)


def _group_entry(record_type: int, group_id: str, member_id: str, value: bytes | None) -> Entry:
    parts = _key_parts(record_type, member_id)
    what = f"type {record_type} {group_id} {''.join(parts.values())}"
    return Entry(
        key=encode_key(record_type, {"group_id": group_id, **parts}),
        value=value,
        text=f"clear {what}" if value is None else f"set {what} {value.hex()}",
        group_id=group_id,
        record_type=record_type,
    )


def removal_entries(family: tuple[int, ...], group_id: str, *, member_id: str | None = None) -> list[Entry]:
    """The tombstones that remove a group whole, or one member of it, whatever it had."""
    members, of_the_group = (MEMBER_IDS, MEMBER_IDS[:1]) if member_id is None else ((member_id,), ())
    return [
        _group_entry(record_type, group_id, each, None)
        for record_type in _REMOVALS[family[0]]
        for each in (members if "member_id" in _key_parts(record_type, "") else of_the_group)
    ]


# --- what is not as it should be


def odd_entry(rng: Random, good: Entry) -> Entry:
    """A record that some or all coordinators refuse: no type, an unknown one, a version too high, a body cut short."""
    kind = rng.randrange(5)
    if kind == 0:
        key = rng.choice((None, b"", b"\x00"))
        return Entry(key=key, value=rng.choice((None, b"v")), text=f"key {key!r}")
    if kind == 1:
        record_type = rng.choice((99, 24, -5, 1000))
        return Entry(
            key=record_type.to_bytes(2, signed=True) + b"\x00\x01g",
            value=rng.choice((None, b"", b"\x00\x00x")),
            text=f"unknown type {record_type}",
            record_type=record_type,
        )
    assert good.key is not None
    if kind == 2 or good.value is None:
        short = replace(good, key=good.key[: -rng.randint(1, 4)], text=f"key cut short: {good.text}", is_broken=True)
        return replace(short, offset_key=None, version=None)
    value = good.value[: rng.randrange(min(10, len(good.value)))]
    if kind == 3 and good.offset_key is not None:
        value = rng.randint(HIGHEST_VALUE_VERSION + 1, 9).to_bytes(2) + bytes(40)
    return replace(good, value=value, text=f"value {value.hex()}: {good.text}", is_broken=True)
