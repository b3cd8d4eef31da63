"""Logs to be damaged: what real brokers wrote, and a short one that holds every format, codec and kind of record."""

import base64
import json
import struct
from functools import cache, lru_cache
from pathlib import Path
from random import Random

from sexton.log import codec as codecs
from sexton.log.batch import Batch
from tests.kernels.compare import loaded
from tests.log.samples import batches_of as batches_in
from tests.log_builder import (
    BASE_MS,
    TOPIC_IDS,
    Entry,
    classic_fields,
    commit,
    group_entry,
    subscription,
    tombstone,
)
from tests.log_encoding import encode_batch, encode_marker, encode_message_set

GOLDEN = Path(__file__).parents[1] / "golden"
_SEGMENTS = sorted(GOLDEN.glob("kafka-[0-9]*/before/*/*.log"))


def boundaries(log: bytes) -> list[int]:
    """Where batches begin, and the end."""
    return [*(batch.position for batch in batches_in(log)), len(log)]


def moved(log: bytes, by: int) -> bytes:
    """The log with every log_offset raised: base offsets are outside the CRC. Wrappers of v0 cannot move."""
    out = bytearray(log)
    for batch in batches_in(log):
        assert by == 0 or not (batch.magic == 0 and batch.codec), "its inner messages carry their own offsets"
        struct.pack_into(">q", out, batch.position, batch.base_offset + by)
    return bytes(out)


def joined(*logs: bytes) -> bytes:
    """One log of several, each behind the one before."""
    out, next_offset = b"", 0
    for log in logs:
        out += moved(log, next_offset)
        next_offset += batches_in(log)[-1].next_offset
    return out


@cache
def recordings() -> dict[str, bytes]:
    """What every recorded broker had written, by `kafka-<release>/<log partition>`."""
    return {f"{path.parts[-4]}/{path.parts[-2].rpartition('-')[2]}": path.read_bytes() for path in _SEGMENTS}


@cache
def clean_edge_cases() -> dict[str, bytes]:
    """The recorded edge cases that are read without a complaint."""
    lines = (GOLDEN / "edge-cases.jsonl").read_text("utf-8").splitlines()
    found = {case["case"]: base64.b64decode(case["segment"]) for case in map(json.loads, lines)}
    return {name: log for name, log in found.items() if not loaded(log).undecodable}


@lru_cache(256)
def batches_of(log: bytes) -> list[Batch]:
    return batches_in(log)


def window(log: bytes, random: Random, *, size_bytes: int) -> bytes:
    """Neighbouring batches of a log, about `size_bytes` of them, from a random one on."""
    batches = batches_of(log)
    first = random.randrange(len(batches))
    out = b""
    for batch in batches[first:]:
        if out and len(out) + batch.size_bytes > size_bytes:
            break
        out += batch.data
    return out


def offsets_of_all_versions(group_id: str) -> list[Entry]:
    values = [commit(group_id, 10 + version, partition=version, version=version) for version in range(5)]
    return [*values, commit(group_id, 99, "u", metadata="метка", version=4, topic_id=TOPIC_IDS[1])]


_CLIENT = {"client_id": "c", "client_host": "/h", "rack_id": None}


def group_records() -> list[Entry]:
    """A classic, a consumer, a share and a streams group with a member each."""
    here = [{"topic_id": TOPIC_IDS[1], "partitions": [0, 1]}]
    member = {
        **_CLIENT,
        "instance_id": None,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "rebalance_timeout_ms": 9,
        "server_assignor": None,
        "classic_member_metadata": None,
    }
    epochs = {"member_epoch": 1, "previous_member_epoch": 0, "state": 0, "assigned_partitions": here}
    return [
        group_entry(2, "classic", classic_fields(("m", subscription("t")))),
        group_entry(3, "consumer", {"epoch": 1}),
        group_entry(5, "consumer", member, member_id="m"),
        group_entry(6, "consumer", {"assignment_epoch": 1}),
        group_entry(7, "consumer", {"topic_partitions": here}, member_id="m"),
        group_entry(8, "consumer", {**epochs, "partitions_pending_revocation": []}, member_id="m"),
        group_entry(10, "share", {**_CLIENT, "subscribed_topic_names": ["t"]}, member_id="m"),
        group_entry(11, "share", {"epoch": 1, "metadata_hash": 5}),
        group_entry(14, "share", epochs, member_id="m"),
        group_entry(17, "streams", {"epoch": 2, "metadata_hash": 5}),
        group_entry(23, "streams", {"epoch": 1, "subtopologies": []}),
    ]


@cache
def every_kind() -> bytes:
    """Formats v0 to v2 in every codec they allow, transactions of all fates, every kind of group, an empty batch."""
    log, at = b"", 0

    def old(magic: int, codec: int) -> None:
        nonlocal log, at
        entries = [commit(f"old-{magic}", at, partition=codec, version=1), tombstone("classic", "t", codec)]
        stamp_ms = BASE_MS if magic else -1
        log += encode_message_set(entries, base_offset=at, magic=magic, timestamp_ms=stamp_ms, codec=codec)
        at += len(entries)

    def new(entries: list[Entry], **fields: object) -> None:
        nonlocal log, at
        log += encode_batch(entries, base_offset=at, timestamp_ms=BASE_MS + at, leader_epoch=3, **fields)
        at += max(len(entries), 1)

    def marker(committed: bool, producer_id: int) -> None:
        nonlocal log, at
        log += encode_marker(committed, base_offset=at, timestamp_ms=BASE_MS, producer_id=producer_id, producer_epoch=1)
        at += 1

    for magic in (0, 1):
        for codec in (codecs.NONE, codecs.GZIP, codecs.SNAPPY, codecs.LZ4):
            old(magic, codec)
    new(offsets_of_all_versions("classic"))
    new(group_records())
    for codec in (codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD):
        new([commit("g", codec, "u", codec), commit("h", codec), tombstone("classic", "t", 1)], codec=codec)
    for producer_id in (7, 8, 9):  # committed, aborted, left open
        new(
            [commit("txn", producer_id, partition=producer_id)],
            producer_id=producer_id,
            producer_epoch=1,
            base_sequence=0,
            transactional=True,
        )
    marker(True, 7)
    marker(False, 8)
    new([], producer_id=7, producer_epoch=1)
    new([commit("g", 5), tombstone("h")], offset_deltas=[1, 4], last_offset_delta=6)
    at += 6
    new([commit("last", 1)])
    return log
