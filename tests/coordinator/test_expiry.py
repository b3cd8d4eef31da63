"""The expiry rules at their very milliseconds, by every kind of coordinator, and the sweep.

Numbers in the names of rows are those of the list of edge cases; what brokers of 4.3.1 and 2.8.2 made of most of them
to a few seconds is in test_edge_cases.py and test_recordings.py.
"""

from dataclasses import dataclass, replace

import pytest

from sexton.coordinator.expiry import sweep, verdict
from sexton.coordinator.loading import load
from sexton.coordinator.profiles import NEWEST, of_broker
from sexton.log.message_set import encode_message_set
from tests.coordinator.golden import CAP_BYTES, edge_cases
from tests.record_fields import encode_value
from tests.strategies import (
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
    subscription,
    tombstone,
)

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
CONSUMER_MEMBER = group_entry(
    5,
    "a",
    {
        "instance_id": None,
        "rack_id": None,
        "client_id": "c",
        "client_host": "h",
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "rebalance_timeout_ms": 1,
        "server_assignor": None,
        "classic_member_metadata": None,
    },
    member_id="m",
)
CONSUMER_MEMBER_GONE = [group_entry(record_type, "a", None, member_id="m") for record_type in (8, 5)]
REGEX_ON_T = group_entry(16, "a", {"topics": ["t"], "version": 1, "timestamp": 1}, regular_expression="t.*")
SHARE = group_entry(11, "a", {"epoch": 1, "metadata_hash": 0})
STREAMS = group_entry(17, "a", {"epoch": 1, "metadata_hash": 0})
X, X_U = (
    BatchSpec(entries=(OLD,), producer_id=1, transactional=True),
    BatchSpec(entries=(OLD_U,), producer_id=1, transactional=True),
)
IDEMPOTENT = replace(X, transactional=False)
GONE = tombstone("a")
GONE_IN_TRANSACTION = replace(X, entries=(GONE,))
COMMITTED, ABORTED = (BatchSpec(producer_id=1, transactional=True, control_type=kind) for kind in (COMMIT, ABORT))


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


@dataclass(kw_only=True)
class Row:
    """What a sweep at an instant writes after the history, by release; or FAILS."""

    history: list
    written: dict


