"""Histories of a log partition for Hypothesis: what producers, coordinators and bad luck can leave in the log.

A history is a list of small `BatchSpec`; `encode_log` turns it into the bytes of a segment. Few groups, topics,
members and producers, so that records meet: values under tombstones, markers that come twice, groups that change their
type, transitions that no coordinator would make.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from sexton.log.batch import encode_batch, encode_marker
from tests.record_fields import encode_key, encode_value

Entry = tuple[bytes | None, bytes | None]

BASE_MS = 1_790_000_000_000
GROUP_IDS = ("a", "b", "группа", "日本😀", "")
TOPICS = ("t", "u")
PARTITIONS = (0, 1)
PRODUCER_IDS = (1, 2, 3)
MEMBER_IDS = ("m1", "m2")
TOPIC_IDS = (UUID(int=0), UUID(int=7), UUID(int=8 << 64))
NO_PRODUCER = -1
COMMIT, ABORT = 1, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """A batch: its records, or a marker of `producer_id` when `control_type` is given.

    `gap` log_offsets are missing before it and `holes` before its records, as compaction leaves them. No entries and
    no control type make the empty batch that is kept for a producer.
    """

    entries: tuple[Entry, ...] = ()
    holes: tuple[int, ...] = ()
    producer_id: int = NO_PRODUCER
    transactional: bool = False
    control_type: int | None = None
    timestamp_ms: int = BASE_MS
    gap: int = 0
    crc_ok: bool = True


def encode_log(history: Sequence[BatchSpec], *, codec: int = 0, base_offset: int = 0) -> bytes:
    """The bytes of a segment with `history`, its data batches compressed with `codec`."""
    return b"".join(encode_batches(history, codec=codec, base_offset=base_offset))


def encode_batches(history: Sequence[BatchSpec], *, codec: int = 0, base_offset: int = 0) -> list[bytes]:
    """As `encode_log`, batch by batch."""
    batches = []
    for spec in history:
        base_offset += spec.gap
        data, next_offset = _encode(spec, codec=codec, base_offset=base_offset)
        batches.append(data if spec.crc_ok else _with_bad_crc(data))
        base_offset = next_offset
    return batches


def _encode(spec: BatchSpec, *, codec: int, base_offset: int) -> tuple[bytes, int]:
    epoch = -1 if spec.producer_id == NO_PRODUCER else 0
    if spec.control_type in (COMMIT, ABORT):
        marker = encode_marker(
            spec.control_type == COMMIT,
            base_offset=base_offset,
            timestamp_ms=spec.timestamp_ms,
            producer_id=spec.producer_id,
            producer_epoch=epoch,
        )
        return marker, base_offset + 1
    entries = spec.entries
    if spec.control_type is not None:
        entries = ((spec.control_type.to_bytes(4), bytes(6)),)
    deltas, at = [], -1
    for index in range(len(entries)):
        at += 1 + (spec.holes[index] if index < len(spec.holes) else 0)
        deltas.append(at)
    data = encode_batch(
        entries,
        base_offset=base_offset,
        timestamp_ms=spec.timestamp_ms,
        producer_id=spec.producer_id,
        producer_epoch=epoch,
        codec=0 if spec.control_type is not None else codec,
        transactional=spec.transactional,
        control=spec.control_type is not None,
        offset_deltas=deltas,
    )
    return data, base_offset + max(at, 0) + 1


def _with_bad_crc(batch: bytes) -> bytes:
    return batch[:17] + bytes([batch[17] ^ 0xFF]) + batch[18:]


# --- offsets


def offset_key(group_id: str, topic: str = "t", partition: int = 0, *, record_type: int = 1) -> bytes:
    return encode_key(record_type, {"group_id": group_id, "topic": topic, "partition": partition})


def offset_value(committed_offset: int, *, version: int = 3, record_type: int = 1, **fields: Any) -> bytes:
    """A value; `fields` are those of the record type beyond the committed offset."""
    known: dict[str, Any] = {"metadata": "", "commit_timestamp_ms": BASE_MS, "leader_epoch": -1, **fields}
    wanted = {"committed_offset", "metadata", "commit_timestamp_ms"}
    wanted |= {"leader_epoch"} if version >= 3 else set()
    wanted |= {"expire_timestamp_ms"} if version == 1 and "expire_timestamp_ms" in known else set()
    wanted |= {"topic_id"} if version == 4 and "topic_id" in known else set()
    all_fields = {"committed_offset": committed_offset, **known}
    return encode_value(record_type, version, {name: all_fields[name] for name in wanted})


def commit(group_id: str, committed_offset: int = 1, topic: str = "t", partition: int = 0, **fields: Any) -> Entry:
    return offset_key(group_id, topic, partition), offset_value(committed_offset, **fields)


def tombstone(group_id: str, topic: str = "t", partition: int = 0) -> Entry:
    return offset_key(group_id, topic, partition), None


_group_ids = st.sampled_from(GROUP_IDS)
_offset_group_ids = st.sampled_from(("a", "a", "a", "b", "b", *GROUP_IDS))
_timestamps = st.integers(-5, 5).map(lambda step: BASE_MS + step * 60_000)
_metadata = st.sampled_from(["", "", "m", "метка", "x" * 130, "\x00"])


@st.composite
def _offset_keys(draw: st.DrawFn, record_type: int) -> bytes:
    topic, partition = draw(st.sampled_from(("t", *TOPICS))), draw(st.sampled_from((0, 0, *PARTITIONS)))
    return offset_key(draw(_offset_group_ids), topic, partition, record_type=record_type)


@st.composite
def commits(draw: st.DrawFn) -> Entry:
    """An offset value of any version, or of the type that 0.8.2 wrote."""
    record_type = draw(st.sampled_from([1, 1, 1, 1, 0]))
    version = 0 if record_type == 0 else draw(st.integers(0, 4))
    value = offset_value(
        draw(st.integers(0, 1 << 40)), version=version, record_type=record_type,
        leader_epoch=draw(st.integers(-1, 3)), metadata=draw(_metadata), commit_timestamp_ms=draw(_timestamps),
        expire_timestamp_ms=draw(st.one_of(st.just(-1), _timestamps)), topic_id=draw(st.sampled_from(TOPIC_IDS)),
    )  # fmt: skip
    return draw(_offset_keys(record_type)), value


@st.composite
def offset_tombstones(draw: st.DrawFn) -> Entry:
    return draw(_offset_keys(draw(st.sampled_from([1, 1, 1, 0])))), None


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


BAD_SUBSCRIPTION = bytes.fromhex("0001000000ff00")
SHORT_SUBSCRIPTION = b"\x00"
_subscriptions = st.one_of(
    st.lists(st.sampled_from(TOPICS), max_size=2).map(lambda topics: subscription(*topics)),
    st.lists(st.sampled_from(TOPICS), max_size=2).map(lambda topics: subscription(*topics)),
    st.sampled_from([b"", SHORT_SUBSCRIPTION, BAD_SUBSCRIPTION]),
)


@st.composite
def _classic_values(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(st.sampled_from(MEMBER_IDS), max_size=2, unique=draw(st.integers(0, 9)) > 0))
    return classic_fields(
        *((member_id, draw(_subscriptions)) for member_id in ids),
        protocol_type=draw(st.sampled_from(["consumer", "consumer", "connect", ""])),
        protocol=draw(st.sampled_from(["range", "range", None])),
        state_timestamp_ms=draw(st.one_of(st.just(-1), _timestamps)),
        generation=draw(st.integers(0, 7)),
        instance_id=draw(st.sampled_from([None, None, None, "instance"])),
    )


def _fields(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of a record or of a part of one, each by its own strategy."""
    return st.fixed_dictionaries(values)


