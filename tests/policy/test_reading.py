"""Policy files: what is read, what is refused and in which words, and what the hash depends on."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.errors import UsageError
from sexton.policy import Policy, PolicyError, parse_policy, read_policy
from sexton.policy.durations import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    duration_text,
    instant_text,
    parse_duration,
    parse_instant,
)
from sexton.policy.strict_yaml import MAX_BYTES
from tests.policy.worlds import SOME, policies

RULE = "{name: a, match: {group: g}, retention: 1d, owner: o, reason: r}"
HOLD = "{name: h, match: {group: g}, kind: legal, owner: o, reason: r}"


def mistakes(text):
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, where="p.yaml")
    return [str(one) for one in caught.value.diagnostics]


def in_rule(old, new):
    return f"version: 1\nrules:\n  - {RULE.replace(old, new)}\n"


def in_hold(old, new):
    return f"version: 1\nholds:\n  - {HOLD.replace(old, new)}\n"


def in_test(group, verdict):
    return f"version: 1\ntests: [{{name: x, group: {{{group}}}, expect: {{verdict: {verdict}}}}}]\n"


HIDDEN, NO_ZONE = r"a\u202eb", "2027-01-01T00:00:00"
SAME_NAME = f"version: 1\nholds:\n  - {HOLD}\nrules:\n  - {RULE.replace('name: a', 'name: h')}\n"
MANY = ", ".join(f"a{number}" for number in range(257))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.yaml:1: the file is empty (begin with `version: 1`)"),
        ("- 1\n", "p.yaml:1: the file: list does not fit"),
        ("rules: []\n", "p.yaml:1: version is missing (write `version: 1`)"),
        ("version: 2\n", "p.yaml:1: version: this Sexton does not read version 2"),
        ("version: one\n", "p.yaml:1: version: 'one' does not fit (write `version: 1`)"),
        ("version: 1\nversion: 1\n", "p.yaml:2: the key 'version' comes twice, first in line 1"),
        (
            "version: 1\n---\nversion: 1\n",
            "p.yaml:2: not valid YAML for a policy: expected a single document in the stream, but found another "
            "document",
        ),
        ("version: 1\nrulez: []\n", "p.yaml:2: unknown key 'rulez' (did you mean rules?)"),
        ("version: 1\nqqqq: []\n", "p.yaml:2: unknown key 'qqqq' (known: version, limits, holds, rules, tests)"),
        ("version: 1\nrules: 5\n", "p.yaml:2: rules: '5' does not fit (a list of rules"),
        ("version: 1\nrules:\n", "p.yaml:2: `rules` has no value"),
        ("version: 1\n? [a]\n: b\n", "p.yaml:2: a key that is not text"),
        ("version: 1\nrules: [\n", "p.yaml:3: not valid YAML for a policy"),
        ("version: 1\n\tx: 1\n", "p.yaml:2: not valid YAML for a policy"),
        ("version: 1\n# \x00\n", "p.yaml:2: not valid YAML for a policy: a character that YAML does not allow: U+0000"),
        ("version: !!int 1\n", "p.yaml:1: a tag: 'tag:yaml.org,2002:int'"),
        ("version: !!python/object/apply:os.system [id]\n", "p.yaml:1: a tag: 'tag:yaml.org,2002:python/object"),
        ("version: &a 1\n", "p.yaml:1: an anchor: &a"),
        ("version: 1\nrules: *a\n", "p.yaml:2: an alias: *a"),
        ("version: 1\n<<: {rules: []}\n", "p.yaml:2: unknown key '<<'"),
        ("version: 1\nx: " + "[" * 40, "p.yaml:2: not valid YAML for a policy: nested more than 12 deep"),
        ("version: 1\n#" + "x" * MAX_BYTES, "p.yaml:1: the file has"),
        ("version: 1\nlimits: {max_offsets: -1}\n", "p.yaml:2: limits.max_offsets: '-1' does not fit (a whole number"),
        ("version: 1\nlimits: {max_offsets: 1.5}\n", "limits.max_offsets: '1.5' does not fit"),
        ("version: 1\nlimits: {max_share_of_groups: 1.1}\n", "limits.max_share_of_groups: '1.1' does not fit (a share"),
        ("version: 1\nlimits: {max_share_of_groups: nan}\n", "limits.max_share_of_groups: 'nan' does not fit"),
        ("version: 1\nlimits: {max_share_of_owner: 50%}\n", "limits.max_share_of_owner: '50%' does not fit"),
        ("version: 1\nlimits: {max_groups: }\n", "p.yaml:2: `max_groups` has no value"),
        (in_rule("name: a", "name: A b"), "p.yaml:3: rules[1].name: 'A b' does not fit (lower-case letters"),
        (in_rule("name: a, ", ""), "p.yaml:3: rules[1].name is missing"),
        (in_rule("owner: o, ", ""), "rules[1].owner is missing (the team or person who answers for it)"),
        (
            in_rule("reason: r", f'reason: "{HIDDEN}"'),
            f"rules[1].reason: '{HIDDEN}' has characters that cannot be seen",
        ),
        (in_rule("reason: r", 'reason: ""'), "rules[1].reason: '' does not fit"),
        (in_rule("1d", "soon"), "rules[1].retention: 'soon' is no duration (such as 90m, 36h, 7d"),
        (in_rule("retention: 1d", "retention: 0"), "'0' is not between a minute and a hundred years"),
        (in_rule("retention: 1d", "retention: [1d]"), "rules[1].retention: list is no duration"),
        (in_rule("retention: 1d, ", ""), "rules[1].retention is missing (a duration, such as"),
        (in_rule("{group: g}", "{}"), "rules[1].match: an empty `match` (to match every group, write regex: '.*')"),
        (in_rule("group: g", "group: []"), "rules[1].match.group: an empty list matches nothing"),
        (in_rule("group: g", "group: {a: b}"), "rules[1].match.group[1]: dict does not fit (a group id"),
        (in_rule("group: g", "prefix: ''"), "rules[1].match.prefix: an empty prefix matches every group"),
        (in_rule("group: g", "prefix: [a, '']"), "rules[1].match.prefix: an empty prefix matches every group"),
        (in_rule("group: g", "prefix: "), "`prefix` has no value (give one, or leave the key out)"),
        (in_rule("group: g", "regex: ''"), "an empty pattern matches only the group without a name (write group: '')"),
        (in_rule("group: g", "regex: (a"), "rules[1].match.regex: '(a' is not an RE2 regular expression: missing )"),
        (in_rule("group: g", "regex: (a)\\1"), "is not an RE2 regular expression: invalid escape sequence"),
        (in_rule("group: g", "regex: '(?=a)'"), "is not an RE2 regular expression: invalid perl operator"),
        (in_rule("group: g", 'regex: "\\ud800"'), "p.yaml:3: half a character (a lone surrogate) (write the whole"),
        (in_rule("group: g", f"regex: {'a' * 1001}"), "has 1001 characters, more than 1000"),
        (in_rule("group: g", "regex: '.{700}'"), "instructions, more than 2000"),
        (in_rule("group: g", "type: classic"), "no type is called 'classic' (one or more of Classic, Consumer, Share"),
        (in_rule("group: g", "state: Idle"), "no state is called 'Idle' (one or more of Empty, Stable"),
        (in_rule("group: g", "orphan: gone"), "no orphan is called 'gone' (one or more of topic_gone"),
        (in_rule("group: g", "idle: 7"), None),
        (in_rule("group: g", "idle: x"), "rules[1].match.idle: 'x' is no duration"),
        (in_rule("reason: r", "reason: r, until: 2027-01-01T00:00:00Z"), "unknown key 'until'"),
        (in_hold("reason: r", "reason: r, retention: 1d"), "unknown key 'retention'"),
        (in_hold("kind: legal", "kind: moral"), "holds[1].kind: 'moral' does not fit (legal or operational)"),
        (in_hold("reason: r", "reason: r, until: 2027-01-01"), "'2027-01-01' has no time or no zone"),
        (in_hold("reason: r", f"reason: r, until: {NO_ZONE}"), "has no time or no zone (with a time and a zone"),
        (in_hold("reason: r", "reason: r, until: never"), "holds[1].until: 'never' is no instant"),
        (in_hold("reason: r", "reason: r, keep: no"), "holds[1].keep: 'no' is no duration"),
        (in_hold("reason: r", "reason: r, restore: true"), "holds[1].restore: `restore` without `keep`"),
        (
            in_hold("group: g}", "type: Classic}, keep: true, restore: true"),
            "holds[1].match.type: a hold that restores cannot match by type",
        ),
        (in_hold("group: g", "idle: 7d"), "holds[1].match.idle: a hold cannot match by idle: it would end when"),
        (in_hold("group: g", "state: Empty"), "a hold cannot match by state"),
        (in_hold("group: g", "group: g, orphan: topic_gone"), "a hold cannot match by orphan"),
        (f"version: 1\nrules:\n  - {RULE}\n  - {RULE}\n", "p.yaml:4: rules[2].name: two are called 'a'"),
        (SAME_NAME, "p.yaml:5: rules[1].name: two are called 'h'"),
        (in_rule("group: g", f"regex: [{MANY}]"), "more than 256 regular expressions"),
        ("version: 1\ntests: [{name: x}]\n", "tests[1].group is missing (a mapping of id, type, state, idle)"),
        (in_test("id: g", "go"), "tests[1].expect.verdict: 'go' does not fit (keep, expire or hold)"),
        (in_test("id: g, stat: Empty", "keep"), "unknown key 'stat' (did you mean state?)"),
    ],
)
def test_mistakes(text, said):
    if said is None:
        parse_policy(text, where="p.yaml")
        return
    told = mistakes(text)
    assert any(said in line for line in told), told
    assert all(line.startswith("p.yaml:") and line.endswith(")") and line.isprintable() for line in told)


def test_every_mistake_is_told_with_its_line():
    text = """\
