"""Logs that whoever may commit offsets, or name a group, could leave: small on disk and dear to read, unless one cares.

Each maker takes how many of its kind to make and gives the bytes of a segment. `LOGS` names them, each with the size of
the benchmark, a small one for counting steps, and the profile by whose rules it was the slowest.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sexton.log import codec as codecs
from sexton.log.crc import crc32c
from sexton.log.varint import write_varint
from tests.faults.bombs import uvarint
from tests.log_builder import BASE_MS, Entry, classic_fields, commit, group_entry, subscription, tombstone
from tests.log_encoding import encode_batch, encode_marker

ABORT = False
_AFTER_CRC = struct.Struct(">hiqqqhii")
_SHORT_KEY = b"\0\1"  # ends behind its type
_PRODUCER = {"producer_epoch": 0, "transactional": True}


def of(entries: list[Entry], base_offset: int, **fields: int | bool) -> bytes:
    return encode_batch(entries, base_offset=base_offset, timestamp_ms=BASE_MS, **fields)  # type: ignore[arg-type]


def raw_batch(body: bytes, count: int, *, base_offset: int, last_delta: int, codec: int = 0, size: int = 0) -> bytes:
    """A batch around `body`; with a `size` it claims that, and its CRC is bad."""
    tail = _AFTER_CRC.pack(codec, last_delta, BASE_MS, BASE_MS, -1, -1, -1, count)
    crc = crc32c(body, crc32c(tail)) ^ bool(size)
    return struct.pack(">qiibI", base_offset, size or 9 + len(tail) + len(body), 0, 2, crc) + tail + body


def many_records(key: bytes, count: int) -> bytes:
    """The body of a batch of `count` tombstones of one key."""
    rest = write_varint(len(key)) + key + write_varint(-1) + b"\0"
    parts = (b"\0\0" + write_varint(delta) + rest for delta in range(count))
    return b"".join(write_varint(len(part)) + part for part in parts)


# --- bytes that are read again and again, or come to more than they are long


def undecodable_flood(count: int) -> bytes:
    """One batch of records without more than a type in their keys."""
    body = codecs.deflate(codecs.ZSTD, many_records(_SHORT_KEY, count))
    return raw_batch(body, count, base_offset=0, last_delta=count - 1, codec=codecs.ZSTD)


def undecodable_batches(count: int, records: int = 200) -> bytes:
    """Batches of such records."""
    body = codecs.deflate(codecs.ZSTD, many_records(_SHORT_KEY, records))
    batch = raw_batch(body, records, base_offset=0, last_delta=records - 1, codec=codecs.ZSTD)
    return b"".join(struct.pack(">q", number * records) + batch[8:] for number in range(count))


def empty_protocols(count: int) -> bytes:
    """A member of a consumer group that supports `count` classic protocols without a name."""
    member = {
        "client_id": "c", "client_host": "/h", "rack_id": None, "instance_id": None, "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None, "rebalance_timeout_ms": 9, "server_assignor": None,
        "classic_member_metadata": {"session_timeout_ms": 9, "supported_protocols": [{"name": "", "metadata": b""}]},
    }  # fmt: skip
    key, value = group_entry(5, "g", member, member_id="m")
    assert value is not None
    one = b"\1\1\0"  # name, metadata, no tags
    tag = value.index(b"\0\0\0\x09\x02" + one)
    inner = value[tag : tag + 4] + uvarint(count + 1) + one * count + b"\0"
    head, size_at = value[:tag], value.rindex(b"\1\0", 0, tag)  # one tag of number 0, then its size
    value = head[: size_at + 2] + uvarint(len(inner) + 1) + b"\1" + inner
    return of([group_entry(3, "g", {"epoch": 1}), (key, value)], 0, codec=codecs.ZSTD)


def lying_headers(count: int) -> bytes:
    """A header that claims the rest of the file, then a good old message, again and again."""
    out, total = bytearray(), 43 * count
    for number in range(count):
        body = struct.pack(">bbii", 0, 0, -1, -1)
        out += struct.pack(">qiIb", 2 * number, total - 43 * number - 12, 0xDEADBEEF, 1)
        out += struct.pack(">qiI", 2 * number + 1, len(body) + 4, zlib.crc32(body)) + body
    return bytes(out)


def lying_successors(count: int) -> bytes:
    """Good batches, each before a header with an older base offset that claims the rest of the file."""
    good = [of([commit(f"g{number}")], 2 * number + 1) for number in range(count)]
    total = sum(map(len, good)) + 61 * count
    out = bytearray()
    for batch in good:
        out += batch
        out += raw_batch(b"", 0, base_offset=0, last_delta=0, size=total - len(out) - 12)
    return bytes(out)


def empty_batches(count: int) -> bytes:
    """What compaction leaves of producers: a header alone."""
    return b"".join(of([], number) for number in range(count))


def nested_batch() -> bytes:
    """A damaged batch that leads into the value of another, where the header of a third covers the 200 behind it."""
    covered = b"".join(of([commit(f"swallowed-{n}")], 10 + n) for n in range(200))
    nested = raw_batch(b"\0" + covered, 0, base_offset=3, last_delta=400)[:61]
    first, second = of([commit("first")], 0), of([commit("second")], 1)
    carrier = of([(commit("carrier")[0], (commit("carrier")[1] or b"") + nested)], 2)
    assert carrier.endswith(nested + b"\0")
    size = 49 + len(second) + len(carrier) - len(nested) - 1
    damaged = raw_batch(b"", 0, base_offset=1, last_delta=0, size=size)
    after = b"".join(of([commit(f"after-{n}")], 500 + n) for n in range(5))
    return first + damaged + second + carrier + covered + after


# --- many that meet in one place


def open_producers(count: int) -> bytes:
    """Producers with an open transaction each, all on one key."""
    return b"".join(of([commit("g", n)], n, producer_id=n, **_PRODUCER) for n in range(count))


def cancelled_by_one(count: int) -> bytes:
    """The same, and then as many tombstones of the key."""
    tombs = (of([tombstone("g")], count + number) for number in range(count))
    return open_producers(count) + b"".join(tombs)


def cancelled_then_aborted(count: int) -> bytes:
    """Transactional values, each cancelled by a tombstone, then as many ABORT markers of their producer."""
    out = []
    for number in range(count):
        out.append(of([commit("g", partition=number)], 2 * number, producer_id=7, **_PRODUCER))
        out.append(of([tombstone("g", partition=number)], 2 * number + 1))
    return b"".join([*out, *(_abort(7, 2 * count + number) for number in range(count))])


def leaked_again(count: int) -> bytes:
    """One key, and producers that a tombstone cancels one after the other."""
    out = []
    for number in range(count):
        out.append(of([commit("g")], 2 * number, producer_id=number, **_PRODUCER))
        out.append(of([tombstone("g")], 2 * number + 1))
    return b"".join(out)


def own_tombstones(count: int) -> bytes:
    """Producers with an open transaction on one key, each of which takes its value back."""
    own = (of([tombstone("g")], count + n, producer_id=n, **_PRODUCER) for n in range(count))
    return open_producers(count) + b"".join(own)


def _abort(producer_id: int, base_offset: int) -> bytes:
    return encode_marker(
        ABORT, base_offset=base_offset, timestamp_ms=BASE_MS, producer_id=producer_id, producer_epoch=0
    )


def markers(count: int) -> bytes:
    """End markers of producers that have written nothing."""
    return b"".join(_abort(number, number) for number in range(count))


def same_hash(count: int) -> bytes:
    """Group ids that one hash without a key cannot tell apart: that of the kernels up to version 0.1."""
    rng, mask, step = np.random.default_rng(5), (1 << 64) - 1, 0x9E3779B97F4A7C15
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
    size = 22 + 12 + 8
    start = _mixed(size * step & mask, struct.unpack("<Q", struct.pack(">h", 22) + b"flood-")[0], step)
    found: list[str] = []
    while len(found) < count:
        words = letters[rng.integers(0, len(letters), (1_000_000, 8))].copy().view("<u8").ravel()
        mixed = (words ^ np.uint64(start)) * np.uint64(step)
        signed = mixed.view(np.int64)
        need = (signed ^ (signed >> 32)) ^ np.int64(0x1234567812345678)
        printable = need.view(np.uint8).reshape(-1, 8)
        good = np.flatnonzero(((printable >= 33) & (printable <= 126)).all(axis=1))
        found += [f"flood-{words[at].tobytes().decode()}{need[at].tobytes().decode()}" for at in good.tolist()]
    return _batches([commit(name, topic="orders-topic") for name in found[:count]])


def _mixed(state: int, word: int, step: int) -> int:
    product = (state ^ word) * step & (1 << 64) - 1
    return product ^ ((product - (1 << 64) if product >> 63 else product) >> 32) & (1 << 64) - 1


def _batches(entries: list[Entry], a_batch: int = 500) -> bytes:
    return b"".join(of(entries[at : at + a_batch], at) for at in range(0, len(entries), a_batch))


# --- groups


def members_of_many_topics(count: int) -> bytes:
    """A classic group whose members are subscribed to a topic of their own each."""
    members = [(f"m{number}", subscription(f"t{number}")) for number in range(count)]
    return of([group_entry(2, "g", classic_fields(*members))], 0)


def made_and_removed(count: int) -> bytes:
    """A group that is made and removed, again and again, with an offset in between."""
    entries = []
    for number in range(count):
        entries += [group_entry(2, "g", classic_fields()), commit("g", number), group_entry(2, "g", None)]
    return _batches(entries)


def long_names(count: int) -> bytes:
    """Groups whose names differ at their ends alone."""
    return _batches([commit("g" * 200 + f"{number:07d}") for number in range(count)])


@dataclass(frozen=True, slots=True)
class Hostile:
    """A log: its maker, how many of its kind for the benchmark and for counting steps, and a profile."""

    make: Callable[[int], bytes]
    many: int
    few: int
    profile: str = "group_coordinator"


LOGS = {
    "undecodable-flood": Hostile(undecodable_flood, 1_350_000, 500),
    "undecodable-batches": Hostile(undecodable_batches, 2_500, 10),
    "empty-protocols": Hostile(empty_protocols, 5_000_000, 100),
    "lying-headers": Hostile(lying_headers, 12_500, 600),
    "lying-successors": Hostile(lying_successors, 3_500, 300),
    "empty-batches": Hostile(empty_batches, 250_000, 100),
    "open-producers": Hostile(open_producers, 15_000, 60),
    "cancelled-by-one": Hostile(cancelled_by_one, 15_000, 60),
    "cancelled-then-aborted": Hostile(cancelled_then_aborted, 5_000, 60, "group_coordinator:4.0.0"),
    "leaked-again": Hostile(leaked_again, 15_000, 60, "group_coordinator:4.0.0"),
    "own-tombstones": Hostile(own_tombstones, 15_000, 60, "group_metadata_manager:3.9"),
    "markers": Hostile(markers, 100_000, 100),
    "same-hash": Hostile(same_hash, 12_500, 150),
    "members-of-many-topics": Hostile(members_of_many_topics, 10_000, 60),
    "made-and-removed": Hostile(made_and_removed, 10_000, 60),
    "long-names": Hostile(long_names, 25_000, 60),
}
"""Every kind, so that four times the benchmark's size is about what the first finders used."""
