"""The life of a classic group, transition by transition."""

from itertools import product

import pytest

from sexton.coordinator.groups.lifecycle import (
    GroupState,
    IllegalTransition,
    LiveMember,
    await_sync,
    join,
    loaded,
    next_timer_ms,
    remove_member,
    tick,
)
from sexton.coordinator.profiles import profile_of
from tests.coordinator.lifecycle_events import delete, heartbeat, sweep, sync

JAVA = profile_of("group_coordinator:4.3.1")
SCALA = profile_of("group_metadata_manager:2.8")
BEFORE_EMPTY = profile_of("offset_manager:0.10.0")
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState


def member(name, *, session_ms=10_000, rebalance_ms=60_000, at_ms=0, is_static=False):
    times = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms}
    return LiveMember(member_id=name, **times, session_ends_at_ms=at_ms + session_ms, is_static=is_static)


def stable(*members):
    return loaded(members, generation=7, since_ms=0)


def history(group, profile=JAVA):
    """(at, state, members) after each timer that changes any of these, until the group waits for nothing."""
    found = []
    while (at_ms := next_timer_ms(group)) is not None:
        before, group = group, tick(group, profile=profile)
        if (before.state, before.members) != (group.state, group.members):
            found.append((at_ms, group.state, [own.member_id for own in group.members]))
    return found


def test_one_member_joins_and_leads():
    group = join(loaded([], generation=0, since_ms=0), member("a"), at_ms=5)
    assert (group.state, group.generation, group.since_ms) == (COMPLETING, 1, 5)
    group = sync(group, at_ms=6)
    assert (group.state, group.since_ms) == (STABLE, 6)


def test_a_rebalance_waits_for_the_members_that_it_had():
    group = join(stable(member("a"), member("b")), member("c"), at_ms=1)
    assert (group.state, group.rebalance_ends_at_ms) == (PREPARING, 60_001)
    group = join(group, member("a"), at_ms=2)
    assert (group.state, group.generation) == (PREPARING, 7)
    group = join(group, member("b"), at_ms=3)
    assert (group.state, group.generation, group.rebalance_ends_at_ms) == (COMPLETING, 8, None)


@pytest.mark.parametrize("profile", [JAVA, SCALA])
def test_the_last_member_leaves_an_empty_group(profile):
    group = remove_member(stable(member("a")), "a", at_ms=9, profile=profile)
    assert (group.state, group.generation, group.since_ms) == (EMPTY, 8, 9)


def test_before_0_10_1_the_last_member_takes_the_group_along():
    group = remove_member(stable(member("a"), member("b")), "a", at_ms=9, profile=BEFORE_EMPTY)
    assert group.state is PREPARING
    assert remove_member(group, "b", at_ms=10, profile=BEFORE_EMPTY).state is DEAD


def test_members_that_are_silent_go_as_their_sessions_end():
    silent = stable(member("a", session_ms=10), member("b", session_ms=30))
    assert history(silent) == [(10, PREPARING, ["b"]), (30, EMPTY, [])]


def test_a_rebalance_does_not_wait_longer_than_its_timeout():
    silent = stable(member("a", session_ms=10), member("b", session_ms=300, rebalance_ms=50))
    assert history(silent) == [(10, PREPARING, ["b"]), (60, EMPTY, [])]


def test_static_members_stay_until_their_sessions_end():
    """KIP-345: a rebalance that static members miss is put off, and dynamic ones are removed from it."""
    fixed = member("s", session_ms=300, rebalance_ms=50, is_static=True)
    silent = stable(member("a", session_ms=10), member("b", session_ms=200, rebalance_ms=50), fixed)
    assert history(silent) == [(10, PREPARING, ["b", "s"]), (60, PREPARING, ["s"]), (300, EMPTY, [])]


def test_a_heartbeat_begins_the_session_anew():
    group = heartbeat(stable(member("a", session_ms=10)), "a", at_ms=8)
    assert next_timer_ms(group) == 18


def test_who_has_joined_waits_for_the_others_without_a_session():
    group = join(stable(member("a", session_ms=10), member("b", session_ms=20)), member("a", session_ms=10), at_ms=5)
    assert next_timer_ms(group) == 20
    group = tick(group, profile=JAVA)
    assert (group.state, [own.member_id for own in group.members]) == (COMPLETING, ["a"])


def completing(*members):
    """A group whose members have all joined at 5, and wait for the leader's assignment."""
    group = stable(*members)
    for own in members:
        group = join(group, own, at_ms=5)
    assert group.state is COMPLETING
    return group


