"""The plan as bytes and as an identity."""

import hashlib
import random

import pyarrow as pa
import pytest

from sexton.coordinator.batches import MAX_BATCH_BYTES
from sexton.coordinator.loading import load
from sexton.coordinator.profiles import NEWEST, profile_of
from sexton.coordinator.tombstones import encode_batches, plan_id, tombstones_sha256
from sexton.log.batch import Batch, read_batches, read_records
from tests.coordinator.golden import CAP_BYTES
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log, group_entry
from tests.plain_sweep import Tombstone, in_plan_order, sweep
from tests.record_fields import decode_key

LATER = BASE_MS + 86_400_000
RESOLVED = {"topics": [], "version": 1, "timestamp": 1}
HISTORY = [
    BatchSpec(entries=(commit(group_id, 1, topic, partition),))
    for group_id in ("b", "a", "группа", "日本😀", "z" * 40)
    for topic in ("u", "t")
    for partition in (10, 9)
] + [
    BatchSpec(entries=(group_entry(3, "b", {"epoch": 1}),)),
    BatchSpec(entries=tuple(group_entry(16, "b", RESOLVED, regular_expression=regex) for regex in "yx")),
]


def _plan(codec=0):
    return sweep(load([encode_log(HISTORY, codec=codec)], cap_bytes=CAP_BYTES), retention_ms=1, now_ms=LATER)


def _identity(tombstones, **changes):
    facts = {
        "cluster_id": "cluster",
        "topic_id": "topic",
        "as_of_ms": LATER,
        "cuts": {0: 22, 1: 0},
        "profile": "group_coordinator",
        "retention_ms": 1,
        "policy_sha256": None,
        **changes,
    }
    schema = pa.schema([("key", pa.binary()), ("cause", pa.string())])
    rows = pa.Table.from_pylist([{"key": item.key, "cause": item.cause} for item in tombstones], schema)
    return plan_id(**facts, tombstones={0: tombstones_sha256([rows.slice(0, 1), rows.slice(1)])})


def test_the_order_of_a_plan():
    told = [
        (item.group_id, item.record_type, item.topic, item.partition, item.regular_expression)
        for item in _plan()
        if item.group_id in ("a", "b")
    ]
    offsets = [("t", 9), ("t", 10), ("u", 9), ("u", 10)]
    types, regexes = (6, 16, 16, 4, 3), (None, "x", "y", None, None)
    assert told == [
        *(("a", 1, topic, partition, None) for topic, partition in offsets),
        ("a", 2, None, None, None),
        *(("b", 1, topic, partition, None) for topic, partition in offsets),
        *(("b", record_type, None, None, regex) for record_type, regex in zip(types, regexes, strict=True)),
    ]
    assert [item.group_id.encode() for item in _plan()] == sorted(item.group_id.encode() for item in _plan())


def test_members_come_type_after_type():
    types = (10, 11, 12, 13, 14, 15)
    mixed = [
        Tombstone(record_type=kind, group_id="g", member_id=member, cause="group_empty")
        for kind in types
        for member in (("n", "m") if kind in (10, 13, 14) else (None,))
    ]
    of_members = [[(kind, "m"), (kind, "n")] for kind in (14, 13, 10)]
    told = [*of_members[0], *of_members[1], (12, None), *of_members[2], (15, None), (11, None)]
    assert [(item.record_type, item.member_id) for item in in_plan_order(mixed)] == told


def _encoded(tombstones, *, base_offset, profile=NEWEST, max_batch_bytes=MAX_BATCH_BYTES):
    keys = [(item.group_id, item.key) for item in tombstones]
    options = {"base_offset": base_offset, "profile": profile, "max_batch_bytes": max_batch_bytes}
    return encode_batches(keys, as_of_ms=LATER, **options)


