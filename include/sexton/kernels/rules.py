"""A profile's rules as the compiled fold reads them: numbers in the state's counts, and flags by record type."""

import numpy as np
import numpy.typing as npt

from sexton.coordinator.profile import Profile, Waits
from sexton.kernels import decode
from sexton.kernels.layout import (
    FIRST_RULE,
    HIGHEST_LEGACY_VERSION,
    HIGHEST_VERSION,
    KEEPS_EXPIRE,
    LEAKS_TRANSACTIONS,
    READS_TOPIC_IDS,
    RULES_END,
    SKIPS_UNKNOWN,
    SPARES_PENDING,
    WAITS,
    WAITS_FOR_PRODUCER,
    WAITS_FOR_TRANSACTION,
    WAITS_NEVER,
    State,
    new_state,
)

_WAITS = {
    Waits.FOR_PRODUCER: WAITS_FOR_PRODUCER,
    Waits.FOR_TRANSACTION: WAITS_FOR_TRANSACTION,
    Waits.NEVER: WAITS_NEVER,
}
_UNREAD = -1


def new_state_of(profile: Profile, *, keys: int = 1024) -> State:
    """An empty state that folds by the rules of `profile`."""
    state = new_state(keys=keys)
    state.counts[WAITS] = _WAITS[profile.waits]
    state.counts[SPARES_PENDING] = not profile.tombstones_cancel_pending
    state.counts[SKIPS_UNKNOWN] = profile.skips_unknown_types
    state.counts[HIGHEST_VERSION] = profile.value_versions.get(1, _UNREAD)
    state.counts[HIGHEST_LEGACY_VERSION] = profile.value_versions.get(0, _UNREAD)
    state.counts[LEAKS_TRANSACTIONS] = profile.leaks_open_transactions
    state.counts[KEEPS_EXPIRE] = profile.keeps_expire_of_minus_1
    state.counts[READS_TOPIC_IDS] = profile.reads_topic_ids
    return state


def copy_rules(source: State, target: State) -> None:
    """Let `target` fold by the rules of `source`."""
    target.counts[FIRST_RULE:RULES_END] = source.counts[FIRST_RULE:RULES_END]


def roles_of(profile: Profile) -> npt.NDArray[np.uint8]:
    """By record type, whether the coordinator reads it as one of a group."""
    return np.array([number > 1 and profile.reads(number) for number in range(decode.ROLES)], np.uint8)
