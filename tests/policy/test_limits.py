"""How much one plan may take: each limit is reached before it is exceeded, and none can be left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.policy import Counts, Limits, OwnerCount, parse_policy
from tests.policy.worlds import SOME

NUMBERS = st.integers(0, 200)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((10_000, 25, 500, 1, 2), []),
        ((0, 0, 0, 0, 0), []),
        ((10_001, 25, 500, 1, 2), ["10,001 offsets would be deleted; limits.max_offsets is 10,000"]),
        ((1, 501, 100_000, 1, 2), ["501 groups would lose offsets or be deleted; limits.max_groups is 500"]),
        ((1, 26, 500, 1, 2), ["26 of 500 groups would lose offsets or be deleted; limits.max_share_of_groups is 0.05"]),
        ((1, 1, 0, 0, 0), ["1 of 0 groups would lose offsets or be deleted; limits.max_share_of_groups is 0.05"]),
        ((3, 1, 500, 3, 5), ["3 of 5 offsets under rules of 'o' would be deleted; limits.max_share_of_owner is 0.5"]),
    ],
)
def test_limits(counts, said):
    offset_count, group_count, groups_total, taken, total = counts
    owners = {"o": OwnerCount(taken=taken, total=total), "quiet": OwnerCount(taken=0, total=9)}
    given_counts = Counts(offset_count=offset_count, group_count=group_count, groups_total=groups_total, owners=owners)
    assert Limits().exceeded(given_counts) == said


@SOME
@given(
    st.builds(
        Limits, max_offsets=NUMBERS, max_groups=NUMBERS, max_share_of_groups=st.floats(0, 1),
        max_share_of_owner=st.floats(0, 1),
    ),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3),
)  # fmt: skip
def test_what_exceeds_no_limit_is_within_all(limits, offset_count, group_count, groups_total, owners):
    counts = Counts(
        offset_count=offset_count,
        group_count=group_count,
        groups_total=groups_total,
        owners={f"o{number}": OwnerCount(taken=a, total=b) for number, (a, b) in enumerate(owners)},
    )
    within = (
        offset_count <= limits.max_offsets
        and group_count <= limits.max_groups
        and (not group_count or (groups_total > 0 and group_count / groups_total <= limits.max_share_of_groups))
        and all(not a or (b > 0 and a / b <= limits.max_share_of_owner) for a, b in owners)
    )
    assert (limits.exceeded(counts) == []) == within


def test_a_policy_without_limits_has_them():
    assert parse_policy("version: 1\n", where="").limits == Limits(
        max_offsets=10_000, max_groups=500, max_share_of_groups=0.05, max_share_of_owner=0.5
    )
    assert parse_policy("version: 1\nlimits: {max_groups: 7}\n", where="").limits == Limits(max_groups=7)
