"""The fields of a `coordinator.profile.Profile` that compiled code reads: numbers in `counts`, flags by record type.

A flag in `counts` has the name of its field in Profile.
"""

import numpy as np
import numpy.typing as npt

from sexton.coordinator.profile import PendingRule, Profile
from sexton.kernels import layout as L
from sexton.kernels.growth import new_state
from sexton.kernels.layout import FoldState

_PENDING_RULES = {
    PendingRule.WITH_PRODUCER_ID: L.PENDING_WITH_PRODUCER_ID,
    PendingRule.IF_TRANSACTIONAL: L.PENDING_IF_TRANSACTIONAL,
    PendingRule.NEVER: L.PENDING_NEVER,
}
_UNREAD = -1


def new_state_of(profile: Profile, *, keys: int = 1024) -> FoldState:
    """An empty state that folds by the rules of `profile`."""
    state = new_state(keys=keys)
    state.counts[L.PENDING_RULE] = _PENDING_RULES[profile.pending_rule]
    state.counts[L.TOMBSTONES_CANCEL_PENDING] = profile.tombstones_cancel_pending
    state.counts[L.SKIPS_UNKNOWN_TYPES] = profile.skips_unknown_types
    state.counts[L.HIGHEST_VERSION] = profile.value_versions.get(1, _UNREAD)
    state.counts[L.HIGHEST_LEGACY_VERSION] = profile.value_versions.get(0, _UNREAD)
    state.counts[L.LEAKS_OPEN_TRANSACTIONS] = profile.leaks_open_transactions
    state.counts[L.KEEPS_EXPIRE_OF_MINUS_1] = profile.keeps_expire_of_minus_1
    state.counts[L.READS_TOPIC_IDS] = profile.reads_topic_ids
    return state


def copy_rules(source: FoldState, target: FoldState) -> None:
    """Give `target` the rules of `source`."""
    target.counts[L.FIRST_RULE : L.RULES_END] = source.counts[L.FIRST_RULE : L.RULES_END]


def group_types_of(profile: Profile) -> npt.NDArray[np.uint8]:
    """For each record type, whether the coordinator reads it as a group record."""
    return np.array([number > 1 and profile.reads(number) for number in range(L.GROUP_TYPES)], np.uint8)
