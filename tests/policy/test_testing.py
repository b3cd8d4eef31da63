"""Tests of a policy: what they are compared with, and what one that fails says."""

import pytest

from sexton.policy import PolicyError, parse_policy
from sexton.policy.reading import read_tests
from sexton.policy.testing import run_tests
from tests.policy.worlds import NOW_MS

POLICY = """\
version: 1
holds: [{name: held, match: {prefix: h}, kind: legal, until: '2027-01-16T08:00:00Z', owner: o, reason: r}]
rules: [{name: ci, match: {prefix: [c, h], idle: 7d}, retention: 2d, owner: o, reason: r}]
"""


def complaints(test):
    policy = parse_policy(f"{POLICY}tests: [{{name: t, {test}}}]\n", where="p")
    (trial,) = run_tests(policy, policy.tests, now_ms=NOW_MS)
    assert trial.holds == (not trial.complaints)
    assert [one.rule for one in trial.considered] == ["held", "ci"]
    return trial.complaints


KEPT = "group: {id: c, idle: 7d}, offset: {age: 9d, kept_by: pending_transaction}, expect: {verdict: expire}"
ALL_THREE = ["verdict keep, not hold", "rule none, not held", "reason no_rule, not held_legal"]


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("group: {id: c, idle: 7d}, offset: {age: 2d}, expect: {verdict: expire, rule: ci, reason: expired}", []),
        ("group: {id: c, idle: 6d}, offset: {age: 2d}, expect: {verdict: expire}", ["verdict keep, not expire"]),
        ("group: {id: c, idle: 7d, state: Stable}, offset: {age: 2d}, expect: {verdict: keep, rule: none}", []),
        ("group: {id: c}, offset: {age: 2d}, expect: {verdict: keep, reason: no_rule}", []),
        ("group: {id: c, idle: 7d}, offset: {age: 1d}, expect: {verdict: keep, rule: ci, reason: not_due}", []),
        ("group: {id: c, idle: 7d}, offset: {age: 9d, kept_by: subscribed}, expect: {verdict: keep, rule: ci}", []),
        (KEPT, ["verdict keep, not expire"]),
        ("group: {id: h, idle: 9d}, offset: {age: 9d}, expect: {verdict: hold, rule: held, reason: held_legal}", []),
        ("at: '2027-01-16T08:00:00Z', group: {id: h, idle: 9d}, offset: {age: 9d}, expect: {verdict: expire}", []),
        ("group: {id: c, idle: 7d}, expect: {verdict: expire, rule: ci}", []),
        ("group: {id: h, idle: 7d}, expect: {verdict: hold}", []),
        ("group: {id: c}, expect: {verdict: hold, rule: held, reason: held_legal}", ALL_THREE),
    ],
)
def test_trials(test, said):
    assert complaints(test) == said


def test_a_file_of_tests(tmp_path):
    file = tmp_path / "tests.yaml"
    file.write_text("tests:\n  - {name: t, group: {id: g}, expect: {verdict: keep}}\n")
    assert [test.name for test in read_tests(file).tests] == ["t"]
    file.write_text("tests:\n  - {name: t, group: {id: g}, expect: {verdikt: keep}}\n")
    said = r"2 mistakes.*verdict is missing.*unknown key 'verdikt' \(did you mean verdict\?"
    with pytest.raises(PolicyError, match=said):
        read_tests(file)
