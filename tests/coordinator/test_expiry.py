"""The expiry rules at their very milliseconds, by every kind of coordinator, and the sweep.

Numbers in the names of rows are those of the list of edge cases; what brokers of 4.3.1 and 2.8.2 made of most of them
to a few seconds is in test_edge_cases.py and test_recordings.py.
"""

from dataclasses import replace

import pytest

from sexton.coordinator.expiry import is_kept_in_flight, verdict
from sexton.coordinator.loading import load
from sexton.coordinator.profiles import NEWEST, of_broker
from sexton.log.message_set import encode_message_set
from tests.coordinator.golden import CAP_BYTES, edge_cases
from tests.coordinator.group_records import consumer_member_fields
from tests.fates import unreachable_offsets
from tests.log_builder import (
    ABORT,
    BAD_SUBSCRIPTION,
    BASE_MS,
    COMMIT,
    SHORT_SUBSCRIPTION,
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    offset_key,
    offset_value,
    old_group_entry,
    subscription,
    tombstone,
)
from tests.plain_sweep import sweep

R = 60_000
T0 = BASE_MS
LATER = BASE_MS + 10 * R
INT64_MAX = (1 << 63) - 1
JAVA, SCALA = "4.3.1", "2.8.2"
FAILS = "the load fails"
OFFSET, U, GROUP = (1, "t"), (1, "u"), (2, None)
CONSUMER_GONE = [(6, None), (4, None), (3, None)]


def _classic(*members, **fields):
    return group_entry(2, "a", classic_fields(*members, **fields))


OLD = commit("a", commit_timestamp_ms=T0)
OLD_U = commit("a", topic="u", commit_timestamp_ms=T0)
YOUNG = commit("a", commit_timestamp_ms=T0 + 5)
YOUNG_U = commit("a", topic="u", commit_timestamp_ms=T0 + 5)
FUTURE = commit("a", commit_timestamp_ms=LATER)
EXPLICIT = commit("a", version=1, commit_timestamp_ms=LATER, expire_timestamp_ms=T0 + 7)
EXPLICIT_LATE = commit("a", version=1, commit_timestamp_ms=T0, expire_timestamp_ms=LATER + 7)
OF_TYPE_0 = (offset_key("a", record_type=0), offset_value(1, version=0, record_type=0, commit_timestamp_ms=T0))
EMPTY_SINCE_T0 = _classic(state_timestamp_ms=T0)
EMPTY_SINCE_UNKNOWN = _classic()
SIMPLE_WITH_METADATA = _classic(protocol_type="", protocol=None, state_timestamp_ms=LATER, generation=0)
STABLE_ON_T = _classic(("m", subscription("t")))
STABLE_CONNECT = _classic(("m", subscription()), protocol_type="connect")
GROUP_TOMBSTONE = group_entry(2, "a", None)
CONSUMER = group_entry(3, "a", {"epoch": 1})
CONSUMER_MEMBER = group_entry(5, "a", consumer_member_fields(rack_id=None), member_id="m")
CONSUMER_MEMBER_GONE = [group_entry(record_type, "a", None, member_id="m") for record_type in (8, 5)]
REGEX_ON_T = group_entry(16, "a", {"topics": ["t"], "version": 1, "timestamp": 1}, regular_expression="t.*")
SHARE = group_entry(11, "a", {"epoch": 1, "metadata_hash": 0})
STREAMS = group_entry(17, "a", {"epoch": 1, "metadata_hash": 0})
X, X_U = (BatchSpec(entries=(entry,), producer_id=1, transactional=True) for entry in (OLD, OLD_U))
IDEMPOTENT = replace(X, transactional=False)
GONE = tombstone("a")
GONE_IN_TRANSACTION = replace(X, entries=(GONE,))
COMMITTED, ABORTED = (BatchSpec(producer_id=1, transactional=True, control=(kind,)) for kind in (COMMIT, ABORT))