ROWS = {
    "1: the last commit counts": Row(
        history=[OLD, YOUNG], written={JAVA: at(T0 + 5 + R, OFFSET, GROUP), SCALA: at(T0 + 5 + R, OFFSET)}
    ),
    "2: nothing is left": Row(history=[OLD, GONE], written={JAVA: {T0: [GROUP]}, SCALA: NEVER}),
    "3: a tombstone alone": Row(history=[GONE], written={JAVA: NEVER, SCALA: NEVER}),
    "6: aborted": Row(history=[X, ABORTED], written={JAVA: {T0: [GROUP]}, SCALA: NEVER}),
    "10: revived under a tombstone": Row(
        history=[X, GONE, COMMITTED], written={JAVA: {T0: [GROUP]}, SCALA: at(T0 + R, OFFSET)}
    ),
    "17: pending alone": Row(history=[X], written={JAVA: NEVER, "4.0.1": NEVER, "4.0.0": {T0: [GROUP]}, SCALA: NEVER}),
    "17: pending alone, in a group with a record": Row(
        history=[EMPTY_SINCE_T0, X], written={JAVA: NEVER, "4.0.0": {T0: [GROUP]}, SCALA: NEVER}
    ),
    "18: pending above": Row(history=[EMPTY_SINCE_T0, OLD, X], written={JAVA: NEVER, SCALA: at(T0 + R, OFFSET)}),
    "19: pending elsewhere": Row(
        history=[EMPTY_SINCE_T0, OLD, X_U], written={JAVA: at(T0 + R, OFFSET), SCALA: at(T0 + R, OFFSET)}
    ),
    "19, decided": Row(
        history=[EMPTY_SINCE_T0, OLD, X_U, ABORTED],
        written={JAVA: at(T0 + R, OFFSET, GROUP), SCALA: at(T0 + R, OFFSET, GROUP)},
    ),
    "a transaction whose offsets a tombstone has cancelled": Row(
        history=[OLD_U, X, GONE, COMMITTED],
        written={
            JAVA: at(T0 + R, U, GROUP),
            "4.0.1": at(T0 + R, U, GROUP),
            "4.0.0": at(T0 + R, U),
            SCALA: at(T0 + R, OFFSET, U),
        },
    ),
    "23: a tombstone in an aborted transaction": Row(
        history=[OLD, GONE_IN_TRANSACTION, ABORTED], written={JAVA: {T0: [GROUP]}, SCALA: at(T0 + R, OFFSET)}
    ),
    "24: a tombstone in a committed one": Row(
        history=[OLD, GONE_IN_TRANSACTION, COMMITTED], written={JAVA: {T0: [GROUP]}, SCALA: at(T0 + R, OFFSET)}
    ),
    "25: a producer id without a transaction": Row(
        history=[IDEMPOTENT], written={JAVA: NEVER, SCALA: at(T0 + R, OFFSET)}
    ),
    "29: of type 0, to go by type 1": Row(
        history=[OF_TYPE_0], written={JAVA: at(T0 + R, OFFSET, GROUP), SCALA: at(T0 + R, OFFSET)}
    ),
    "30: group deleted, then an offset": Row(
        history=[STABLE_ON_T, GROUP_TOMBSTONE, OLD],
        written={JAVA: at(T0 + R, OFFSET, GROUP), SCALA: at(T0 + R, OFFSET)},
    ),
    "31: an offset, then group deleted": Row(
        history=[OLD, EMPTY_SINCE_T0, GROUP_TOMBSTONE], written={JAVA: NEVER, SCALA: at(T0 + R, OFFSET)}
    ),
    "31, group made again": Row(
        history=[OLD, EMPTY_SINCE_T0, GROUP_TOMBSTONE, OLD_U],
        written={JAVA: at(T0 + R, OFFSET, U, GROUP), SCALA: at(T0 + R, OFFSET, U)},
    ),
    "32: type 3": Row(history=[OLD, CONSUMER], written={JAVA: at(T0 + R, OFFSET, *CONSUMER_GONE), SCALA: FAILS}),
    "33: type 2, then type 3": Row(history=[EMPTY_SINCE_T0, CONSUMER], written={JAVA: FAILS, SCALA: FAILS}),
    "35: an offset, then type 11": Row(history=[OLD, SHARE], written={JAVA: FAILS, SCALA: FAILS}),
    "36: consumer group by a tombstone": Row(
        history=[YOUNG, group_entry(4, "a", None)],
        written={JAVA: at(T0 + 5 + R, OFFSET, *CONSUMER_GONE), SCALA: FAILS},
    ),
    "37, 38: since the group is empty, though committed later": Row(
        history=[YOUNG, EMPTY_SINCE_T0],
        written={
            JAVA: at(T0 + R, OFFSET, GROUP),
            "4.0.0": at(T0 + R, OFFSET, GROUP),
            "3.9": at(T0 + R, OFFSET, GROUP),
            SCALA: at(T0 + R, OFFSET, GROUP),
            "2.4": at(T0 + 5 + R, OFFSET, GROUP),  # KAFKA-10401
        },
    ),
    "39: since when is unknown": Row(
        history=[OLD, YOUNG_U, EMPTY_SINCE_UNKNOWN],
        written={
            release: {T0 + R - 1: [], T0 + R: [OFFSET], T0 + 5 + R - 1: [OFFSET], T0 + 5 + R: [OFFSET, U, GROUP]}
            for release in (JAVA, SCALA)
        },
    ),
    "40: a record without a protocol type": Row(
        history=[YOUNG, SIMPLE_WITH_METADATA],
        written={JAVA: at(T0 + 5 + R, OFFSET, GROUP), SCALA: at(T0 + 5 + R, OFFSET)},
    ),
    "41: explicit, though committed later": Row(
        history=[EXPLICIT],
        written={JAVA: at(T0 + 7, OFFSET, GROUP), SCALA: at(T0 + 7, OFFSET), "2.1": at(T0 + 7, OFFSET)},
    ),
    "42: explicit, though committed long ago": Row(
        history=[EXPLICIT_LATE], written={JAVA: at(LATER + 7, OFFSET, GROUP), SCALA: at(LATER + 7, OFFSET)}
    ),
    "an explicit expiry of -1 is none": Row(
        history=[commit("a", version=1, commit_timestamp_ms=T0, expire_timestamp_ms=-1)],
        written={
            JAVA: at(T0 + R, OFFSET, GROUP),
            SCALA: at(T0 + R, OFFSET),
            "2.2": at(T0 + R, OFFSET),
            "2.1.1": {0: [OFFSET]},  # KAFKA-8069
        },
    ),
    "43: subscribed to t": Row(
        history=[OLD, OLD_U, STABLE_ON_T],
        written={JAVA: at(T0 + R, U), SCALA: at(T0 + R, U), "2.4": at(T0 + R, U), "2.3": NEVER},
    ),
    **{
        f"44a: subscription of {len(data)} bytes": Row(
            history=[OLD, OLD_U, _classic(("m", data))], written={JAVA: NEVER, SCALA: NEVER}
        )
        for data in (SHORT_SUBSCRIPTION, b"")
    },
    "44b: subscription that cannot be parsed": Row(
        history=[OLD, _classic(("m", BAD_SUBSCRIPTION))], written={JAVA: FAILS, SCALA: FAILS, "4.3.2": NEVER}
    ),
    "45: connect": Row(history=[OLD, STABLE_CONNECT], written={JAVA: NEVER, SCALA: NEVER}),
    "46: consumer group that never had members": Row(
        history=[OLD, CONSUMER], written={JAVA: at(T0 + R, OFFSET, *CONSUMER_GONE), SCALA: FAILS}
    ),
    "46: consumer group that lost its member": Row(
        history=[YOUNG, CONSUMER, CONSUMER_MEMBER, *CONSUMER_MEMBER_GONE],
        written={JAVA: at(T0 + 5 + R, OFFSET, *CONSUMER_GONE), SCALA: FAILS},
    ),
    "47: subscribed by name": Row(
        history=[OLD, OLD_U, CONSUMER, CONSUMER_MEMBER], written={JAVA: at(T0 + R, U), SCALA: FAILS}
    ),
    "47: subscribed by a regex, even without members": Row(
        history=[OLD, OLD_U, CONSUMER, REGEX_ON_T], written={JAVA: at(T0 + R, U), SCALA: FAILS}
    ),
    "48: an empty group goes at once": Row(
        history=[_classic(generation=7, state_timestamp_ms=LATER)],
        written={JAVA: {T0: [GROUP]}, SCALA: {T0: [GROUP]}},
    ),
    "48: one without a generation": Row(
        history=[_classic(generation=0, state_timestamp_ms=LATER)], written={JAVA: {T0: [GROUP]}, SCALA: NEVER}
    ),
    "49: a simple group, all expired": Row(
        history=[OLD, OLD_U], written={JAVA: at(T0 + R, OFFSET, U, GROUP), SCALA: at(T0 + R, OFFSET, U)}
    ),
    "50: a share group": Row(
        history=[SHARE],
        written={JAVA: NEVER, "4.0.0": {T0: [(12, None), (9, None), (11, None)]}, SCALA: FAILS, "3.9": NEVER},
    ),
    "an empty streams group": Row(history=[STREAMS], written={JAVA: {T0: [(20, None), (17, None), (23, None)]}}),
    "57: committed in the future": Row(
        history=[FUTURE], written={JAVA: at(LATER + R, OFFSET, GROUP), SCALA: at(LATER + R, OFFSET)}
    ),
    "one young, one old": Row(
        history=[OLD, commit("a", topic="u", commit_timestamp_ms=LATER)],
        written={JAVA: at(T0 + R, OFFSET), SCALA: at(T0 + R, OFFSET)},
    ),
}