_epochs = st.integers(0, 3)
_names = st.lists(st.sampled_from(TOPICS), max_size=2)
_partitions = st.lists(st.sampled_from([0, 1]), max_size=2, unique=True)


def _mostly_unique(
    items: st.SearchStrategy[dict[str, Any]], by: str, *, max_size: int = 2
) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists in which `by` rarely comes twice, on which Kafka's replay throws."""
    unique = st.lists(items, max_size=max_size, unique_by=lambda item: item[by])
    return st.integers(0, 9).flatmap(lambda chance: unique if chance else st.lists(items, max_size=max_size))


_topic_partitions = _mostly_unique(_fields(topic_id=st.sampled_from(TOPIC_IDS[1:]), partitions=_partitions), "topic_id")
_tasks = _mostly_unique(_fields(subtopology_id=st.sampled_from(["0", "1"]), partitions=_partitions), "subtopology_id")
_epoched_tasks = _mostly_unique(
    _fields(
        subtopology_id=st.sampled_from(["0", "1"]), partitions=_partitions,
        assignment_epochs=st.sampled_from([None, [], [], [1], [1, 2]]),
    ),
    "subtopology_id",
)
_target_epochs = _fields(
    assignment_epoch=st.sampled_from([-2, -1, 1, 1, 2, 2, 3]),
    assignment_timestamp=st.sampled_from([0, 0, 0, 0, BASE_MS, -1]),
)
_client = {
    "client_id": st.just("client"), "client_host": st.just("/127.0.0.1"), "rack_id": st.sampled_from([None, "r"]),
}  # fmt: skip
_pairs = _mostly_unique(_fields(key=st.sampled_from("ab"), value=st.just("v")), "key")
_share_topics = _mostly_unique(
    _fields(topic_id=st.sampled_from(TOPIC_IDS[1:]), topic_name=st.just("t"), partitions=_partitions), "topic_id"
)
_infos = st.lists(
    st.builds(
        lambda name: {"name": name, "partitions": 1, "replication_factor": 1, "topic_configs": []},
        st.sampled_from(TOPICS),
    ),
    max_size=1,
)
_subtopologies = _mostly_unique(
    _fields(
        subtopology_id=st.sampled_from(["0", "1"]), source_topics=_names, source_topic_regex=st.just([]),
        state_changelog_topics=st.just([]), repartition_sink_topics=st.just([]), repartition_source_topics=_infos,
        copartition_groups=st.just([]),
    ),
    "subtopology_id",
)  # fmt: skip
_described_topics = st.lists(
    _fields(
        topic_id=st.sampled_from((*TOPIC_IDS[1:], *TOPIC_IDS)), topic_name=st.sampled_from(["t", "t", "t", ""]),
        num_partitions=st.sampled_from([1, 1, -1]), partition_metadata=st.just([]),
    ),
    max_size=1,
)
_GROUP_VALUES: dict[int, st.SearchStrategy[dict[str, Any]]] = {
    2: _classic_values(),
    3: _fields(epoch=_epochs),
    4: _fields(topics=_described_topics),
    5: _fields(
        **_client, instance_id=st.sampled_from([None, "instance"]), subscribed_topic_names=_names,
        subscribed_topic_regex=st.sampled_from([None, "", "t.*"]), rebalance_timeout_ms=st.just(45_000),
        server_assignor=st.none(),
        classic_member_metadata=st.sampled_from([None, {"session_timeout_ms": 30_000, "supported_protocols": []}]),
    ),
    6: _target_epochs,
    7: _fields(topic_partitions=_topic_partitions),
    8: _fields(
        member_epoch=_epochs, previous_member_epoch=_epochs, state=st.sampled_from([0, 0, 1, 2, 127]),
        assigned_partitions=_topic_partitions,
        partitions_pending_revocation=st.one_of(st.just([]), _topic_partitions),
    ),
    10: _fields(**_client, subscribed_topic_names=_names),
    11: _fields(epoch=_epochs, metadata_hash=st.just(0)),
    12: _target_epochs,
    13: _fields(topic_partitions=_topic_partitions),
    14: _fields(
        member_epoch=_epochs, previous_member_epoch=_epochs, state=st.sampled_from([0, 127]),
        assigned_partitions=_topic_partitions,
    ),
    15: _fields(initializing_topics=_share_topics, initialized_topics=_share_topics, deleting_topics=st.just([])),
    16: _fields(topics=_names, version=st.just(1), timestamp=st.just(BASE_MS)),
    17: _fields(
        epoch=_epochs, metadata_hash=st.just(0), validated_topology_epoch=st.integers(-1, 2),
        last_assignment_configs=st.one_of(st.none(), _pairs),
    ),
    19: _fields(
        **_client, instance_id=st.none(), rebalance_timeout_ms=st.just(45_000), topology_epoch=st.integers(0, 2),
        process_id=st.sampled_from(["p", "q"]), user_endpoint=st.sampled_from([None, {"host": "h", "port": 9}]),
        client_tags=_pairs,
    ),
    20: _target_epochs,
    21: _fields(active_tasks=_tasks, standby_tasks=_tasks, warmup_tasks=st.just([])),
    22: _fields(
        member_epoch=_epochs, previous_member_epoch=_epochs, state=st.sampled_from([1, 1, 2, 3, 127]),
        active_tasks=_epoched_tasks, standby_tasks=_tasks, warmup_tasks=_tasks,
        active_tasks_pending_revocation=st.one_of(st.just([]), _epoched_tasks),
        standby_tasks_pending_revocation=st.just([]), warmup_tasks_pending_revocation=st.just([]),
    ),
    23: _fields(epoch=st.integers(-1, 2), subtopologies=_subtopologies),
}  # fmt: skip
_MEMBER_TYPES = frozenset({5, 7, 8, 10, 13, 14, 19, 21, 22})
_CONSUMER, _SHARE, _STREAMS = (3, 4, 5, 6, 7, 8, 16), (10, 11, 12, 13, 14, 15), (17, 19, 20, 21, 22, 23)
_FAMILIES = ((2,), _CONSUMER, _SHARE, _STREAMS)
# tombstones in an order that no coordinator refuses
_REMOVALS = {
    (2,): (2,),
    _CONSUMER: (8, 7, 6, 5, 16, 4, 3),
    _SHARE: (14, 13, 12, 10, 15, 11),
    _STREAMS: (22, 21, 20, 19, 17, 23),
}
_USUAL_FAMILY = {"a": (2,), "b": _CONSUMER, "группа": _SHARE, "日本😀": _STREAMS}