version: 1
limits:
  max_offsets: many
rules:
  - name: a
    match:
      prefix: x
      typ: Classic
    retention: 1 day
    owner: o
  - name: b
    match: {group: g}
    retention: 1d
    retention: 2d
    owner: o
    reason: &r r
"""
    assert [line.split(" (")[0] for line in mistakes(text)] == [
        "p.yaml:3: limits.max_offsets: 'many' does not fit",
        "p.yaml:5: rules[1].reason is missing",
        "p.yaml:8: unknown key 'typ'",
        "p.yaml:9: rules[1].retention: '1 day' is no duration",
        "p.yaml:14: the key 'retention' comes twice, first in line 13",
        "p.yaml:16: an anchor: &r",
    ]


def test_the_error_says_it_all_in_one_line():
    with pytest.raises(PolicyError) as caught:
        parse_policy("versio: 1\n", where="p.yaml")
    assert caught.value.exit_code == 2
    assert str(caught.value) == (
        "p.yaml: 2 mistakes: p.yaml:1: version is missing (write `version: 1`); "
        "p.yaml:1: unknown key 'versio' (did you mean version?)"
    )
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.diagnostics) == (str(caught.value), caught.value.diagnostics)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_policy(tmp_path / "absent.yaml")
    with pytest.raises(UsageError, match="Is a directory"):
        read_policy(tmp_path)
    (tmp_path / "latin").write_bytes(b"version: 1\n# \xe9\n")
    with pytest.raises(UsageError, match="latin:2: not UTF-8"):
        read_policy(tmp_path / "latin")
    (tmp_path / "large").write_bytes(b"#" * (MAX_BYTES + 1) + b"\xff")
    with pytest.raises(PolicyError, match="large:1: the file has"):
        read_policy(tmp_path / "large")
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbfversion: 1\n")
    assert read_policy(tmp_path / "bom") == parse_policy("version: 1\n", where="")


def test_text_stays_what_stands_there():
    """YAML would make a number, a date, a boolean of these."""
    words = ["123", "no", "2026-11-21", "1e3", "0x1f", "12:30", "yes", "1_000"]
    policy = parse_policy(in_rule("group: g", f"group: [{', '.join(words)}]"), where="")
    assert set(policy.rules[0].match.group) == set(words)
    quoted = parse_policy(in_rule("group: g", "group: ['', 'null', \"~\"]"), where="")
    assert set(quoted.rules[0].match.group) == {"", "null", "~"}


def test_what_json_escapes_is_one_character():
    policy = parse_policy(in_rule("group: g", r'group: "\ud83d\ude00"'), where="")
    assert policy.rules[0].match.group == ("\U0001f600",)


ONE = """\
version: 1
rules:
  - {name: a, match: {prefix: [x, y]}, retention: 48h, owner: o, reason: r}
  - {name: b, match: {group: g, idle: 1440}, retention: P1W, owner: o, reason: r}
