"""A load of `__transaction_state`: the last record wins, and what ends a load in which release."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.log.batch import encode_batch
from sexton.transactions.states import LoadedStates, TransactionLoadRules, TransactionState, load_states, rules_of
from tests.transactions.logs import BASE_MS, OFFSETS, encode_transaction_key, state_log, value

CAP = 1 << 20
ONGOING = value(
    TransactionState.ONGOING, partitions={OFFSETS: [3], "t": [0, 1]}, started_at_ms=BASE_MS, next_producer_id=9
)
KNOWN = encode_transaction_key("x")


def load(*chunks: bytes, rules: TransactionLoadRules | None = None, as_of_ms: int | None = None) -> LoadedStates:
    return load_states(chunks, log_partition=7, cap_bytes=CAP, rules=rules, as_of_ms=as_of_ms)


def record(key: bytes | None, data: bytes | None, at: int) -> bytes:
    return encode_batch([(key, data)], base_offset=at, timestamp_ms=BASE_MS + at)


@pytest.mark.parametrize("version", [0, 1])
def test_every_field_of_a_state(version: int) -> None:
    loaded = load(state_log(("payments", value()), ("payments", ONGOING), version=version))
    (one,) = loaded.ids.values()
    assert (one.state, one.producer_id, one.producer_epoch, one.log_offset) == (TransactionState.ONGOING, 1, 0, 1)
    assert (one.started_at_ms, one.updated_at_ms, one.timeout_ms) == (BASE_MS, BASE_MS, 60_000)
    assert one.partitions == {OFFSETS: (3,), "t": (0, 1)}
    assert one.writes_to(OFFSETS, 3)
    assert not one.writes_to(OFFSETS, 0)
    assert (one.previous_producer_id, one.next_producer_id) == (None, 9 if version else None)
    assert loaded.log_partition == 7
    assert loaded.is_whole


def test_a_tombstone_removes_and_an_instant_ends_the_reading() -> None:
    log = state_log(("a", value()), ("b", value()), ("a", None))
    assert [*load(log).ids] == ["b"]
    assert [*load(log, as_of_ms=BASE_MS + 2).ids] == ["a", "b"]


UNKNOWN_KEY = record(struct.pack(">h", 1) + KNOWN[2:], None, 1)
UNKNOWN_VALUE = record(KNOWN, struct.pack(">h", 2), 1)
BROKEN = {
    "no key": record(None, b"", 1),
    "short key": record(b"\0", b"", 1),
    "short value": record(KNOWN, struct.pack(">hq", 0, 1), 1),
    "no such state": record(KNOWN, struct.pack(">hqhib", 0, 1, 0, 0, 8) + struct.pack(">iqq", -1, BASE_MS, BASE_MS), 1),
    "no partitions": record(KNOWN, struct.pack(">hqhib", 0, 1, 0, 0, 1) + struct.pack(">iqq", -1, BASE_MS, BASE_MS), 1),
    "no batch": b"\1" * 100,
}


@pytest.mark.parametrize("bad", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_ends_the_load_and_the_rest_is_not_known(bad: bytes) -> None:
    loaded = load(state_log(("a", value())) + bad + state_log(("b", value()), first=2))
    assert [*loaded.ids] == ["a"]
    assert loaded.failure
    assert not loaded.is_whole


@pytest.mark.parametrize(
    ("release", "unknown_key", "unknown_value", "version_1"),
    [
        ((0, 11, 0, 3), False, False, False),
        ((2, 8, 2), False, False, False),
        ((3, 4, 0), False, False, False),
        ((3, 4, 1), True, False, True),
        ((4, 2, 2), True, False, True),
        ((4, 3), True, True, True),
        ((4, 4, 0), True, True, True),
    ],
)
def test_versions_that_a_release_does_not_know(release, unknown_key, unknown_value, version_1):
    after = state_log(("b", value()), first=2)
    for unknown, goes_on in ((UNKNOWN_KEY, unknown_key), (UNKNOWN_VALUE, unknown_value)):
        loaded = load(state_log(("x", value())) + unknown + after, rules=rules_of(release))
        assert [*loaded.ids] == (["x", "b"] if goes_on else ["x"])  # the older value stays
        assert (loaded.failure is None) == goes_on == bool(loaded.skipped)
        assert not loaded.is_whole
    assert bool(load(state_log(("a", value()), version=1), rules=rules_of(release)).ids) == version_1


STATES = st.sampled_from(
    [TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_ABORT]
)
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.none() | st.builds(value, STATES, producer_id=st.integers(0, 5), epoch=st.integers(0, 3)),
    )
)


@given(records=RECORDS, version=st.sampled_from([0, 1]), cut=st.integers(0, 50))
def test_the_last_record_of_an_id_wins(records, version, cut):
    """Whatever segments the log is cut into."""
    last = dict(records)
    loaded = load(
        state_log(*records[:cut], version=version), state_log(*records[cut:], version=version, first=len(records[:cut]))
    )
    assert {name: (one.producer_id, one.producer_epoch) for name, one in loaded.ids.items()} == {
        name: (one.producer_id, one.producer_epoch) for name, one in last.items() if one is not None
    }
