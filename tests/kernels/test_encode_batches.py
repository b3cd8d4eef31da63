"""Batches by column equal those of coordinator.tombstones.encode_batches, byte for byte."""

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sexton.coordinator.batches import MAX_BATCH_BYTES
from sexton.coordinator.profiles import NEWEST, profile_of
from sexton.coordinator.tombstones import encode_batches
from sexton.kernels.encode_batches import EncodedBatches, encode_tombstone_batches
from sexton.log.batch import Batch, read_batches
from sexton.log.codec import CODECS, ZSTD
from tests.kernels.compare import PROFILES

Keys = list[tuple[str, bytes]]
BY_GROUP = profile_of("group_metadata_manager")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
GROUPS = st.one_of(st.sampled_from(["", "a", "b", "group-001", "group-002", "группа"]), TEXTS)


@st.composite
def keys(draw: st.DrawFn) -> Keys:
    """Runs of records of a group; keys of all sizes, also around those at which a varint gets longer."""
    sizes = st.one_of(st.integers(0, 40), st.sampled_from([57, 58, 63, 64, 65, 8_180, 8_191, 8_192, 70_000]))
    runs = draw(st.lists(st.tuples(GROUPS, st.lists(sizes, max_size=6), st.binary(min_size=1, max_size=4)), max_size=8))
    return [(group_id, (seed * size)[:size]) for group_id, own, seed in runs for size in own]


@st.composite
def settings_of(draw: st.DrawFn) -> dict[str, Any]:
    """A profile, and codec and record format that its release may write."""
    profile = draw(st.sampled_from(PROFILES))
    magic = draw(st.sampled_from([None, *range(profile.record_format + 1)]))
    written = profile.record_format if magic is None else magic
    codecs = [codec for codec in range(profile.newest_codec + 1) if codec != ZSTD or written == NEWEST.record_format]
    return {
        "profile": profile,
        "codec": draw(st.sampled_from(codecs)),
        "magic": magic,
        "base_offset": draw(st.one_of(st.integers(0, 1000), st.just((1 << 40) + 5))),
        "as_of_ms": draw(st.integers(0, 1 << 41)),
        "max_batch_bytes": draw(st.sampled_from([1, 89, 90, 150, 400, 9_000, MAX_BATCH_BYTES])),
    }


def by_column(some: Keys, *, chunk_rows: int | None = 7, **options: Any) -> EncodedBatches:
    """The same records as columns of several chunks, or of one that begins inside its buffers."""
    groups, own = ["before", *(group_id for group_id, _ in some)], [b"before", *(key for _, key in some)]
    if chunk_rows is None:
        columns = [pa.array(groups, pa.large_string())[1:], pa.array(own, pa.large_binary())[1:]]
    else:
        columns = [
            pa.chunked_array([whole[at : at + chunk_rows] for at in range(1, len(whole), chunk_rows)], whole.type)
            for whole in (pa.array(groups, pa.string()), pa.array(own, pa.binary()))
        ]
    return encode_tombstone_batches(*columns, **options)


def compare(some: Keys, *, chunk_rows: int | None = 7, **options: Any) -> EncodedBatches:
    found = by_column(some, chunk_rows=chunk_rows, **options)
    assert found.data == encode_batches(some, **options)
    sizes = [batch.size_bytes for batch in read_batches(found.data) if isinstance(batch, Batch) and batch.crc_ok]
    assert found.sizes == sizes
    assert sum(sizes) == len(found.data)
    return found


@settings(max_examples=300)
@given(keys(), settings_of(), st.sampled_from([None, 1, 7]))
@example([], {"profile": NEWEST, "base_offset": 0, "as_of_ms": 0}, 1)
@example([("g", b"")], {"profile": NEWEST, "base_offset": 0, "as_of_ms": 0}, None)
def test_equals_the_obvious_version(some: Keys, options: dict[str, Any], chunk_rows: int | None) -> None:
    compare(some, chunk_rows=chunk_rows, **options)


@pytest.mark.parametrize("codec", range(len(CODECS)), ids=CODECS)
@pytest.mark.parametrize("profile", [NEWEST, BY_GROUP], ids=["one write", "batch per group"])
def test_long_batches(profile: Any, codec: int) -> None:
    """Offset deltas of up to three bytes, several full batches, and a key that is too large for any."""
    some = [(f"group-{row // 15_000}", b"%d" % row * (1 + row % 9)) for row in range(40_000)]
    some[20_000:20_000] = [("group-1", bytes(MAX_BATCH_BYTES))]
    found = compare(some, chunk_rows=16_384, profile=profile, codec=codec, base_offset=7, as_of_ms=5_000)
    assert len(found.sizes) > 3


def test_neighbours_of_one_group_id_are_one_group() -> None:
    """Group ids of one size, which differ in their first, a middle or their last byte."""
    names = ["consumer-group-1", "consumer-group-1", "consumer-group-2", "consumer_group-2", "Consumer_group-2"]
    options: dict[str, Any] = {"base_offset": 0, "as_of_ms": 0}
    some = [(name, b"k") for name in names]
    assert len(compare(some, profile=BY_GROUP, **options).sizes) == 4
    assert len(compare(some, profile=NEWEST, **options).sizes) == 1


@pytest.mark.parametrize(
    ("groups", "own"), [(["g"], []), ([None], [b"k"]), (["g"], [None])], ids=["missing", "no group", "no key"]
)
def test_every_record_has_a_group_and_a_key(groups: list[str | None], own: list[bytes | None]) -> None:
    with pytest.raises(ValueError, match="a group and a key for each record"):
        encode_tombstone_batches(
            pa.array(groups, pa.string()), pa.array(own, pa.binary()), base_offset=0, as_of_ms=0, profile=NEWEST
        )


@pytest.mark.parametrize("base_offset", [1 << 63, (1 << 63) - 1])
def test_an_offset_that_no_log_has(base_offset: int) -> None:
    options: dict[str, Any] = {"base_offset": base_offset, "as_of_ms": 0, "profile": BY_GROUP}
    for encode in (encode_batches, by_column):
        with pytest.raises(struct.error):
            encode([("a", b"k"), ("b", b"k")], **options)  # type: ignore[operator]  # of two signatures
