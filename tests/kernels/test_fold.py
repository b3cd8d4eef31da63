"""The compiled fold equals the plain replay: whatever the history, the codec and the pieces it is read in."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.coordinator.loading import FUTURE_MS
from sexton.kernels import fold as fold_module
from sexton.kernels import layout as L
from sexton.kernels.fold import PartialFold, fold_task, merge, merge_all
from sexton.kernels.growth import compact_texts
from sexton.log.codec import SNAPPY
from sexton.log.entry import ATTRIBUTES_AT, SIZE_AT
from sexton.log.segment import FoldTask
from tests.campaign.histories import histories
from tests.campaign.mutants import sealed
from tests.coordinator.golden import GOLDEN, Case, edge_cases
from tests.faults.logs import batches_in, every_kind
from tests.kernels.compare import (
    CAP_BYTES,
    PROFILES,
    assert_equal,
    fold_bytes,
    fold_segments,
    fold_slices,
    loaded,
    slice_of,
)
from tests.log_builder import (
    ABORT,
    BASE_MS,
    COMMIT,
    BatchSpec,
    Entry,
    commit,
    encode_batches,
    encode_log,
    offset_key,
    offset_value,
    tombstone,
)
from tests.log_encoding import encode_batch, encode_message_set

CODECS = st.integers(0, 4)
COUNTS = st.sampled_from([None, 1, 50])
SOME = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
FEW = settings(SOME, max_examples=25)
VALUE = offset_value(5, metadata="m")


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@SOME
@given(histories(), CODECS, COUNTS)
def test_equals_the_plain_replay(profile, history, codec, partition_count):
    data = encode_log(history, codec=codec)
    assert_equal(fold_bytes(data, profile=profile), loaded(data, profile=profile), partition_count=partition_count)


@st.composite
def cut_logs(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    data = encode_log(draw(histories(max_size=16)), codec=draw(CODECS))
    return data, draw(st.lists(st.integers(0, len(data)), max_size=5))


def test_dead_keys_of_a_prefix_are_let_go() -> None:
    history = [BatchSpec(entries=(commit(f"g{number % 5}", number, topic=f"t{number}"),)) for number in range(900)]
    history += [BatchSpec(entries=(tombstone(f"g{number % 5}", f"t{number}"),)) for number in range(900)]
    data = encode_log(history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_module, "PRUNED_FROM_KEYS", 100)
        folded = merge_all(fold_slices(data, [len(data) * part // 8 for part in range(1, 8)]))
    assert folded.state.counts[L.KEYS] < 500
    assert_equal(folded, loaded(data))


@FEW
@given(cut_logs(), st.integers(0, 20), st.sampled_from([None, 5, 15]))
def test_the_cut_in_any_chunk(log: tuple[bytes, list[int]], step: int, taken: int | None) -> None:
    data, borders = log
    taken_at_ms = None if taken is None else BASE_MS + taken * 1_000 - FUTURE_MS
    options = {"as_of_ms": BASE_MS + step * 1_000, "taken_at_ms": taken_at_ms}
    assert_equal(merge_all(fold_slices(data, borders, **options)), loaded(data, **options))


def test_the_empty_fold_is_neutral() -> None:
    history = [BatchSpec(entries=(commit("g"), tombstone("h"))), BatchSpec(entries=(commit("x"),), producer_id=1)]
    data = encode_log(history)
    fold, plain = fold_bytes(data), loaded(data)
    assert_equal(merge(PartialFold.empty(), fold), plain)
    assert_equal(merge(fold, PartialFold.empty()), plain)
    assert_equal(fold_bytes(b""), loaded(b""))


@pytest.mark.parametrize("control_type", [COMMIT, ABORT])
@pytest.mark.parametrize("between", [commit("g", 7), tombstone("g"), commit("other")])
def test_a_marker_settles_what_lies_two_pieces_back(control_type: int, between: Entry) -> None:
    own = {"producer_id": 1, "transactional": True}
    markers = [BatchSpec(control=(kind,), **own) for kind in (control_type, COMMIT)]
    batches = encode_batches([BatchSpec(entries=(commit("g", 5),), **own), BatchSpec(entries=(between,)), *markers])
    data = b"".join(batches)
    a, b, c, d = fold_slices(data, [sum(map(len, batches[:count])) for count in (1, 2, 3)])
    for fold in (merge(a, merge(merge(b, c), d)), merge(a, merge(b, merge(c, d))), merge(merge(merge(a, b), c), d)):
        assert_equal(fold, loaded(data))


def test_merge_leaves_its_operands_alone() -> None:
    data = encode_log([BatchSpec(entries=(commit("g"),)), BatchSpec(entries=(commit("g", 2), tombstone("h")))])
    left, right = fold_slices(data, [len(data) // 2])
    before = left.to_bytes(), right.to_bytes()
    merge(left, right)
    assert (left.to_bytes(), right.to_bytes()) == before


@pytest.mark.parametrize("case", edge_cases("4.3.1").values(), ids=lambda case: case.name)
def test_edge_cases(case: Case) -> None:
    data = case.segment
    assert_equal(fold_bytes(data), loaded(data))
    assert_equal(merge_all(fold_slices(data, [len(data) // 3, 2 * len(data) // 3])), loaded(data))


def test_a_log_that_ends_anywhere() -> None:
    """At and around the ends of batches of every kind, and at some places between."""
    log = every_kind()
    near = {batch.position + by for batch in batches_in(log) for by in (-1, 0, 1, 61) if batch.position + by > 0}
    for cut in sorted({*near, *range(7, len(log), 97)}):
        assert_equal(fold_bytes(log[:cut]), loaded(log[:cut]), partition_count=3)


RECORDED = sorted(GOLDEN.glob("kafka-[0-9]*/*/__consumer_offsets-*"))


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: "/".join(path.parts[-3:]))
def test_recordings(folder: Path) -> None:
    datas = [path.read_bytes() for path in sorted(folder.glob("*.log"))]
    whole = merge_all(fold_segments(datas, target_bytes=1 << 30))
    slices = merge_all(fold_segments(datas, target_bytes=max(map(len, datas)) // 3 + 1))
    for fold in (whole, slices):
        assert_equal(fold, loaded(b"".join(datas)), partition_count=4)


def test_damage_behind_a_bad_batch_comes_after_its_records() -> None:
    """Its base offset is damaged, too: how far it reaches, only its records tell."""
    torn = (b"\0\1\0\1a\0\1t\0\0\0\0", bytes(5))
    bad, good = encode_log([BatchSpec(entries=(commit("a", 1), torn), crc_ok=False)]), encode_log([BatchSpec()])
    first = b"\1" + bad[1:]
    data = first + bytes(61) + good
    assert_equal(fold_bytes(data), loaded(data))
    assert_equal(merge_all(fold_slices(data, [len(first)])), loaded(data))


def odd_value(*tags: bytes, size: bytes = b"\2", count: bytes | None = None) -> bytes:
    """A value of version 4 with metadata `x` and these tagged fields."""
    head = b"\0\4" + bytes(7) + b"\5" + bytes(4) + size + b"x" + bytes(8)
    return head + (len(tags).to_bytes(1) if count is None else count) + b"".join(tags)


@pytest.mark.parametrize(
    "value",
    [
        odd_value(b"\0\x10" + bytes(15) + b"\7"),
        odd_value(b"\0\1" + bytes(15) + b"\7"),
        odd_value(b"\0\x10" + bytes(15) + b"\7", b"\0\x10" + bytes(16)),
        odd_value(b"\5\2zz", b"\0\x10" + bytes(15) + b"\7"),
        odd_value(b"\5\3zz"),
        odd_value(b"\0\x10" + bytes(14)),
        odd_value(count=b"\xff\xff\xff\xff\x0f"),
        odd_value(count=b"\xff\xff\xff\xff\xff\x01"),
        odd_value(size=b"\0"),
        odd_value(size=b"\x82\x80\x80\x80\x10"),
        odd_value(size=b"\x81\x80\x02"),
    ],
)
def test_odd_tagged_fields(value: bytes) -> None:
    data = encode_log([BatchSpec(entries=((offset_key("g"), value), commit("h")))])
    assert_equal(fold_bytes(data), loaded(data))


def with_headers() -> bytes:
    """A batch of which one record has a header and one has a varint that is longer than it need be."""
    plain = encode_batch([(offset_key("g"), VALUE), (offset_key("h"), VALUE)], base_offset=0, timestamp_ms=BASE_MS)
    body = plain[61:]
    size = body[0] // 2
    first = body[1 : 1 + size]
    record = first[:-1] + b"\2\4hk\4hv"
    length = bytes([(2 * len(record)) & 0x7F | 0x80, 0x80 | (2 * len(record)) >> 7, 0])
    return sealed(plain[:61] + length + record + body[1 + size :])


def odd_batch(count: int = 1, **fields: Any) -> bytes:
    return encode_batch([(offset_key("g"), VALUE)] * count, base_offset=9, timestamp_ms=BASE_MS, **fields)


def control_batch(*entries: Entry) -> bytes:
    return encode_batch(entries, base_offset=9, timestamp_ms=BASE_MS, control=True, producer_id=1)


ODD_BATCHES = {
    "headers": with_headers(),
    "append time": odd_batch(log_append_time=True, producer_id=4),
    "delete horizon": odd_batch(2, delete_horizon_ms=BASE_MS + 9, producer_id=4, timestamp_deltas=[-3, 1 << 40]),
    "deltas fall": odd_batch(3, offset_deltas=[4, 3, 5]),
    "hole at the end": odd_batch(last_offset_delta=7),
    "more than it says": odd_batch(2, last_offset_delta=0),
    "two control records": control_batch((bytes(4), bytes(6)), (b"\0\5\0\1", bytes(6))),
    "short control key": control_batch((b"\0\0\0", None)),
    "magic 0": encode_message_set([(offset_key("g"), VALUE), (offset_key("g"), None)], base_offset=3, magic=0),
}


@pytest.mark.parametrize("data", ODD_BATCHES.values(), ids=ODD_BATCHES)
def test_odd_batches(data: bytes) -> None:
    following = encode_log([BatchSpec(entries=(commit("z"),))], base_offset=100)
    assert_equal(fold_bytes(data + following), loaded(data + following))


BYTES_THAT_READ_ALIKE = [
    (b"g\xff", "g\ufffd".encode()),
    (b"g\xed\xa0\x80", b"g\xff"),
    (b"\xf0\x90\x80", b"\xff"),
    (b"\xc3", b"\xe2\x82"),
]


@pytest.mark.parametrize(("one", "other"), BYTES_THAT_READ_ALIKE)
@pytest.mark.parametrize("is_topic", [False, True])
def test_keys_that_read_alike_are_one(one: bytes, other: bytes, is_topic: bool) -> None:
    def entry(name: bytes, value: bytes | None) -> Entry:
        framed = len(name).to_bytes(2) + name
        return b"\0\1" + (b"\0\1g" + framed if is_topic else framed + b"\0\1t") + bytes(4), value

    history = [BatchSpec(entries=(entry(one, VALUE), entry(other, offset_value(6, metadata="\ufffd"))))]
    data = encode_log(history)
    fold = fold_bytes(data)
    assert_equal(fold, loaded(data), partition_count=7)
    assert fold.state.counts[0] == 1
    data = encode_log([*history, BatchSpec(entries=(entry(one, None),))])
    assert_equal(merge_all(fold_slices(data, [len(data) // 2])), loaded(data))


def test_a_batch_too_large_once_inflated() -> None:
    wide = encode_batch([(offset_key("g"), bytes(CAP_BYTES))], base_offset=0, timestamp_ms=BASE_MS, codec=4)
    data = wide + encode_log([BatchSpec(entries=(commit("h"),))], codec=3, base_offset=1)
    assert_equal(fold_bytes(data), loaded(data))


def long_history(count: int) -> Sequence[BatchSpec]:
    """Metadata of changing length, transactions and tombstones over keys that come again and again."""
    kinds = (COMMIT, ABORT)
    history = []
    for number in range(count):
        group = f"group-{number % 97}-{'x' * (number % 13)}"
        producer = number % 5 if number % 3 == 0 else -1
        entries = (commit(group, number, metadata="m" * (number * 7 % 50)), commit(f"only-{number}", number))
        if number % 11 == 0:
            entries = (*entries, tombstone(group), tombstone(f"only-{number - 1}"))
        history.append(BatchSpec(entries=entries, producer_id=producer))
        if number % 7 == 0:
            history.append(BatchSpec(producer_id=number % 5, transactional=True, control=(kinds[number % 2],)))
    return history


def test_tables_grow() -> None:
    data = encode_log(long_history(3000), codec=3)
    assert_equal(fold_bytes(data), loaded(data), partition_count=50)
    assert_equal(merge_all(fold_segments([data], target_bytes=len(data) // 7)), loaded(data), partition_count=50)


def test_metadata_that_no_row_holds_is_dropped() -> None:
    history = [
        BatchSpec(entries=(commit(f"g{number % 9}", number, metadata="m" * number),), producer_id=number % 3 - 1)
        for number in range(90)
    ]
    data = encode_log(history)
    fold = fold_bytes(data)
    used = int(fold.state.counts[L.TEXT_BYTES])
    compact = replace(fold, state=compact_texts(fold.state, slack_bytes=0))
    assert compact.state.counts[L.TEXT_BYTES] == compact.state.counts[L.TEXT_LIVE] < used
    assert_equal(compact, loaded(data))
    assert_equal(merge(compact, fold_bytes(b"")), loaded(data))


def test_the_first_failure_is_told_across_pieces() -> None:
    batches = encode_batches([BatchSpec(entries=((b"", b"v"),)), BatchSpec(entries=(commit("g"),))])
    data = batches[0] + b"\x01" * 50 + batches[1]
    fold = merge_all(fold_slices(data, [len(batches[0])]))
    assert fold.undecodable[1][1].reason == "skipped_bytes"
    assert_equal(fold, loaded(data))


def test_a_chunk_of_several_pieces() -> None:
    datas = encode_batches(long_history(40))
    task = FoldTask(log_partition=0, index=0, slices=tuple(slice_of(data) for data in datas), is_last=True)
    fold = fold_task(datas, task=task, cap_bytes=CAP_BYTES, as_of_ms=None, taken_at_ms=None)
    assert_equal(fold, loaded(b"".join(datas)))


def test_damage_behind_a_batch_that_claims_more_than_it_holds() -> None:
    """A last offset that no CRC vouches for moves nothing: the first failure is that of the plain replay."""
    entries = commit("g"), commit("h"), (offset_key("k"), b"\0\x09" + bytes(30))
    a, bad, c = encode_batches([BatchSpec(entries=(entry,)) for entry in entries])
    bad = bad[:23] + (1 << 20).to_bytes(4, "big") + bad[27:]
    log = a + bad + b"junk" * 30 + c
    assert_equal(fold_bytes(log), loaded(log))
    for border in range(len(a), len(log), 7):
        assert_equal(merge_all(fold_slices(log, [border])), loaded(log))


def test_the_first_failure_is_the_one_that_is_read_first():
    """Also where the records of a batch that is cut off reach beyond the offset at which the next batch begins."""
    records = [(offset_key("g", "t", number), offset_value(number)) for number in range(3)]
    cut_off = bytearray(encode_batch(records, base_offset=0, timestamp_ms=BASE_MS))
    cut_off[SIZE_AT : SIZE_AT + 4] = (len(cut_off) - SIZE_AT - 4 - 30).to_bytes(4)
    undecodable = bytearray(encode_batch(records[:1], base_offset=1, timestamp_ms=BASE_MS))
    undecodable[ATTRIBUTES_AT + 1] |= SNAPPY
    data = bytes(cut_off) + sealed(undecodable)
    plain = loaded(data)
    assert plain.load_failure is not None
    assert "record 2 of 3 has no length" in plain.load_failure
    assert_equal(fold_bytes(data).as_kept_by_broker(), plain, partition_count=4)
    for border in range(0, len(data), 20):
        assert_equal(merge_all(fold_slices(data, [border])).as_kept_by_broker(), plain, partition_count=4)