@pytest.mark.parametrize("profile", [JAVA, SCALA, BEFORE_EMPTY])
def test_a_follower_that_waits_for_its_assignment_is_kept_alive(profile):
    """shouldKeepMemberAlive: its session ends no earlier than anew after the answer."""
    group = completing(member("leader", session_ms=100), member("follower", session_ms=10))
    assert next_timer_ms(group) == 15
    group = await_sync(group, "follower", at_ms=8)
    assert next_timer_ms(group) == 105
    group = await_sync(group, "leader", at_ms=50)
    assert next_timer_ms(group) is None
    group = sync(group, at_ms=60)
    assert [(own.member_id, own.sync_error, own.session_ends_at_ms) for own in group.members] == [
        ("leader", "NONE", 160), ("follower", "NONE", 70),
    ]  # fmt: skip
    assert tick(group, profile=profile).since_ms == 70


def test_a_member_that_has_not_asked_for_its_assignment_keeps_its_session():
    group = sync(await_sync(completing(member("a"), member("b")), "a", at_ms=8), at_ms=9)
    assert [(own.sync_error, own.session_ends_at_ms) for own in group.members] == [("NONE", 10_009), (None, 10_005)]


@pytest.mark.parametrize("profile", [JAVA, SCALA, BEFORE_EMPTY])
def test_who_waits_for_an_assignment_is_told_of_the_next_rebalance(profile):
    """prepareRebalance of AwaitingSync: REBALANCE_IN_PROGRESS, whatever starts it."""
    both = completing(member("leader", session_ms=100), member("follower", session_ms=10))
    waits = await_sync(both, "follower", at_ms=8)
    joined = join(waits, member("new"), at_ms=20)
    left = remove_member(waits, "leader", at_ms=20, profile=profile)
    for group, at_ms in ((joined, 20), (left, 20), (tick(waits, profile=profile), 105)):
        told = next(own for own in group.members if own.member_id == "follower")
        assert group.state is PREPARING
        assert (told.sync_error, told.awaits_sync) == ("REBALANCE_IN_PROGRESS", False)
        assert told.session_ends_at_ms == at_ms + 10
    assert [own.sync_error for own in joined.members] == [None, "REBALANCE_IN_PROGRESS", None]


def test_only_what_is_empty_and_bare_is_swept():
    assert sweep(stable(), is_bare=True, at_ms=1, profile=JAVA).state is DEAD
    assert sweep(stable(), is_bare=False, at_ms=1, profile=JAVA).state is EMPTY
    assert sweep(stable(member("a")), is_bare=True, at_ms=1, profile=JAVA).state is STABLE
    assert sweep(stable(), is_bare=True, at_ms=1, profile=BEFORE_EMPTY).state is EMPTY


def test_only_an_empty_group_is_deleted():
    assert delete(stable(), at_ms=1).state is DEAD
    with pytest.raises(IllegalTransition, match="delete of a group that is Stable"):
        delete(stable(member("a")), at_ms=1)


VALID_PREVIOUS = {
    DEAD: {STABLE, PREPARING, COMPLETING, EMPTY, DEAD},
    COMPLETING: {PREPARING},
    STABLE: {COMPLETING},
    PREPARING: {STABLE, COMPLETING, EMPTY},
    EMPTY: {PREPARING},
}
"""GroupMetadata.validPreviousStates, the same in ClassicGroupState."""
EVENTS = {
    "join": lambda group, at_ms: join(group, member("n", at_ms=at_ms), at_ms=at_ms),
    "await_sync": lambda group, at_ms: await_sync(group, "a", at_ms=at_ms),
    "sync": lambda group, at_ms: sync(group, at_ms=at_ms),
    "leave": lambda group, at_ms: remove_member(group, "a", at_ms=at_ms, profile=JAVA),
    "tick": lambda group, at_ms: tick(group, profile=JAVA),
    "sweep": lambda group, at_ms: sweep(group, is_bare=True, at_ms=at_ms, profile=JAVA),
    "delete": lambda group, at_ms: delete(group, at_ms=at_ms),
}


def test_no_history_takes_a_transition_that_kafka_has_not():
    """Every sequence of five events; a state may be passed through at once, as PreparingRebalance without members."""
    at_once = {(previous, after) for after, some in VALID_PREVIOUS.items() for previous in some}
    through = {(first, last) for first, middle in at_once for again, last in at_once if again is middle is PREPARING}
    seen = set()
    for names in product(EVENTS, repeat=5):
        group = stable(member("a"), member("b"))
        for at_ms, name in enumerate(names):
            try:
                after = EVENTS[name](group, at_ms)
            except IllegalTransition:
                break
            if after.state is not group.state:
                seen.add((group.state, after.state))
            group = after
    assert seen <= at_once | through
    assert {state for _, state in seen} == set(GroupState)