@pytest.mark.parametrize(
    "row, release",
    [pytest.param(row, release, id=f"{name}-{release}") for name, row in ROWS.items() for release in row.written],
)
def test_what_a_sweep_writes(row, release):
    loaded, written = _load(row.history, release), row.written[release]
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


def _old_group(*members):
    """A group as all these releases read it: its value is of version 0."""
    fields = classic_fields(*members)
    del fields["current_state_timestamp_ms"]
    fields["leader"] = fields["leader"] or ""  # up to 0.10.0 never null
    for member in fields["members"]:
        del member["group_instance_id"], member["rebalance_timeout_ms"]
    return group_entry(2, "a", None)[0], encode_value(2, 0, fields)


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
    stable = _in_the_format_of(release, _old_commit(release), _old_group(("m", subscription("t"))))
    assert [_expired(stable, now_ms) for now_ms in (T0 + R, T0 + R + 1)] == [[], [OFFSET]]
    empty = _in_the_format_of(release, _old_commit(release), _old_group())
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
    key = ("a", topic, 0)
    return verdict(
        loaded.offsets[key],
        topic,
        loaded.groups.by_id["a"],
        is_pending=key in loaded.state.pending_keys(),
        retention_ms=R,
        now_ms=now_ms,
        profile=loaded.profile,
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
def test_58_a_stray_group_is_swept_too(release, written):
    case = edge_cases(release)["58"]
    loaded = case.load()
    reasons = loaded.unreachable(log_partition=case.log_partition, partition_count=case.partition_count)
    assert set(reasons.values()) == ({"stray"} if release == JAVA else set())
    swept = sweep(loaded, retention_ms=R, now_ms=INT64_MAX // 2)
    assert [(item.record_type, item.topic) for item in swept if item.group_id == case.group_id] == written


def test_a_tombstone_says_what_it_removes():
    loaded = _load([commit("a", 41), commit("a", 42)], NEWEST.text.partition(":")[2])
    (gone, group) = sweep(loaded, retention_ms=R, now_ms=LATER)
    assert (gone.target_log_offset, gone.target_committed_offset, gone.cause) == (1, 42, "broker_retention")
    assert (group.target_log_offset, group.target_committed_offset, group.cause) == (None, None, "group_empty")
