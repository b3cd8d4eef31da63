"""The expiry rules at their borders, and the sweep (edge cases 18, 19, 31, 36 to 50, 57, 58)."""

import pytest

from sexton.coordinator.expiry import sweep, verdict
from sexton.coordinator.loading import load
from tests.coordinator.golden import CAP_BYTES, edge_cases
from tests.strategies import (
    BASE_MS,
    SHORT_SUBSCRIPTION,
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    subscription,
)

R = 60_000
T0 = BASE_MS
LATER = BASE_MS + 10 * R
INT64_MAX = (1 << 63) - 1


def _load(*entries, pending=()):
    history = [BatchSpec(entries=entries)]
    history += [BatchSpec(entries=tuple(pending), producer_id=1, transactional=True)] if pending else []
    return load([encode_log(history)], cap_bytes=CAP_BYTES)


def _verdict(loaded, now_ms, topic="t"):
    key = ("a", topic, 0)
    return verdict(
        loaded.offsets[key],
        topic,
        loaded.groups.by_id["a"],
        is_pending=key in loaded.state.pending_keys(),
        retention_ms=R,
        now_ms=now_ms,
    )


def _expired(loaded, now_ms):
    return [(item.record_type, item.topic or item.member_id) for item in sweep(loaded, retention_ms=R, now_ms=now_ms)]


EMPTY_SINCE_T0 = group_entry(2, "a", classic_fields(state_timestamp_ms=T0))
EMPTY_SINCE_UNKNOWN = group_entry(2, "a", classic_fields())
SIMPLE_WITH_METADATA = group_entry(2, "a", classic_fields(protocol_type="", protocol=None, state_timestamp_ms=LATER))
STABLE_ON_T = group_entry(2, "a", classic_fields(("m", subscription("t"))))
STABLE_UNKNOWN = group_entry(2, "a", classic_fields(("m", SHORT_SUBSCRIPTION)))
STABLE_CONNECT = group_entry(2, "a", classic_fields(("m", subscription()), protocol_type="connect"))
CONSUMER = group_entry(3, "a", {"epoch": 1})
CONSUMER_MEMBER = {
    "instance_id": None,
    "rack_id": None,
    "client_id": "c",
    "client_host": "h",
    "subscribed_topic_names": ["t"],
    "subscribed_topic_regex": None,
    "rebalance_timeout_ms": 1,
    "server_assignor": None,
    "classic_member_metadata": None,
}
OLD = commit("a", commit_timestamp_ms=T0)
YOUNG = commit("a", commit_timestamp_ms=T0 + 5)
EXPLICIT = commit("a", version=1, commit_timestamp_ms=LATER, expire_timestamp_ms=T0 + 7)


@pytest.mark.parametrize(
    "entries, due_at_ms, base_ms, reason",
    [
        pytest.param([OLD], T0 + R, T0, "expired", id="simple group: the commit"),
        pytest.param([YOUNG, EMPTY_SINCE_T0], T0 + R, T0, "expired", id="37, 38: since empty, though committed later"),
        pytest.param([YOUNG, EMPTY_SINCE_UNKNOWN], T0 + 5 + R, T0 + 5, "expired", id="39: no state timestamp"),
        pytest.param([YOUNG, SIMPLE_WITH_METADATA], T0 + 5 + R, T0 + 5, "expired", id="40: protocol type empty"),
        pytest.param([EXPLICIT], T0 + 7, None, "expired_explicit", id="41, 42: explicit expiry"),
        pytest.param([YOUNG, CONSUMER], T0 + 5 + R, T0 + 5, "expired", id="46: consumer group, always the commit"),
        pytest.param([YOUNG, group_entry(4, "a", None)], T0 + 5 + R, T0 + 5, "expired", id="36: made by a tombstone"),
        pytest.param([commit("a", commit_timestamp_ms=LATER)], LATER + R, LATER, "expired", id="57: in the future"),
    ],
)
def test_an_offset_goes_at_the_very_millisecond(entries, due_at_ms, base_ms, reason):
    loaded = _load(*entries)
    before, at = _verdict(loaded, due_at_ms - 1), _verdict(loaded, due_at_ms)
    assert (before.decision, before.reason) == ("keep", "not_due")
    assert (at.decision, at.reason) == ("expire", reason)
    assert before.expires_at_ms == at.expires_at_ms == due_at_ms
    assert before.base_timestamp_ms == at.base_timestamp_ms == base_ms