def _key_parts(record_type: int, member_id: str) -> dict[str, str]:
    if record_type in _MEMBER_TYPES:
        return {"member_id": member_id}
    return {"regular_expression": "t.*"} if record_type == 16 else {}


@st.composite
def _groups(draw: st.DrawFn) -> tuple[str, tuple[int, ...]]:
    """A group and the record types that it gets: mostly those it always gets."""
    group_id = draw(_group_ids)
    usual = _USUAL_FAMILY.get(group_id)
    if usual is None or draw(st.integers(0, 6)) == 0:
        return group_id, draw(st.sampled_from(_FAMILIES))
    return group_id, usual


@st.composite
def group_records(draw: st.DrawFn) -> Entry:
    """One record of a group of any type, legal or not where it comes."""
    group_id, family = draw(_groups())
    record_type = draw(st.sampled_from(family))
    fields = None if draw(st.integers(0, 4)) == 0 else draw(_GROUP_VALUES[record_type])
    parts = _key_parts(record_type, draw(st.sampled_from(MEMBER_IDS)))
    return group_entry(record_type, group_id, fields, **parts)


@st.composite
def group_removals(draw: st.DrawFn) -> list[Entry]:
    """The tombstones that remove a group whole, whatever it had."""
    group_id, family = draw(_groups())
    entries = []
    for record_type in _REMOVALS[family]:
        for member_id in MEMBER_IDS if record_type in _MEMBER_TYPES else MEMBER_IDS[:1]:
            entries.append(group_entry(record_type, group_id, None, **_key_parts(record_type, member_id)))
    return entries


