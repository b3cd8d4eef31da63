"""Runs the tests of a policy: decides about each test's offset or group, and compares with the expected decision."""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.policy.decision import decide, decide_bare, explain
from sexton.policy.inputs import Decision, RuleTrace
from sexton.policy.model import Policy
from sexton.policy.testing_schema import PolicyTest

NO_ONE = "none"
"""The expected rule of a decision that no rule made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTestResult:
    """The result of one test. `complaints` is empty if the test passes."""

    name: str
    decision: Decision
    considered: list[RuleTrace]
    complaints: list[str]

    @property
    def holds(self) -> bool:
        return not self.complaints


def run_tests(policy: Policy, tests: Sequence[PolicyTest], *, now_ms: int) -> list[PolicyTestResult]:
    """Run the tests in order. `now_ms` is the instant of tests without `at`."""
    return [_try(policy, test, now_ms=now_ms if test.at_ms is None else test.at_ms) for test in tests]


def _try(policy: Policy, test: PolicyTest, *, now_ms: int) -> PolicyTestResult:
    group = test.group.facts(now_ms=now_ms)
    offset = None if test.offset is None else test.offset.facts(now_ms=now_ms)
    if offset is None:
        decision = decide_bare(policy, group, now_ms=now_ms)
    else:
        decision = decide(policy, group, offset, now_ms=now_ms)
    expected = test.expect
    pairs = (
        ("verdict", expected.verdict, decision.verdict),
        ("rule", expected.rule, decision.rule or NO_ONE),
        ("reason", expected.reason, decision.reason),
    )
    return PolicyTestResult(
        name=test.name,
        decision=decision,
        considered=explain(policy, group, offset, now_ms=now_ms),
        complaints=[f"{what} {got}, not {want}" for what, want, got in pairs if want is not None and want != got],
    )