@pytest.mark.parametrize(
    "entries, reason",
    [
        pytest.param([OLD, STABLE_ON_T], "subscribed", id="43: subscribed"),
        pytest.param([OLD, STABLE_UNKNOWN], "group_active", id="44a: subscription too short"),
        pytest.param([OLD, STABLE_CONNECT], "group_active", id="45: another protocol"),
        pytest.param([OLD, group_entry(5, "a", CONSUMER_MEMBER, member_id="m")], "subscribed", id="47: by name"),
        pytest.param(
            [OLD, group_entry(16, "a", {"topics": ["t"], "version": 1, "timestamp": 1}, regular_expression="t.*")],
            "subscribed",
            id="47: by regex, even without members",
        ),
    ],
)
def test_a_group_keeps_what_it_may_still_want(entries, reason):
    found = _verdict(_load(*entries), LATER)
    assert (found.decision, found.reason, found.expires_at_ms) == ("keep", reason, None)
    assert found.base_timestamp_ms == T0


def test_the_rest_of_an_active_group_s_offsets_goes():
    loaded = _load(OLD, commit("a", topic="u", commit_timestamp_ms=T0), STABLE_ON_T)
    assert _expired(loaded, LATER) == [(1, "u")]


def test_a_pending_offset_keeps_the_committed_one_under_it():
    loaded = _load(OLD, pending=[commit("a", 9)])
    assert _verdict(loaded, LATER).reason == "pending_transaction"
    assert _expired(loaded, LATER) == []


def test_a_pending_offset_elsewhere_keeps_the_group_alone():
    loaded = _load(OLD, pending=[commit("a", 9, "u")])
    assert _expired(loaded, LATER) == [(1, "t")]


def test_a_transaction_holds_a_group_without_offsets():
    assert _expired(_load(pending=[commit("a")]), LATER) == []


@pytest.mark.parametrize(
    "commit_ms, now_ms",
    [(INT64_MAX, LATER), (INT64_MAX - R, LATER), (-INT64_MAX - 1, LATER)],
    ids=["at the end of time", "due at the end of time", "before all time"],
)
def test_sums_wrap_as_in_java_and_then_no_instant_is_told(commit_ms, now_ms):
    found = _verdict(_load(commit("a", commit_timestamp_ms=commit_ms)), now_ms)
    assert found.reason == "not_due"
    assert found.expires_at_ms == (INT64_MAX if commit_ms == INT64_MAX - R else None)


@pytest.mark.parametrize(
    "entries, written",
    [
        pytest.param([EMPTY_SINCE_T0], [(2, None)], id="48: an empty group goes at once"),
        pytest.param([OLD, commit("a", topic="u", commit_timestamp_ms=T0)], [(1, "t"), (1, "u"), (2, None)], id="49"),
        pytest.param([OLD, CONSUMER], [(1, "t"), (6, None), (4, None), (3, None)], id="46: type after type"),
        pytest.param([group_entry(11, "a", {"epoch": 1, "metadata_hash": 0})], [], id="50: a share group never goes"),
        pytest.param(
            [group_entry(17, "a", {"epoch": 1, "metadata_hash": 0})],
            [(20, None), (17, None), (23, None)],
            id="an empty streams group",
        ),
        pytest.param([OLD, EMPTY_SINCE_T0, group_entry(2, "a", None)], [], id="31: out of every sweep's sight"),
    ],
)
def test_what_a_sweep_writes(entries, written):
    assert _expired(_load(*entries), LATER) == written


def test_a_sweep_never_touches_the_young():
    loaded = _load(commit("a", commit_timestamp_ms=T0), commit("a", topic="u", commit_timestamp_ms=LATER))
    assert _expired(loaded, T0 + R) == [(1, "t")]


def test_a_stray_group_is_swept_where_it_lies():
    case = edge_cases("4.3.1")["58"]
    loaded = case.load()
    assert set(loaded.unreachable(log_partition=86, partition_count=120).values()) == {"stray"}
    swept = sweep(loaded, retention_ms=R, now_ms=INT64_MAX // 2)
    assert [(item.record_type, item.topic) for item in swept if item.group_id == case.group_id] == [(1, "t"), (2, None)]


def test_a_tombstone_says_what_it_removes():
    (gone, group) = sweep(_load(commit("a", 41), commit("a", 42)), retention_ms=R, now_ms=LATER)
    assert (gone.target_log_offset, gone.target_committed_offset, gone.cause) == (1, 42, "broker_retention")
    assert (group.target_log_offset, group.target_committed_offset, group.cause) == (None, None, "group_empty")
