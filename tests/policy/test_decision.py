"""What a policy decides: scenarios, the laws that always hold, and the compiled form against the plain one."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.policy import CompiledPolicy, decide
from sexton.policy.durations import HOUR_MS
from tests.policy.worlds import NOW_MS, groups, offsets, policies

INSTANTS = st.integers(-3, 14).map(lambda hours: NOW_MS + hours * HOUR_MS)


@given(policies(), groups(), offsets(), INSTANTS)
def test_the_compiled_policy_decides_the_same(policy, group, offset, now_ms):
    compiled = CompiledPolicy(policy).for_group(group)
    assert compiled.decide(offset, now_ms=now_ms) == decide(policy, group, offset, now_ms=now_ms)
