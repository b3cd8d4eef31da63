"""The loader around the rules: counting, cutting, and going on after what cannot be read."""

from sexton.coordinator.loading import FUTURE_MS
from sexton.coordinator.profiles import profile_of
from sexton.log.batch import encode_batch
from tests.coordinator.golden import CAP_BYTES
from tests.fates import fates_of, load
from tests.kernels.compare import assert_equal, fold_bytes
from tests.log_builder import (
    ABORT,
    BASE_MS,
    COMMIT,
    BatchSpec,
    classic_fields,
    commit,
    encode_batches,
    encode_log,
    group_entry,
    offset_key,
    sealed,
    tombstone,
)

TRANSACTION = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
MARKER = (COMMIT.to_bytes(4), bytes(6))


def _load(history, **options):
    return load([encode_log(history)], cap_bytes=CAP_BYTES, **options)


def test_counters():
    history = [
        BatchSpec(entries=(commit("a", 1), commit("a", 2), tombstone("b"))),
        BatchSpec(entries=(commit("a", 3, "u"),), producer_id=1, transactional=True),
        BatchSpec(producer_id=1, control=(COMMIT,)),
        BatchSpec(producer_id=2),
        BatchSpec(entries=((b"\x00\x63", None), group_entry(2, "a", classic_fields()))),
    ]
    loaded = _load(history)
    sizes = [len(batch) for batch in encode_batches(history)]
    assert loaded.counters == {
        "bytes": sum(sizes), "batches": 5, "records": 7, "control_records": 1, "tombstones": 1, "read_values": 3,
        "largest_batch_bytes": max(sizes),
    }  # fmt: skip
    assert loaded.unknown_types == {99: 1}
    assert (loaded.first_log_offset, loaded.next_log_offset, loaded.cut) == (0, 8, 8)
    assert loaded.live_record_count == 3
    assert fates_of(loaded) == {"live": 2, "superseded": 1, "undecodable": 0}


def test_an_empty_log():
    loaded = load([], cap_bytes=CAP_BYTES)
    assert (loaded.first_log_offset, loaded.next_log_offset, loaded.cut) == (None, 0, 0)


def test_a_bad_value_leaves_the_older_one_and_says_where():
    loaded = _load([BatchSpec(entries=(commit("a", 1), (offset_key("a"), b"\x00\x07"), commit("b", 1)))])
    (row,) = loaded.undecodable
    assert (row.log_offset, row.base_offset, row.record_type, row.reason) == (1, 0, 1, "unknown_value_version")
    assert (row.key, row.value) == (offset_key("a"), b"\x00\x07")
    assert loaded.failures == ["log_offset 1: unknown_value_version: Found an unknown record version 7 for 1 type"]
    assert loaded.offsets["a", "t", 0].committed_offset == 1
    assert fates_of(loaded)["undecodable"] == 1


def test_what_is_too_large_once_inflated_is_told_and_passed_over():
    history = [BatchSpec(entries=(commit("a", metadata="x" * 5_000),)), BatchSpec(entries=(commit("b"),))]
    loaded = load([encode_log(history, codec=1)], cap_bytes=1_000)
    assert [(row.reason, row.log_offset, row.base_offset) for row in loaded.undecodable] == [
        ("inflated_too_large", None, 0)
    ]
    assert loaded.failures[0].startswith("batch 0: inflated_too_large")
    assert {key[0] for key in loaded.offsets} == {"b"}


def test_a_marker_ends_only_its_own_producer_s_transaction():
    history = [
        BatchSpec(entries=(commit("a", 1),), producer_id=1, transactional=True),
        BatchSpec(entries=(commit("b", 2),), producer_id=2, transactional=True, timestamp_ms=BASE_MS + 5),
        BatchSpec(producer_id=1, control=(ABORT,)),
    ]
    loaded = _load(history)
    assert set(loaded.open_transactions) == {2}
    transaction = loaded.open_transactions[2]
    assert (transaction.first_log_offset, transaction.last_log_offset) == (1, 1)
    assert (transaction.first_timestamp_ms, transaction.producer_epoch) == (BASE_MS + 5, 0)
    assert fates_of(loaded) == {"aborted": 1, "pending": 1, "undecodable": 0}


def test_a_batch_from_the_future_does_not_end_the_reading():
    """Its stamp says nothing, so it is read as its neighbours are; the next honest one still cuts."""
    history = [
        BatchSpec(entries=(commit("a"),)),
        BatchSpec(entries=(commit("b"),), timestamp_ms=BASE_MS + FUTURE_MS + 1),
        BatchSpec(entries=(commit("c"),), timestamp_ms=BASE_MS + 10),
    ]
    loaded = _load(history, as_of_ms=BASE_MS + 10, taken_at_ms=BASE_MS)
    assert {key[0] for key in loaded.offsets} == {"a", "b"}
    assert (loaded.cut, loaded.counters["future_batches"]) == (2, 1)
    history[1] = BatchSpec(entries=(commit("b"),), timestamp_ms=BASE_MS + FUTURE_MS)
    assert _load(history, as_of_ms=BASE_MS + 10, taken_at_ms=BASE_MS).cut == 1


def test_what_lies_behind_the_first_record_of_a_control_batch_is_not_read_up_to_3_9():
    """Its only marker ends the transaction; the length of the second record leads out of the batch."""
    open_transaction = encode_batch([commit("a", 1)], base_offset=0, timestamp_ms=BASE_MS, **TRANSACTION)
    good = encode_batch([MARKER, MARKER], base_offset=1, timestamp_ms=BASE_MS, control=True, **TRANSACTION)
    size = (len(good) - 61) // 2
    damaged = bytearray(good)
    damaged[-size] = 0x7E
    for name, fails in (("metadata_manager:3.9", False), ("metadata_manager:2.1", False), ("coordinator", True)):
        profile = profile_of(f"group_{name}")
        log = open_transaction + sealed(damaged)
        loaded = load([log], cap_bytes=CAP_BYTES, profile=profile)
        assert (loaded.load_would_fail, len(loaded.undecodable), len(loaded.offsets)) == (fails, 1, 1)
        assert_equal(fold_bytes(log, profile=profile), loaded)


def test_bytes_behind_the_only_marker_of_a_control_batch_fail_every_load():
    marker = encode_batch([MARKER], base_offset=0, timestamp_ms=BASE_MS, control=True, **TRANSACTION)
    for release in ("group_metadata_manager:3.9", "group_coordinator"):
        loaded = load([sealed(marker + b"\0")], cap_bytes=CAP_BYTES, profile=profile_of(release))
        assert loaded.load_would_fail