# --- what is not as it should be


def _truncated(entry: Entry, cut: int, part: int) -> Entry:
    key, value = entry
    if part == 0 or value is None:
        return (key or b"")[: -1 - cut] or b"\x00", value
    return key, value[: -1 - cut]


@st.composite
def _early_share_records(draw: st.DrawFn) -> Entry:
    """A record of a share group as 4.0 wrote it; type 9 is of that release alone."""
    record_type = draw(st.sampled_from([9, 9, 11, 15]))
    fields = {9: _fields(topics=_described_topics), **_GROUP_VALUES}[record_type]
    value = draw(st.one_of(st.none(), fields.map(lambda known: encode_value(record_type, 0, known, release=(4, 0)))))
    return encode_key(record_type, {"group_id": draw(_groups())[0]}), value


_INVALID_GROUP = b"\x00\x01\x00\x04g\xff\xedz\x00\x01t" + bytes(4)
_odd_entries = st.one_of(
    st.builds(_truncated, commits(), st.integers(0, 6), st.integers(0, 1)),
    st.builds(_truncated, group_records(), st.integers(0, 6), st.integers(0, 1)),
    _early_share_records(),
    st.builds(lambda entry: (entry[0] + b"junk", entry[1]), offset_tombstones()),
    st.builds(lambda entry, value: (entry[0], value + b"junk"), offset_tombstones(), st.just(offset_value(9))),
    st.builds(lambda entry, version: (entry[0], version.to_bytes(2) + bytes(30)), commits(), st.integers(5, 9)),
    st.builds(
        lambda kind, value: (kind.to_bytes(2, signed=True) + b"\x00\x01g", value),
        st.sampled_from([99, 9, 18, 24, -5]),
        st.sampled_from([None, b"", b"\x00\x00x"]),
    ),
    st.sampled_from(
        [
            (None, b"v"),
            (b"", b"v"),
            (b"\x00", None),
            (_INVALID_GROUP, offset_value(5)),
            (_INVALID_GROUP, None),
            (offset_key("a"), b""),
            (offset_key("a"), b"\x00"),
        ]
    ),
)