def _load(history, release):
    """Each bare entry of the history is a plain batch of its own."""
    specs = [item if isinstance(item, BatchSpec) else BatchSpec(entries=(item,)) for item in history]
    return load([encode_log(specs)], cap_bytes=CAP_BYTES, profile=of_broker(release))


def _expired(loaded, now_ms):
    return [(item.record_type, item.topic or item.member_id) for item in sweep(loaded, retention_ms=R, now_ms=now_ms)]


def at(due_ms, *written):
    """Nothing one millisecond before, all of it at the instant."""
    return {due_ms - 1: [], due_ms: list(written)}


NEVER = {INT64_MAX // 2: []}


def both(written):
    return {JAVA: written, SCALA: written}


def java(written):
    """Of a type that the older coordinator does not know."""
    return {JAVA: written, SCALA: FAILS}


ALONE = at(T0 + R, OFFSET)
WHOLE = at(T0 + R, OFFSET, GROUP)
GROUP_ALONE = {T0: [GROUP]}
IN_TWO_SWEEPS = {T0 + R - 1: [], T0 + R: [OFFSET], T0 + 5 + R - 1: [OFFSET], T0 + 5 + R: [OFFSET, U, GROUP]}
MINUS_1 = commit("a", version=1, commit_timestamp_ms=T0, expire_timestamp_ms=-1)
FUTURE_U = commit("a", topic="u", commit_timestamp_ms=LATER)
ROWS = {
    # (history, what a sweep at an instant writes after it, by release; or FAILS)
    "1: the last commit counts": ([OLD, YOUNG], {JAVA: at(T0 + 5 + R, OFFSET, GROUP), SCALA: at(T0 + 5 + R, OFFSET)}),
    "2: nothing is left": ([OLD, GONE], {JAVA: GROUP_ALONE, SCALA: NEVER}),
    "3: a tombstone alone": ([GONE], both(NEVER)),
    "6: aborted": ([X, ABORTED], {JAVA: GROUP_ALONE, SCALA: NEVER}),
    "10: revived under a tombstone": ([X, GONE, COMMITTED], {JAVA: GROUP_ALONE, SCALA: ALONE}),
    "17: pending alone": ([X], {JAVA: NEVER, "4.0.1": NEVER, "4.0.0": GROUP_ALONE, SCALA: NEVER}),
    "17: pending alone, in a group with a record": ([EMPTY_SINCE_T0, X], {**both(NEVER), "4.0.0": GROUP_ALONE}),
    "18: pending above": ([EMPTY_SINCE_T0, OLD, X], {JAVA: NEVER, SCALA: ALONE}),
    "19: pending elsewhere": ([EMPTY_SINCE_T0, OLD, X_U], both(ALONE)),
    "19, decided": ([EMPTY_SINCE_T0, OLD, X_U, ABORTED], both(WHOLE)),
    "a transaction whose offsets a tombstone has cancelled": (
        [OLD_U, X, GONE, COMMITTED],
        {**dict.fromkeys((JAVA, "4.0.1"), at(T0 + R, U, GROUP)), "4.0.0": at(T0 + R, U), SCALA: at(T0 + R, OFFSET, U)},
    ),
    "23: a tombstone in an aborted transaction": (
        [OLD, GONE_IN_TRANSACTION, ABORTED],
        {JAVA: GROUP_ALONE, SCALA: ALONE},
    ),
    "24: a tombstone in a committed one": ([OLD, GONE_IN_TRANSACTION, COMMITTED], {JAVA: GROUP_ALONE, SCALA: ALONE}),
    "25: a producer id without a transaction": ([IDEMPOTENT], {JAVA: NEVER, SCALA: ALONE}),
    "29: of type 0, to go by type 1": ([OF_TYPE_0], {JAVA: WHOLE, SCALA: ALONE}),
    "30: group deleted, then an offset": ([STABLE_ON_T, GROUP_TOMBSTONE, OLD], {JAVA: WHOLE, SCALA: ALONE}),
    "31: an offset, then group deleted": ([OLD, EMPTY_SINCE_T0, GROUP_TOMBSTONE], {JAVA: NEVER, SCALA: ALONE}),
    "31, group made again": (
        [OLD, EMPTY_SINCE_T0, GROUP_TOMBSTONE, OLD_U],
        {JAVA: at(T0 + R, OFFSET, U, GROUP), SCALA: at(T0 + R, OFFSET, U)},
    ),
    "32: type 3": ([OLD, CONSUMER], java(at(T0 + R, OFFSET, *CONSUMER_GONE))),
    "33: type 2, then type 3": ([EMPTY_SINCE_T0, CONSUMER], both(FAILS)),
    "35: an offset, then type 11": ([OLD, SHARE], both(FAILS)),
    "36: consumer group by a tombstone": (
        [YOUNG, group_entry(4, "a", None)],
        java(at(T0 + 5 + R, OFFSET, *CONSUMER_GONE)),
    ),
    "37, 38: since the group is empty, though committed later": (
        [YOUNG, EMPTY_SINCE_T0],
        {
            **dict.fromkeys((JAVA, "4.0.0", "3.9", SCALA), WHOLE),
            "2.4": at(T0 + 5 + R, OFFSET, GROUP),  # KAFKA-10401
        },
    ),
    "39: since when is unknown": ([OLD, YOUNG_U, EMPTY_SINCE_UNKNOWN], both(IN_TWO_SWEEPS)),
    "40: a record without a protocol type": (
        [YOUNG, SIMPLE_WITH_METADATA],
        {JAVA: at(T0 + 5 + R, OFFSET, GROUP), SCALA: at(T0 + 5 + R, OFFSET)},
    ),
    "41: explicit, though committed later": (
        [EXPLICIT],
        {JAVA: at(T0 + 7, OFFSET, GROUP), **dict.fromkeys((SCALA, "2.1"), at(T0 + 7, OFFSET))},
    ),
    "42: explicit, though committed long ago": (
        [EXPLICIT_LATE],
        {JAVA: at(LATER + 7, OFFSET, GROUP), SCALA: at(LATER + 7, OFFSET)},
    ),
    "an explicit expiry of -1 is none": (
        [MINUS_1],
        {JAVA: WHOLE, **dict.fromkeys((SCALA, "2.2"), ALONE), "2.1.1": {0: [OFFSET]}},  # KAFKA-8069
    ),
    "43: subscribed to t": (
        [OLD, OLD_U, STABLE_ON_T],
        {**dict.fromkeys((JAVA, SCALA, "2.4"), at(T0 + R, U)), "2.3": NEVER},
    ),
    "44a: subscription of 1 bytes": ([OLD, OLD_U, _classic(("m", SHORT_SUBSCRIPTION))], both(NEVER)),
    "44a: subscription of 0 bytes": ([OLD, OLD_U, _classic(("m", b""))], both(NEVER)),
    "44b: subscription that cannot be parsed": (
        [OLD, _classic(("m", BAD_SUBSCRIPTION))],
        {**both(FAILS), "4.3.2": NEVER},
    ),
    "45: connect": ([OLD, STABLE_CONNECT], both(NEVER)),
    "46: consumer group that never had members": ([OLD, CONSUMER], java(at(T0 + R, OFFSET, *CONSUMER_GONE))),
    "46: consumer group that lost its member": (
        [YOUNG, CONSUMER, CONSUMER_MEMBER, *CONSUMER_MEMBER_GONE],
        java(at(T0 + 5 + R, OFFSET, *CONSUMER_GONE)),
    ),
    "47: subscribed by name": ([OLD, OLD_U, CONSUMER, CONSUMER_MEMBER], java(at(T0 + R, U))),
    "47: subscribed by a regex, even without members": ([OLD, OLD_U, CONSUMER, REGEX_ON_T], java(at(T0 + R, U))),
    "48: an empty group goes at once": ([_classic(generation=7, state_timestamp_ms=LATER)], both(GROUP_ALONE)),
    "48: one without a generation": (
        [_classic(generation=0, state_timestamp_ms=LATER)],
        {JAVA: GROUP_ALONE, SCALA: NEVER},
    ),
    "49: a simple group, all expired": (
        [OLD, OLD_U],
        {JAVA: at(T0 + R, OFFSET, U, GROUP), SCALA: at(T0 + R, OFFSET, U)},
    ),
    "50: a share group": ([SHARE], {**java(NEVER), "4.0.0": {T0: [(12, None), (9, None), (11, None)]}, "3.9": NEVER}),
    "an empty streams group": ([STREAMS], {JAVA: {T0: [(20, None), (17, None), (23, None)]}}),
    "57: committed in the future": ([FUTURE], {JAVA: at(LATER + R, OFFSET, GROUP), SCALA: at(LATER + R, OFFSET)}),
    "one young, one old": ([OLD, FUTURE_U], both(ALONE)),
}


@pytest.mark.parametrize(
    "history, written, release",
    [
        pytest.param(history, written, release, id=f"{name}-{release}")
        for name, (history, by_release) in ROWS.items()
        for release, written in by_release.items()
    ],
)
def test_what_a_sweep_writes(history, written, release):
    loaded = _load(history, release)
    assert loaded.load_would_fail == (written == FAILS)
    if written != FAILS:
        assert {now_ms: _expired(loaded, now_ms) for now_ms in written} == written


# --- before KIP-211


OLD_RELEASES = ["0.8.2", "0.9", "0.10.0", "0.10.1", "0.11.0.1", "1.0", "2.0"]


def _in_the_format_of(release, *entries):
    """A log of plain entries as a broker of `release` has them, each alone."""
    profile = of_broker(release)
    if profile.record_format == 2:
        data = encode_log([BatchSpec(entries=(entry,)) for entry in entries])
    else:
        data = b"".join(
            encode_message_set([entry], base_offset=number, magic=profile.record_format)
            for number, entry in enumerate(entries)
        )
    loaded = load([data], cap_bytes=CAP_BYTES, profile=profile)
    assert not loaded.failures
    return loaded


def _old_commit(release, **fields):
    """A commit at T0 as the release writes it."""
    record_type = of_broker(release).offset_key_type
    value = offset_value(1, version=0, record_type=record_type, commit_timestamp_ms=T0)
    if fields:
        value = offset_value(1, version=1, commit_timestamp_ms=T0, **fields)
    return offset_key("a", record_type=record_type), value


@pytest.mark.parametrize("release", OLD_RELEASES)
def test_an_old_coordinator_waits_until_the_instant_has_passed(release):
    gone = (of_broker(release).offset_key_type, "t")
    loaded = _in_the_format_of(release, _old_commit(release))
    assert [_expired(loaded, now_ms) for now_ms in (T0 + R - 1, T0 + R, T0 + R + 1)] == [[], [], [gone]]


@pytest.mark.parametrize("release", OLD_RELEASES[1:])
@pytest.mark.parametrize("expire_ms", [T0 + 7, LATER])
def test_41_42_before_2_1(release, expire_ms):
    loaded = _in_the_format_of(release, _old_commit(release, expire_timestamp_ms=expire_ms))
    assert [_expired(loaded, now_ms) for now_ms in (expire_ms, expire_ms + 1)] == [[], [OFFSET]]


@pytest.mark.parametrize("release", OLD_RELEASES[1:])
def test_an_old_coordinator_asks_no_group(release):
    stable = _in_the_format_of(release, _old_commit(release), old_group_entry("a", ("m", subscription("t"))))
    assert [_expired(stable, now_ms) for now_ms in (T0 + R, T0 + R + 1)] == [[], [OFFSET]]
    empty = _in_the_format_of(release, _old_commit(release), old_group_entry("a"))
    deletes_groups = release not in ("0.9", "0.10.0")
    assert _expired(empty, T0 + R + 1) == [OFFSET, *([GROUP] if deletes_groups else [])]


@pytest.mark.parametrize("release", ["0.11.0.1", "2.0"])
def test_an_old_coordinator_asks_no_transaction(release):
    entry = _old_commit(release)
    loaded = _load([entry, BatchSpec(entries=(entry,), producer_id=1, transactional=True)], release)
    assert loaded.state.pending_keys() == {("a", "t", 0)}
    assert [_expired(loaded, now_ms) for now_ms in (T0 + R, T0 + R + 1)] == [[], [OFFSET]]


# --- the verdict of one offset


def _verdict(loaded, now_ms, topic="t"):
    key, group = ("a", topic, 0), loaded.groups.by_id["a"]
    is_pending, profile = key in loaded.state.pending_keys(), loaded.profile
    return verdict(
        loaded.offsets[key], topic, group, is_pending=is_pending, retention_ms=R, now_ms=now_ms, profile=profile
    )


@pytest.mark.parametrize(
    "history, due_ms, base_ms, reason",
    [
        pytest.param([YOUNG, EMPTY_SINCE_T0], T0 + R, T0, "expired", id="37: since empty"),
        pytest.param([YOUNG, EMPTY_SINCE_UNKNOWN], T0 + 5 + R, T0 + 5, "expired", id="39: since the commit"),
        pytest.param([EXPLICIT], T0 + 7, None, "expired_explicit", id="41: explicit"),
    ],
)
@pytest.mark.parametrize("release", [JAVA, SCALA])
def test_a_verdict_tells_since_when_and_until_when(history, due_ms, base_ms, reason, release):
    loaded = _load(history, release)
    before, then = _verdict(loaded, due_ms - 1), _verdict(loaded, due_ms)
    assert (before.decision, before.reason) == ("keep", "not_due")
    assert (then.decision, then.reason) == ("expire", reason)
    assert before.expires_at_ms == then.expires_at_ms == due_ms
    assert before.base_timestamp_ms == then.base_timestamp_ms == base_ms


def test_a_verdict_of_2_0_tells_the_millisecond_after():
    loaded = _in_the_format_of("2.0", _old_commit("2.0"))
    assert {(_verdict(loaded, now_ms).decision, _verdict(loaded, now_ms).expires_at_ms) for now_ms in (T0, LATER)} == {
        ("keep", T0 + R + 1),
        ("expire", T0 + R + 1),
    }


@pytest.mark.parametrize(
    "history, reason, base_ms",
    [
        pytest.param([OLD, STABLE_ON_T], "subscribed", T0, id="43: subscribed"),
        pytest.param([OLD, _classic(("m", b""))], "group_active", T0, id="44a: subscription too short"),
        pytest.param([OLD, STABLE_CONNECT], "group_active", T0, id="45: another protocol"),
        pytest.param([OLD, CONSUMER_MEMBER], "subscribed", T0, id="47: by name"),
        pytest.param([OLD, REGEX_ON_T], "subscribed", T0, id="47: by regex"),
        pytest.param([OLD, X], "pending_transaction", T0, id="18: pending above"),
        pytest.param([EXPLICIT, X], "pending_transaction", None, id="18: pending above an explicit expiry"),
    ],
)
def test_why_an_offset_is_kept(history, reason, base_ms):
    found = _verdict(_load(history, JAVA), LATER)
    assert (found.decision, found.reason, found.expires_at_ms) == ("keep", reason, None)
    assert found.base_timestamp_ms == base_ms


@pytest.mark.parametrize(
    "commit_ms, now_ms",
    [(INT64_MAX, LATER), (INT64_MAX - R, LATER), (-INT64_MAX - 1, LATER)],
    ids=["at the end of time", "due at the end of time", "before all time"],
)
def test_sums_wrap_as_in_java_and_then_no_instant_is_told(commit_ms, now_ms):
    found = _verdict(_load([commit("a", commit_timestamp_ms=commit_ms)], JAVA), now_ms)
    assert found.reason == "not_due"
    assert found.expires_at_ms == (INT64_MAX if commit_ms == INT64_MAX - R else None)


# --- the sweep


@pytest.mark.parametrize("release, written", [(JAVA, [OFFSET, GROUP]), (SCALA, [OFFSET])])
def test_58_a_misplaced_group_is_swept_too(release, written):
    case = edge_cases(release)["58"]
    loaded = case.load()
    reasons = unreachable_offsets(loaded, log_partition=case.log_partition, partition_count=case.partition_count)
    assert set(reasons.values()) == ({"misplaced"} if release == JAVA else set())
    swept = sweep(loaded, retention_ms=R, now_ms=INT64_MAX // 2)
    assert [(item.record_type, item.topic) for item in swept if item.group_id == case.group_id] == written


def test_a_tombstone_says_what_it_removes():
    loaded = _load([commit("a", 41), commit("a", 42)], NEWEST.text.partition(":")[2])
    (gone, group) = sweep(loaded, retention_ms=R, now_ms=LATER)
    assert (gone.target_log_offset, gone.target_committed_offset, gone.cause) == (1, 42, "broker_retention")
    assert (group.target_log_offset, group.target_committed_offset, group.cause) == (None, None, "group_empty")


@pytest.mark.parametrize(
    "release, reason",
    [
        ("0.8.2", "expired"),
        ("0.10.0", "expired"),
        ("0.10.1", "commit_in_flight"),
        (SCALA, "commit_in_flight"),
        ("3.9", "commit_in_flight"),
        (JAVA, "expired"),
    ],
)
def test_a_commit_in_flight_keeps_its_offset_from_0_10_1_to_3_9(release, reason):
    loaded = _load([_old_commit("0.10.1") if release < "2" else OLD], SCALA)
    at = {"is_pending": False, "is_in_flight": True, "retention_ms": R, "profile": of_broker(release)}
    early, late = (
        verdict(loaded.offsets["a", "t", 0], "t", loaded.groups.by_id["a"], now_ms=now_ms, **at)
        for now_ms in (T0 + R - 1, T0 + R + 1)
    )
    assert (early.reason, late.reason.removesuffix("_explicit")) == ("not_due", reason)


EMPTY_OF_BOTH = [OLD, OLD_U, EMPTY_SINCE_T0]


@pytest.mark.parametrize(
    "flying, kept",
    [
        ([], []),
        ([("a", "t", 0)], [OFFSET, GROUP]),
        ([("a", "t", 0), ("a", "u", 0)], [OFFSET, U, GROUP]),
        ([("a", "new", 3)], [GROUP]),
        ([("b", "t", 0)], []),
    ],
    ids=["none", "one", "both", "of a partition without an offset", "of another group"],
)
def test_a_commit_in_flight_keeps_its_group_too(flying, kept):
    """hasOffsets counts pendingOffsetCommits; a 4.x coordinator has the new value at once, and 0.9 asks nobody."""
    for release in ("2.4", SCALA, "3.9", JAVA):
        loaded = _load(EMPTY_OF_BOTH, release)
        at = {"retention_ms": R, "now_ms": LATER}
        swept, left = sweep(loaded, **at), sweep(loaded, in_flight=flying, **at)
        keeps = [] if release == JAVA else kept
        assert [(one.record_type, one.topic) for one in swept] == [OFFSET, U, GROUP]
        assert [(one.record_type, one.topic) for one in swept if one not in left] == keeps
        if release != JAVA:
            assert left == [
                one for one in swept if not is_kept_in_flight((one.group_id, one.topic, one.partition), flying)
            ]
