"""Splits the fold of a log partition by group id, so that many tasks can share one log partition.

The replay of a group never depends on another group, so a fold consists of groups and the *rest*: end markers, open
transactions and counts of the whole log partition. A *bucket* is the rest with the groups of one range of ids. Merging
the buckets of adjacent slices in log order gives the bucket of the whole log partition. Rows and counts that belong to
no group are in the first bucket only, so that sums over all buckets are right.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.kernels import layout as L
from sexton.kernels.columns import Mask, group_ids
from sexton.kernels.growth import new_state
from sexton.kernels.layout import FoldState
from sexton.kernels.merge import absorb_state, of_groups, without_groups
from sexton.kernels.partial_fold import PartialFold


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRange:
    """The group ids from `lower` up to, but not including, `upper`, in order of their UTF-8 bytes; None: no bound."""

    lower: str | None = None
    upper: str | None = None

    @property
    def is_first(self) -> bool:
        return self.lower is None

    def overlaps(self, other: "GroupRange") -> bool:
        """Whether a group id can be in both ranges."""
        return _is_before(self.lower, other.upper) and _is_before(other.lower, self.upper)

    def holds(self, other: "GroupRange") -> bool:
        """Whether every group of `other` is in this range."""
        reaches_down = self.lower is None or (other.lower is not None and self.lower <= other.lower)
        return reaches_down and (self.upper is None or (other.upper is not None and other.upper <= self.upper))


def _is_before(lower: str | None, upper: str | None) -> bool:
    return lower is None or upper is None or lower < upper


def ranges_of(bounds: Sequence[str]) -> list[GroupRange]:
    """The ranges between `bounds`, in order; the first has no lower bound and the last no upper bound."""
    return [GroupRange(lower=lower, upper=upper) for lower, upper in pairwise([None, *bounds, None])]


def bucket_of(fold: PartialFold, ids: GroupRange) -> PartialFold:
    """The bucket of a fold with the groups of a range."""
    return fold if ids == GroupRange() else with_groups(rest_of(fold, is_first=ids.is_first), [groups_of(fold, ids)])


def rest_of(fold: PartialFold, *, is_first: bool) -> PartialFold:
    """The state of the whole log partition without its groups; rows and counts that must be counted only once are left
    to the first bucket."""
    state = without_groups(fold.state)
    if is_first:
        return replace(fold, state=state)
    nothing = new_state(keys=16)
    state.counts[L.TOMBSTONED : L.MAX_COMMIT_MS + 1] = nothing.counts[L.TOMBSTONED : L.MAX_COMMIT_MS + 1]
    state.unknown_types[:] = 0
    state.producers[: state.counts[L.PRODUCERS], L.P_CANCELLED] = 0
    return without_undecodable(replace(fold, state=state))


def without_undecodable(fold: PartialFold) -> PartialFold:
    """A fold without its undecodable records' rows; the counters still include them, because checks depend on that."""
    counters = fold.batch_counters.copy()
    counters[L.READ_LEFT_OUT] += len(fold.undecodable)
    counters[L.READ_LEFT_OUT_VALUES] = 0
    return replace(fold, batch_counters=counters, undecodable=[])


def groups_of(fold: PartialFold, ids: GroupRange) -> FoldState:
    """Only the groups of a range, without the state of the whole log partition."""
    return of_groups(fold.state, _is_in(group_ids(fold.state), ids))


def with_groups(rest: PartialFold, groups: Iterable[FoldState]) -> PartialFold:
    """A bucket made of `rest`, whose arrays are reused, and of `groups`."""
    state = rest.state
    for some in groups:
        state = absorb_state(state, some)
    return replace(rest, state=state)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlice:
    """Groups of a fold with adjacent ids; `lower` is the first id, `keys` counts their keys and group records."""

    lower: str
    keys: int
    fold: PartialFold


def pieces_of(fold: PartialFold, *, most_keys: int) -> list[GroupSlice]:
    """The groups of a fold in slices of about `most_keys` keys, in order of group id; a group is never split."""
    state = fold.state
    names = group_ids(state)
    order = np.asarray(pc.sort_indices(names))
    keys, records = state.keys[: state.counts[L.KEYS]], state.records[: state.counts[L.RECORDS]]
    of_group = np.bincount(keys[:, L.KEY_GROUP], minlength=len(names))
    of_group += np.bincount(records[:, L.R_GROUP], minlength=len(names))
    number = (np.cumsum(of_group[order]) - of_group[order]) // most_keys
    firsts = np.flatnonzero(np.diff(number, prepend=-1))
    pieces = []
    for first, end in pairwise([*firsts.tolist(), len(order)]):
        chosen = np.zeros(len(names), np.bool_)
        chosen[order[first:end]] = True
        pieces.append(
            GroupSlice(
                lower=names[int(order[first])].as_py(),
                keys=int(of_group[order[first:end]].sum()),
                fold=replace(without_undecodable(fold), state=of_groups(state, chosen)),
            )
        )
    return pieces


def bounds_for(weights: Sequence[tuple[str | None, int]], *, most_keys: int) -> list[str]:
    """Group ids at which to split a log partition into buckets of about `most_keys` keys.

    `weights` are (lower bound, number of keys) of slices of its folds; the bound is None for slices without a known
    group.
    """
    total = sum(keys for _, keys in weights)
    count = -(-total // most_keys)
    found: list[str] = []
    reached = sum(keys for lower, keys in weights if lower is None)
    for lower, keys in sorted((lower, keys) for lower, keys in weights if lower is not None):
        if reached * count >= total * (len(found) + 1) and (not found or lower > found[-1]):
            found.append(lower)
        reached += keys
    return found[: max(count - 1, 0)]


def _is_in(names: pa.Array, ids: GroupRange) -> Mask:
    chosen = np.ones(len(names), np.bool_)
    if ids.lower is not None:
        chosen &= np.asarray(pc.greater_equal(names, pa.scalar(ids.lower, names.type)))
    if ids.upper is not None:
        chosen &= np.asarray(pc.less(names, pa.scalar(ids.upper, names.type)))
    return chosen