"""
SAME = """\
# the same, written otherwise
rules:
  - retention: 2d
    reason: r
    owner: o
    match:
      prefix: ["y", x, "x"]
    name: a
  - {name: b, match: {idle: 1d, group: [g]}, retention: 10080, owner: o, reason: r}
limits: {max_offsets: 10000}
version: 1
tests:
  - {name: t, group: {id: x}, expect: {verdict: expire}}
"""
HASH = "37d1f5da97a47e362b73c71d2be49ca6fbd859f404140f6368d869b627480444"
"""Pinned: plans name it, so it must not change with a release that changes no meaning."""


def test_the_hash_is_of_what_is_meant():
    one, same = (parse_policy(text, where="") for text in (ONE, SAME))
    assert one.canonical == same.canonical
    assert one.sha256 == same.sha256 == HASH
    assert Policy.from_canonical(one.canonical) == one
    head, *rules = ONE.splitlines()[1:]
    for text in (
        "\n".join(["version: 1", head, *reversed(rules)]),
        ONE.replace("48h", "49h"),
        ONE.replace("owner: o", "owner: p", 1),
        ONE + "limits: {max_groups: 1}\n",
    ):
        assert parse_policy(text, where="").sha256 != one.sha256


@SOME
@given(policies())
def test_the_canonical_form_is_the_policy(policy):
    assert Policy.from_canonical(policy.canonical) == policy
    assert Policy.from_canonical(policy.canonical).sha256 == policy.sha256


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("90m", 90 * MINUTE_MS),
        ("36h", 36 * HOUR_MS),
        ("7d", 7 * DAY_MS),
        ("2w", 14 * DAY_MS),
        ("1d12h", 36 * HOUR_MS),
        ("1w1d1h1m", 8 * DAY_MS + HOUR_MS + MINUTE_MS),
        ("P7D", 7 * DAY_MS),
        ("P2W", 14 * DAY_MS),
        ("PT36H", 36 * HOUR_MS),
        ("P1DT12H30M", 36 * HOUR_MS + 30 * MINUTE_MS),
        ("10080", 7 * DAY_MS),
        ("36525d", 36_525 * DAY_MS),
    ],
)
def test_durations(text, length_ms):
    assert parse_duration(text) == length_ms
    assert parse_duration(duration_text(length_ms)) == length_ms


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "0", "0m", "-1", "1.5h", "7 d", "7D", "1h1d", "1s", "P1M", "P1Y", "٣d", "36526d", "9" * 99],
)
def test_no_durations(text):
    with pytest.raises(ValueError):
        parse_duration(text)


@SOME
@given(st.integers(1, 36_525 * 1440))
def test_durations_come_back(minutes):
    assert parse_duration(duration_text(minutes * MINUTE_MS)) == minutes * MINUTE_MS


@SOME
@given(st.datetimes(timezones=st.timezones()))
def test_instants_come_back(moment):
    at_ms = parse_instant(moment.isoformat())
    assert parse_instant(instant_text(at_ms)) == at_ms


def test_instants_beyond_the_calendar():
    assert instant_text(1 << 62) == f"{1 << 62} ms"
    assert instant_text(1_500) == "1970-01-01T00:00:01.500Z"


@pytest.mark.parametrize(("text", "until_ms"), [("true", (1 << 63) - 1), ("30d", 5 + 30 * DAY_MS)])
def test_a_hold_that_keeps(text: str, until_ms: int) -> None:
    policy = parse_policy(in_hold("reason: r", f"reason: r, keep: {text}"), where="p.yaml")
    (hold,) = policy.holds
    assert hold.keeps_until_ms(5) == until_ms
    assert f'"keep":"{text}"' in policy.canonical
    assert Policy.from_canonical(policy.canonical) == policy
    (plain,) = parse_policy(in_hold("reason: r", "reason: r"), where="p.yaml").holds
    assert plain.keeps_until_ms(5) is None
    assert policy.sha256 != parse_policy(in_hold("reason: r", "reason: r"), where="p.yaml").sha256
    restores = parse_policy(in_hold("reason: r", f"reason: r, keep: {text}, restore: true"), where="p.yaml")
    assert Policy.from_canonical(restores.canonical) == restores
    assert (restores.holds[0].restore, hold.restore) == (True, None)
    assert restores.sha256 != policy.sha256
    assert "restore" not in policy.canonical  # whose hash is as before