@pytest.mark.parametrize("max_batch_bytes", [1_048_588, 400, 1])
def test_batches_read_back_as_the_tombstones_in_order(max_batch_bytes):
    tombstones = _plan()
    data = _encoded(tombstones, base_offset=22, max_batch_bytes=max_batch_bytes)
    batches = list(read_batches(data))
    assert all(isinstance(batch, Batch) and batch.crc_ok and batch.codec == 0 for batch in batches)
    assert all(batch.producer_id == -1 and not batch.is_transactional for batch in batches)
    records = [record for batch in batches for record in read_records(batch, cap_bytes=CAP_BYTES)]
    assert [record.log_offset for record in records] == list(range(22, 22 + len(tombstones)))
    assert {(record.timestamp_ms, record.value) for record in records} == {(LATER, None)}
    assert [record.key for record in records] == [item.key for item in tombstones]
    assert [decode_key(record.key)[1]["group_id"] for record in records] == [item.group_id for item in tombstones]
    if max_batch_bytes == 1:
        assert len(batches) == len(tombstones)
    else:
        assert all(batch.size_bytes <= max_batch_bytes for batch in batches)
        assert (len(batches) > 1) == (max_batch_bytes == 400)


def test_a_log_with_the_plan_behind_it_loads_without_what_the_plan_removes():
    log = encode_log(HISTORY)
    end = load([log], cap_bytes=CAP_BYTES).cut
    loaded = load([log, _encoded(_plan(), base_offset=end)], cap_bytes=CAP_BYTES)
    assert not loaded.offsets
    assert not loaded.groups.by_id
    assert not loaded.failures


def test_no_tombstones_make_no_bytes():
    assert encode_batches([], base_offset=0, as_of_ms=0, profile=NEWEST) == b""


@pytest.mark.parametrize("release, stamp_ms", [("0.8.2", -1), ("0.9", -1), ("0.10.0", LATER)])
def test_old_brokers_write_single_messages(release, stamp_ms):
    profile = profile_of(f"offset_manager:{release}")
    batches = list(read_batches(_encoded(_plan(), base_offset=3, profile=profile)))
    assert [batch.magic for batch in batches] == [profile.record_format] * len(_plan())
    assert [batch.base_offset for batch in batches] == list(range(3, 3 + len(_plan())))
    assert {batch.max_timestamp_ms for batch in batches} == {stamp_ms}


def test_the_scala_coordinator_writes_a_batch_for_each_group():
    batches = list(read_batches(_encoded(_plan(), base_offset=0, profile=profile_of("group_metadata_manager"))))
    groups = [{decode_key(r.key)[1]["group_id"] for r in read_records(b, cap_bytes=CAP_BYTES)} for b in batches]
    assert all(len(own) == 1 for own in groups)
    assert len(groups) == len({item.group_id for item in _plan()}) > 1


def test_the_identity_depends_on_what_the_plan_says():
    tombstones = _plan()
    shuffled = random.Random(4).sample(tombstones, len(tombstones))
    assert _identity(in_plan_order(shuffled)) == _identity(tombstones)
    assert _identity(tombstones, cuts={1: 0, 0: 22}) == _identity(tombstones)
    others = [
        _identity(tombstones[1:]), _identity(shuffled), _identity(tombstones, as_of_ms=LATER + 1),
        _identity(tombstones, retention_ms=2), _identity(tombstones, cuts={0: 22, 1: 1}),
        _identity(tombstones, policy_sha256="p"), _identity(tombstones, cluster_id="other"),
        _identity(tombstones, topic_id="other"), _identity(tombstones, profile="offset_manager"),
    ]  # fmt: skip
    assert len({_identity(tombstones), *others}) == len(others) + 1


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
def test_the_identity_does_not_depend_on_the_log_s_codec(codec):
    assert _identity(_plan(codec)) == _identity(_plan())


def test_the_identity_is_told_for_ever():
    """Plans are approved by their id: the same rows must give the same one in every version."""
    tombstone = Tombstone(record_type=2, group_id="g", cause="group_empty")
    assert tombstone.key.hex() == "0002000167"
    columns = (tombstone.key, b"group_empty")
    parts = [part for value in columns for part in (len(value).to_bytes(8, "little"), value)]
    tombstones = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    plan = (
        '{"as_of_ms":1790086400000,"cluster_id":"cluster","cuts":[[0,22],[1,0]],"policy_sha256":null,'
        f'"profile":"group_coordinator","retention_ms":1,"tombstones":[[0,"{tombstones}"]],'
        '"topic_id":"topic"}'
    )
    assert _identity([tombstone]) == hashlib.sha256(plan.encode()).hexdigest()
