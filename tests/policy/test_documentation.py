"""docs/policy.md: its policies are read, its tests pass, and it speaks of every key that there is."""

import re
from pathlib import Path

from sexton.policy import Limits, parse_policy
from sexton.policy.durations import parse_duration
from sexton.policy.model import MAX_PATTERNS, Hold, Match, Policy, Rule
from sexton.policy.patterns import MAX_PATTERN_CHARS, MAX_PROGRAM
from sexton.policy.strict_yaml import MAX_BYTES
from sexton.policy.testing import run_tests
from sexton.policy.testing_schema import KEPT_BY, Expected, GivenGroup, GivenOffset, PolicyTest
from sexton.vocabulary import GROUP_STATES as STATES
from sexton.vocabulary import GROUP_TYPES, ORPHANS
from tests.policy.worlds import NOW_MS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
EXAMPLE, TESTS = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_example_is_a_policy_whose_tests_pass():
    policy = parse_policy(EXAMPLE, where="docs/policy.md")
    trials = run_tests(policy, policy.tests, now_ms=NOW_MS)
    assert [trial.complaints for trial in trials] == [[]] * 3


def test_the_tests_of_a_file_pass():
    policy = parse_policy(EXAMPLE, where="docs/policy.md")
    more = parse_policy(f"version: 1\n{TESTS}", where="docs/policy.md").tests
    assert [trial.complaints for trial in run_tests(policy, more, now_ms=NOW_MS)] == [[]]


def test_the_defaults_are_those_that_are_told():
    assert parse_policy(EXAMPLE, where="").limits == Limits()
    for _, field in Limits.model_fields.items():
        assert re.search(rf"\b{field.default}\b", PAGE)


def test_every_key_and_word_is_told():
    for model in (Policy, Limits, Hold, Rule, Match, PolicyTest, GivenGroup, GivenOffset, Expected):
        for name, field in model.model_fields.items():
            assert re.search(rf"\b{field.alias or name}\b", PAGE), (model, name)
    for word in (*GROUP_TYPES, *STATES, *ORPHANS, *KEPT_BY):
        assert f"`{word}`" in PAGE
    for reason in ("held_legal", "held_operational", "no_rule", "expired", "not_due"):
        assert f"`{reason}`" in PAGE
    text = " ".join(PAGE.split())
    for number in (f"{MAX_BYTES >> 10} KiB", f"{MAX_PATTERNS} patterns", f"{MAX_PATTERN_CHARS:,} characters"):
        assert number in text
    assert f"{MAX_PROGRAM:,} RE2 instructions" in text


def test_the_durations_are_durations():
    (told,) = re.findall(r"Durations are (.*?), or as a plain number", PAGE, flags=re.DOTALL)
    words = re.findall(r"`(\w+)`", told)
    assert len(words) == 7
    assert all(parse_duration(word) for word in words)
