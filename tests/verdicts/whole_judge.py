"""The verdicts on a whole log partition, in one call."""

from typing import Any

import pyarrow as pa

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.verdicts.expiry import judge_unblocked, sweep_block, under_block


def judge(
    offsets: pa.Table, groups: pa.Table, pending: pa.Table, *, profile: Profile = NEWEST, **rules: Any
) -> pa.Table:
    """What the broker would do with each offset, also where one group makes its sweep fail."""
    block = sweep_block(offsets, groups, pending, profile=profile, **rules)
    verdicts = judge_unblocked(offsets, groups, pending, profile=profile, **rules)
    return under_block(verdicts, block, now_ms=rules["now_ms"])
