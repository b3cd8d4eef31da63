"""Regular expressions that whoever writes a policy cannot make slow, and limits that no pattern gets around."""

import random
import time
from itertools import product

import pytest

from sexton.policy import Counts, PolicyError, decide, parse_policy
from sexton.policy.patterns import MAX_PATTERN_CHARS, PatternError, check_pattern, is_full_match
from tests.policy.worlds import NOW_MS, group, offset

LONGEST_ID_BYTES = 32_767
_ATOMS = ("a", "[a-z]", ".", "(a|a)", "(a|ab)", "(a|b|ab)", "\\w", "(?:a?)", "[^c]", "(?i:a)", "[ab]", "(b|a)")
_NESTS = (
    "({}+)+", "({}*)*", "({}+)*c", "({}|{})*z", "(({}*)*)*", "({}?){{200}}{}{{200}}", "(.*{}){{12}}", "({}*){{60}}",
)  # fmt: skip
_OTHERS = (
    "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*.*.*.*.*=.*)", "(a?){300}a{300}", ".*a.{90}", ".*a.{90}.*b.{90}",
    "(.*a.{15}b)*", ".*(a|b).{40}(a|b).{40}", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)b", "(\\pL|\\d|_)+!",
    "(a|b|c|d|e|f|g)*[a-g]{20}x", "((a|b)?){600}", "(x+x+)+y", "[\\s\\S]*[\\s\\S]*[\\s\\S]*b", ".*" * 400,
    "(" * 150 + "a" + ")*" * 150, "|".join("a" * number for number in range(1, 40)), "(^a*$)*", "\\b(\\w+\\b)*!",
    "(a{0,30}b{0,30}){10}", "(.{1,90}a){10}",
)  # fmt: skip
_REFUSED = (".{700}", "(.?){900}", ".*a.{400}", "a" * (MAX_PATTERN_CHARS + 1), "(a{999}){999}", "(\\pL{100}\\pN{100})")
NASTY = [*(nest.format(atom, atom) for nest, atom in product(_NESTS, _ATOMS)), *_OTHERS]
_RANDOM = random.Random(1)
TEXTS = (
    "a" * LONGEST_ID_BYTES,
    "".join(_RANDOM.choices("ab", k=LONGEST_ID_BYTES)),
    "a" * (LONGEST_ID_BYTES - 1) + "!",
    "\U0001f600" * (LONGEST_ID_BYTES // 4),
)


def test_nasty_patterns_are_quick_or_refused():
    slowest_s, worst, accepted = 0.0, "", 0
    for pattern in NASTY:
        started_s = time.perf_counter()
        if is_accepted(pattern):
            accepted += 1
            for text in TEXTS:
                is_full_match(pattern, text)
        taken_s = time.perf_counter() - started_s
        slowest_s, worst = max((slowest_s, worst), (taken_s, pattern))
    assert slowest_s < 1, worst
    assert accepted >= 100


def is_accepted(pattern):
    try:
        check_pattern(pattern)
    except PatternError:
        return False
    return True


@pytest.mark.parametrize("pattern", _REFUSED)
def test_patterns_that_are_too_large(pattern):
    started_s = time.perf_counter()
    with pytest.raises(PatternError):
        check_pattern(pattern)
    assert time.perf_counter() - started_s < 1


def test_a_file_of_patterns_is_quick():
    """As many as a policy takes, each as bad as one can be."""
    patterns = [f"(.*a.{{90}}|x{number})" for number in range(256)]
    text = "version: 1\nrules:\n" + "".join(
        f"  - {{name: r{number}, match: {{regex: '{pattern}'}}, retention: 1d, owner: o, reason: r}}\n"
        for number, pattern in enumerate(patterns)
    )
    policy = parse_policy(text, where="p.yaml")
    started_s = time.perf_counter()
    assert decide(policy, group("ab" * 100), offset(), now_ms=NOW_MS).verdict == "keep"
    assert time.perf_counter() - started_s < 1


@pytest.mark.parametrize("pattern", [".*", "(.*)*", "^.*$", "(?s).*", "[^x]*|.*x.*", "", "|a|.*"])
def test_a_pattern_that_matches_all_meets_the_limits(pattern):
    """Whatever rules overlap, and however they are written: limits count what goes, not what matches."""
    entry = "{{name: r{}, match: {{regex: '{}'}}, retention: 1d, owner: o, reason: r}}"
    text = f"version: 1\nrules: [{entry.format(0, pattern)}, {entry.format(1, '.*')}, {entry.format(2, pattern)}]\n"
    if not pattern:
        with pytest.raises(PolicyError, match="an empty pattern matches only"):
            parse_policy(text, where="p.yaml")
        return
    policy = parse_policy(text, where="p.yaml")
    names = [f"group-{number}" for number in range(100)]
    taken = [name for name in names if decide(policy, group(name), offset(), now_ms=NOW_MS).verdict == "expire"]
    assert taken == names
    counts = Counts(offset_count=len(taken), group_count=len(taken), groups_total=len(names))
    assert policy.limits.exceeded(counts) == [
        "100 of 100 groups would lose offsets or be deleted; limits.max_share_of_groups is 0.05"
    ]
