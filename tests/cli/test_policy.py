"""`sexton policy`: what is printed, for people and for machines, and with which exit code."""

import json

import pytest

from sexton.coordinator.partitioner import partition_of
from sexton.pipeline.find_expired import run as judge
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from tests.coordinator.golden import GOLDEN
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log
from tests.views.worlds import log_of, write_archive, write_log, write_run

RECORDING = GOLDEN / "kafka-4.3.1-plain"
SEGMENTS = ("--segments", RECORDING / "before", "--topics", RECORDING / "topics.jsonl")
DAY_MS = 86_400_000
LATER = ("--as-of", BASE_MS + 30 * DAY_MS)
ENTRY = "owner: o, reason: r"
TAKES_ALL = f"rules: [{{name: all, match: {{regex: .*}}, retention: 2d, {ENTRY}}}]\n"
HOLDS_ALL = f"holds: [{{name: stop, match: {{regex: .*}}, kind: legal, {ENTRY}}}]\n"


@pytest.fixture
def policy(tmp_path):
    """Writes a policy, and gives its path."""

    def write(text):
        file = tmp_path / "policy.yaml"
        file.write_text("version: 1\n" + text, encoding="utf-8")
        return file

    return write


def test_check_says_what_is_valid(run, printed, policy):
    file = policy(TAKES_ALL)
    out = printed("policy", "check", file)
    first, second, third = out.splitlines()
    assert first.endswith("policy.yaml: valid, 0 holds and 1 rule, 0 tests")
    assert third == "What no rule matches is kept; a policy can shorten what the broker keeps, never lengthen it."
    told = json.loads(run("policy", "check", file, "--json")[1])
    assert second == f"sha256 {told['sha256']}"
    assert (told["is_valid"], told["rules"], told["warnings"]) == (True, 1, [])
    assert told["limits"]["max_offsets"] == 10_000


def test_check_tells_every_mistake(run, refused, policy):
    file = policy("rules:\n  - {name: A, match: {prefix: ''}, retention: 1d, owner: o}\n")
    err = refused(2, "policy", "check", file)
    assert [line.split(": ", 1)[1].split(":")[0].split(" is")[0] for line in err.splitlines()[:-1]] == [
        "rules[1].name",
        "rules[1].match.prefix",
        "rules[1].reason",
    ]
    assert all(line.startswith(f"{file}:3: ") for line in err.splitlines()[:-1])
    assert err.splitlines()[-1].endswith("policy.yaml: 3 mistakes")
    code, out, err = run("policy", "check", file, "--json")
    told = json.loads(out)
    assert (code, err, told["is_valid"]) == (2, "", False)
    assert [(one["line"], one["where"]) for one in told["mistakes"]] == [(3, str(file))] * 3


def test_check_warns_of_what_the_broker_does_all_the_same(run, policy):
    file = policy(HOLDS_ALL + TAKES_ALL.replace("2d", "8d").replace(".*", "a"))
    code, out, err = run("policy", "check", file)
    assert (code, out.count("valid")) == (0, 1)
    assert "! " in err
    assert "hold stop has no end, and the broker keeps offsets for 7d: a hold stops Sexton, never the broker" in err
    assert "rule all keeps offsets for 8d, and the broker expires them after 7d" in err
    assert "rule all keeps" not in run("policy", "check", file, "--retention-minutes", 8 * 1440)[2]
    told = json.loads(run("policy", "check", file, "--json")[1])
    assert [one["line"] for one in told["warnings"]] == [2, 3, 3]


def test_test_fails_with_exit_code_3(run, policy):
    good = "{name: goes, group: {id: g}, offset: {age: 2d}, expect: {verdict: expire, rule: all}}"
    bad = "{name: stays, group: {id: g}, offset: {age: 2d}, expect: {verdict: keep}}"
    assert run("policy", "test", policy(f"{TAKES_ALL}tests: [{good}]\n")) == (0, "ok    goes\n1 of 1 test passed\n", "")
    file = policy(f"{TAKES_ALL}tests: [{good}, {bad}]\n")
    code, out, err = run("policy", "test", file)
    assert (code, err) == (3, "")
    assert "FAIL  stays: verdict expire, not keep\n      all: decides, kept for 2d from " in out
    assert out.endswith("1 of 2 tests passed\n")
    told = json.loads(run("policy", "test", file, "--json")[1])
    assert [one["holds"] for one in told["tests"]] == [True, False]
    assert told["failed"] == 1


def test_tests_of_a_file_of_their_own(run, refused, policy, tmp_path):
    file, tests = policy(TAKES_ALL), tmp_path / "tests.yaml"
    assert "no tests (add `tests:` to the policy, or give --tests FILE)" in refused(2, "policy", "test", file)
    tests.write_text("tests: [{name: x, group: {id: g}, expect: {verdict: hold}}]\n")
    assert run("policy", "test", file, "--tests", tests)[0] == 3