# --- histories


@st.composite
def batches(draw: st.DrawFn, *, odd: bool = True, groups: bool = True) -> BatchSpec:
    """One batch of any kind: data, marker, or empty."""
    kind = draw(st.integers(0, 19))
    timestamp_ms, gap = draw(_timestamps), draw(st.sampled_from([0, 0, 0, 1, 40]))
    producer_id = draw(st.sampled_from((NO_PRODUCER, NO_PRODUCER, *PRODUCER_IDS)))
    if kind < 6:
        control_type = draw(st.sampled_from([COMMIT, COMMIT, ABORT, *((2,) if odd else ())]))
        spec = BatchSpec(producer_id=draw(st.sampled_from(PRODUCER_IDS)), transactional=True, control_type=control_type)
    elif kind == 6:
        spec = BatchSpec(producer_id=producer_id)
    else:
        parts: list[st.SearchStrategy[list[Entry]]] = [commits().map(_alone), commits().map(_alone)]
        parts += [offset_tombstones().map(_alone)]
        parts += (
            [group_records().map(_alone), st.lists(group_records(), max_size=4), group_removals()] if groups else []
        )
        parts += [_odd_entries.map(_alone)] if odd and draw(st.integers(0, 4)) == 0 else []
        entries = [entry for part in draw(st.lists(st.one_of(parts), min_size=1, max_size=3)) for entry in part]
        spec = BatchSpec(
            entries=tuple(entries),
            holes=tuple(draw(st.lists(st.sampled_from([0, 0, 2]), max_size=len(entries)))),
            producer_id=producer_id,
            transactional=producer_id != NO_PRODUCER and draw(st.integers(0, 4)) > 0,
        )
    crc_ok = not (odd and draw(st.integers(0, 29)) == 0)
    return replace(spec, timestamp_ms=timestamp_ms, gap=gap, crc_ok=crc_ok)


def _alone(entry: Entry) -> list[Entry]:
    return [entry]


def histories(*, max_size: int = 12, odd: bool = True, groups: bool = True) -> st.SearchStrategy[list[BatchSpec]]:
    """Histories of up to `max_size` batches; without `odd` everything can be decoded, without `groups` only offsets."""
    return st.lists(batches(odd=odd, groups=groups), max_size=max_size)