def test_show_says_which_rule_decides(run, policy):
    rules = f"""\
holds: [{{name: evidence, match: {{prefix: consumer-}}, kind: legal, {ENTRY}}}]
rules:
  - {{name: streams, match: {{type: Streams}}, retention: 1d, {ENTRY}}}
  - {{name: orphans, match: {{orphan: topic_gone}}, retention: 1d, {ENTRY}}}
  - {{name: dead, match: {{prefix: classic-, state: Empty, idle: 2d}}, retention: 1d, {ENTRY}}}
"""
    file = policy(rules)
    later = ("--as-of", "2026-12-21T00:00:00Z")
    code, out, err = run("policy", "show", "classic-0", "--policy", file, *SEGMENTS, *later)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ["classic-0:", "Classic,", "Empty,"]
    rows = [line for line in lines if line[:1] == ["t0"]]
    assert [(row[0], row[1], row[5], row[6], row[7]) for row in rows] == [
        ("t0", str(number), "expire", "expired", "dead") for number in range(3)
    ]
    assert [" ".join(line[:2]) for line in lines[-4:]] == [
        "evidence does", "streams does", "orphans does", "dead decides",
    ]  # fmt: skip
    assert err == ""
    told = json.loads(run("policy", "show", "consumer-0", "--policy", file, *SEGMENTS, *later, "--json")[1])
    assert {one["policy_verdict"] for one in told["decisions"]} == {"hold"}
    assert {one["considered"][0]["outcome"] for one in told["decisions"]} == {"decides"}
    assert {one["broker_verdict"] for one in told["decisions"]} == {"expire"}


def test_show_says_what_the_broker_expires_all_the_same(run, policy):
    later = ("--as-of", "2026-12-21T00:00:00Z")
    _, _, err = run("policy", "show", "classic-0", "--policy", policy(HOLDS_ALL), *SEGMENTS, *later)
    assert "! the broker expires 3 offsets that the policy keeps (held) at its next sweep: a policy" in err
    late = ("--retention-minutes", 1_000_000)
    assert run("policy", "show", "classic-0", "--policy", policy(HOLDS_ALL), *SEGMENTS, *later, *late)[2] == ""


def test_show_knows_orphans_and_open_transactions(run, policy, tmp_path):
    held = BatchSpec(entries=(commit("g", 9, topic="t"),), producer_id=1, transactional=True)
    commits = (commit("g", 5), commit("g", 5, "gone"), commit("g", 5, partition=7))
    log = encode_log([*(BatchSpec(entries=(one,)) for one in commits), held])
    topics = tmp_path / "topics.jsonl"
    topics.write_text(json.dumps({"topic": "t", "id": None, "partitions": [[0, 9]]}) + "\n")
    root = write_log(tmp_path / "log", {0: log})
    argv = ("policy", "show", "g", "--policy", policy(TAKES_ALL), "--segments", root, *LATER, "--json")
    told = json.loads(run(*argv, "--topics", topics)[1])["decisions"]
    assert [(one["topic"], one["partition"], one["orphan"], one["policy_reason"]) for one in told] == [
        ("gone", 0, "topic_gone", "expired"),
        ("t", 0, None, "pending_transaction"),
        ("t", 7, "partition_gone", "expired"),
    ]
    assert {one["orphan"] for one in json.loads(run(*argv)[1])["decisions"]} == {None}


def test_show_of_an_archive_and_of_nothing(run, policy, tmp_path, monkeypatch):
    home = partition_of("g", 2)
    archive = write_archive(tmp_path / "archive", {home: log_of(commit("g", 5))}, partition_count=2)
    file = policy(TAKES_ALL)
    argv = ("--archive", archive, "--policy", file, "--json")
    told = json.loads(run("policy", "show", "g", *argv)[1])
    assert [one["policy_rule"] for one in told["decisions"]] == ["all"]
    code, out, _ = run("policy", "show", "nobody", *argv)
    assert (code, json.loads(out)["group"], json.loads(out)["decisions"]) == (0, None, [])
    assert run("policy", "show", "nobody", *argv[:-1])[1] == "nobody: no such group\n"


def test_show_of_a_run_is_as_of_the_log(run, refused, policy, tmp_path):
    """What the run has judged, and what is judged of the log now, come to the same."""
    held = BatchSpec(entries=(commit("g", 9, partition=1),), producer_id=1, transactional=True)
    commits = (commit("g", 5), commit("g", 6, partition=1), commit("g", 7, "gone"))
    log = encode_log([*(BatchSpec(entries=(one,)) for one in commits), held])
    topics = tmp_path / "topics.jsonl"
    topics.write_text(json.dumps({"topic": "t", "id": None, "partitions": [[0, 9], [0, 9]]}) + "\n")
    log_root = write_log(tmp_path / "log", {0: log})
    as_of_ms = BASE_MS + 3 * DAY_MS
    run_root = write_run(tmp_path / "run", segments=str(log_root), topics_file=str(topics), as_of_ms=as_of_ms)
    argv = ("policy", "show", "g", "--policy", policy(TAKES_ALL), "--json")
    assert "not there (is the run complete?)" in refused(2, *argv[:-1], "--run", run_root)
    judge(SerialEngine(quiet=True), RunFolder(run_root))
    of_run = json.loads(run(*argv, "--run", run_root)[1])
    of_log = json.loads(run(*argv, "--segments", log_root, "--topics", topics, "--as-of", as_of_ms)[1])
    assert of_run["decisions"] == of_log["decisions"]
    assert of_run["group"] == of_log["group"]
    assert [one["policy_reason"] for one in of_run["decisions"]] == ["expired", "expired", "pending_transaction"]
    code, _, err = run(*argv[:-1], "--run", run_root, "--retention-minutes", 5)
    assert (code, "--retention-minutes: a run already has its own verdicts" in err) == (2, True)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["check"], "Missing argument 'FILE'"),
        (["check", "absent.yaml"], "absent.yaml: No such file or directory (a policy is a YAML file)"),
        (["test", "absent.yaml"], "absent.yaml: No such file or directory"),
        (["show"], "Missing argument 'GROUP'"),
        (["show", "g", *map(str, SEGMENTS)], "--policy: no policy (give --policy FILE, or set SEXTON_POLICY)"),
    ],
)
def test_usage(misused, argv, said):
    assert said in misused("policy", *argv)
