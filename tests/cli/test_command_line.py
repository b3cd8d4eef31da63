"""The command line: exit codes, one-line errors, what it refuses, what it prints. The audit itself is a double here."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sexton import __version__
from sexton.cli.audit import MARKER, claim
from sexton.cli.options import parse_instant
from sexton.errors import BrokerError, DownloadError, NoCoverage, Refused, SetupError, SextonError, UsageError
from sexton.runs.folder import RunFolder
from tests.cli.conftest import Run
from tests.report.run_folder import AS_OF_MS, due, group, offsets_of, write_run_folder

Audited = Callable[[Any], list[Any]]
BAD = {"undecodable_records": [{"log_partition": 0, "reason": "bad_crc"}]}
FAILED = {"dq_results": [{"table": "t", "expectation": "e", "severity": "critical", "success": False}]}
DUE = {"groups": [group("g", 1)], "offset_verdicts": [due("g", 0)], "committed_offsets": offsets_of([due("g", 0)])}


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> Audited:
    """Make the audit leave these tables behind, or raise this error; returns the requests that it was given."""

    def install(ending: Any) -> list[Any]:
        requests: list[Any] = []

        def double(engine: object, replay: Any, out: Path, policy: object) -> SimpleNamespace:
            requests.append(replay)
            if isinstance(ending, BaseException):
                raise ending
            RunFolder(out).reset()
            write_run_folder(out, ending, source=(replay.segments or [replay.archive])[0])
            return SimpleNamespace(profile_doubts=())

        monkeypatch.setattr("sexton.pipeline.standalone.run_audit", double)
        monkeypatch.setattr("sexton.runs.processes.engine_here", lambda **_: nullcontext())
        return requests

    return install


@pytest.mark.parametrize(
    "tables, code",
    [({}, 0), (DUE, 0), (FAILED, 3), (BAD, 5), ({**BAD, **FAILED}, 5)],
    ids=["empty", "fine", "data quality", "undecodable", "undecodable before data quality"],
)
def test_exit_code_of_a_finished_audit(
    run: Run, audited: Audited, tmp_path: Path, tables: Mapping[str, Any], code: int
) -> None:
    audited(tables)
    got, out, err = run("audit", "--segments", tmp_path / "in", "--out", tmp_path / "out")
    assert got == code, err
    assert str(tmp_path / "out" / "report.html") in out
    for name in ("report.html", "summary.json", "run.json"):
        assert (tmp_path / "out" / name).is_file()
    assert err.count("\n") == bool(code)
    assert err.startswith("error: ") == bool(code)


@pytest.mark.parametrize(
    "error, code, line",
    [
        (SextonError("what", where="where", fix="mend"), 1, "error: where: what (mend)\n"),
        (BrokerError("away"), 1, "error: away\n"),
        (DownloadError("lost"), 1, "error: lost\n"),
        (UsageError("no"), 2, "error: no\n"),
        (SetupError("no Java"), 2, "error: no Java\n"),
        (NoCoverage("too early", where="archive"), 4, "error: archive: too early\n"),
        (Refused("held"), 6, "error: held\n"),
        (ValueError("first\nsecond"), 1, "error: ValueError: first (--debug shows where)\n"),
        (OSError(28, "No space left on device", "/full"), 1, "error: /full: No space left on device\n"),
        (SextonError("two\nlines\x1b[31m"), 1, "error: two lines‹U+001B›[31m\n"),
        (SextonError("gone", where="s3://key:canary@bucket"), 1, "error: s3://***@bucket: gone\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_is_one_line(
    run: Run, audited: Audited, tmp_path: Path, error: BaseException, code: int, line: str
) -> None:
    audited(error)
    assert run("audit", "--archive", tmp_path / "in", "--out", tmp_path / "out") == (code, "", line)


@pytest.mark.parametrize(
    "error, fields",
    [
        (
            Refused("held", where="plan\n", fix="wait"),
            {"error": "held", "where": "plan\n", "fix": "wait", "exit_code": 6},
        ),
        (ValueError("no"), {"error": "ValueError: no", "where": None, "fix": "--debug shows where", "exit_code": 1}),
        (KeyboardInterrupt(), {"error": "interrupted", "where": None, "fix": None, "exit_code": 130}),
    ],
    ids=["ours", "another", "interrupted"],
)
def test_with_json_an_error_is_json(
    run: Run, audited: Audited, tmp_path: Path, error: BaseException, fields: dict[str, object]
) -> None:
    audited(error)
    code, out, err = run("audit", "--archive", tmp_path / "in", "--out", tmp_path / "out", "--json")
    assert (code, out, err.count("\n"), json.loads(err)) == (fields["exit_code"], "", 1, fields)


def test_debug_shows_the_traceback(run: Run, audited: Audited, tmp_path: Path) -> None:
    audited(ValueError("why"))
    for argv in (["audit", "--debug"], ["--debug", "audit"]):
        code, _, err = run(*argv, "--segments", tmp_path / "in", "--out", tmp_path / "out")
        assert code == 1
        assert "Traceback" in err
        assert err.endswith("error: ValueError: why (--debug shows where)\n")


def test_what_the_audit_is_asked(run: Run, audited: Audited, tmp_path: Path) -> None:
    requests = audited(DUE)
    topics = tmp_path / "topics.jsonl"
    topics.touch()
    options = ["--retention-minutes", 5, "--profile", "group_coordinator:4.1", "--topics", topics]
    instants = ["--as-of", "2023-11-14T22:13:20Z", "--taken-at", AS_OF_MS + 5]
    assert run("audit", "--segments", tmp_path / "in", "--out", tmp_path / "out", *options, *instants)[0] == 0
    assert run("audit", "--archive", "s3://bucket/x", "--out", tmp_path / "out")[0] == 0
    first, second = requests
    assert (first.segments, first.archive) == ([str(tmp_path / "in")], None)
    assert (first.as_of_ms, first.taken_at_ms, first.retention_minutes) == (AS_OF_MS, AS_OF_MS + 5, 5)
    assert (first.profile, first.topics_file) == ("group_coordinator:4.1", str(topics))
    assert (second.segments, second.archive, second.as_of_ms) == (None, "s3://bucket/x", None)
    assert second.taken_at_ms > AS_OF_MS
    assert first.run_id != second.run_id


def test_json_is_all_that_stdout_gets(run: Run, audited: Audited, tmp_path: Path) -> None:
    audited({**DUE, **BAD})
    code, out, err = run("audit", "--segments", tmp_path / "in", "--out", tmp_path / "out", "--json")
    told = json.loads(out)
    assert code == told["exit_code"] == 5
    assert told["expiring"]["buckets"][0] == {"label": "now", "up_to_ms": 0, "offsets": 1}
    assert out == (tmp_path / "out" / "summary.json").read_text("ascii")
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    "argv, said",
    [
        ([], "--out"),
        (["--out", "o"], "--segments DIR or --archive URI"),
        (["--segments", "a", "--archive", "b", "--out", "o"], "--segments DIR or --archive URI"),
        (["--segments", "a", "--out", "o", "--policy", "absent"], "absent: No such file or directory"),
        (["--segments", "a", "--out", "o", "--as-of", "soon"], "--as-of: not an instant: 'soon'"),
        (["--segments", "a", "--out", "o", "--as-of", "-1"], "--as-of: out of range"),
        (["--segments", "a", "--out", "o", "--as-of", "1", "--as-of", "2"], "--as-of: given 2 times"),
        (["--segments", "a", "--out", "o", "--taken-at", str(2**63)], "--taken-at: out of range"),
        (["--segments", "a", "--out", "o", "--retention-minutes", "0"], "--retention-minutes"),
        (["--segments", "a", "--out", "o", "--retention-minutes", "x"], "--retention-minutes"),
        (["--segments", "a", "--out", "o", "--retention-minutes", str(2**31)], "--retention-minutes: too long"),
        (["--segments", "a", "--out", "o", "--profile", "coordinator"], "--profile: unknown profile 'coordinator'"),
        (["--segments", "a", "--out", "o", "--profile", "offset_manager:"], "--profile: not a release: ''"),
        (["--segments", "a", "--out", "o", "--topics", "absent"], "absent: no such file"),
        (["--segments", "a", "--out", "o", "--full"], "--full: only an archive has clusters and checkpoints"),
        (["--segments", "a", "--out", "o", "--cluster-id", "x"], "--cluster-id: only an archive has clusters"),
        (["--segments", "a", "--out", "o", "--nope"], "No such option"),
        (["--segments", "a", "--out", "o", "more"], "unexpected extra argument"),
        (["--segments", "same", "--out", "same"], "same: overlaps the input"),
        (["--segments", "a", "--out", "a/b"], "a/b: overlaps the input"),
        (["--archive", "a/b", "--out", "a"], "a: overlaps the input"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",
)
def test_usage(
    run: Run, audited: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    requests = audited({})
    code, out, err = run("audit", *argv)
    assert (code, out) == (2, "")
    assert said in err
    assert re.fullmatch(r"error: [^\n]+\n", err)
    assert requests == []
    assert list(tmp_path.iterdir()) == [], "nothing is made before the options are understood"


@pytest.mark.parametrize("argv", [["nope"], ["policy", "nope"], ["--nope"]])
def test_unknown_words(run: Run, argv: list[str]) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: No such [^\n]+\n", err)


def _with_link(out: Path) -> None:
    write_run_folder(out)
    (out.parent / "elsewhere").mkdir()
    (out / "dq").symlink_to(out.parent / "elsewhere")


def _with_notes(out: Path) -> None:
    write_run_folder(out)
    (out / "notes.md").write_text("mine")


def _like_a_run(out: Path) -> None:
    (out / "groups").mkdir(parents=True)
    (out / "run.json").write_text("[]")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda out: out.write_text("x"), "is not a folder"),
        (lambda out: (out / "precious").mkdir(parents=True), "out: holds 'precious'"),
        (lambda out: (out / "groups").mkdir(parents=True), "is not empty"),
        (_like_a_run, "is not empty"),
        (_with_link, "holds 'dq'"),
        (_with_notes, r"holds 'notes\.md'"),
    ],
    ids=["a file", "something else", "a table alone", "what only looks like a run", "a link", "a run with notes"],
)
def test_out_that_is_not_ours_is_left_alone(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    make(tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=said):
        claim(tmp_path / "out", apart_from=())
    assert sorted(tmp_path.rglob("*")) == before


def test_an_earlier_run_is_replaced(run: Run, audited: Audited, tmp_path: Path) -> None:
    audited(DUE)
    argv = ("audit", "--segments", tmp_path / "in", "--out", tmp_path / "out")
    assert run(*argv)[0] == 0
    stale = tmp_path / "out" / "batches" / "7.log"
    stale.parent.mkdir()
    stale.write_bytes(b"x")
    assert run(*argv)[0] == 0
    assert not stale.exists()


def test_a_run_that_was_killed_can_be_replaced(tmp_path: Path) -> None:
    claim(tmp_path / "out", apart_from=())
    (tmp_path / "out" / "fold").mkdir()
    claim(tmp_path / "out", apart_from=())
    assert (tmp_path / "out" / MARKER).is_file()


def test_a_run_of_the_pipeline_is_a_run_too(tmp_path: Path) -> None:
    write_run_folder(tmp_path)
    (tmp_path / "outcome").mkdir()
    claim(tmp_path, apart_from=[tmp_path.parent / "somewhere"])


@pytest.mark.parametrize(
    "text, at_ms",
    [
        ("0", 0), ("1700000000000", AS_OF_MS), ("2023-11-14T22:13:20Z", AS_OF_MS), ("2023-11-14 22:13:20", AS_OF_MS),
        ("2023-11-14T23:13:20+01:00", AS_OF_MS), ("2023-11-14T22:13:20.0019Z", AS_OF_MS + 1),
        ("2023-11-14", 1_699_920_000_000),
    ],
)  # fmt: skip
def test_instants(text: str, at_ms: int) -> None:
    assert parse_instant(text, "--as-of") == at_ms


def test_help_lists_what_exists(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    commands = re.findall(r"^│ (\w[\w-]*) ", out, flags=re.MULTILINE)
    expected = "apply archive audit demo diff doctor explain fetch forecast groups history incident keep lag mcp plan"
    rest = "policy rehearse replicas restore show snapshot transactions what-if"
    assert " ".join(sorted(commands)) == f"{expected} {rest}"
    assert run()[0] == 0
    for command in commands:
        code, out, err = run(command, "--help")
        assert (code, err) == (0, "")
        assert f"Usage: sexton {command}" in out


def test_help_of_audit_teaches(run: Run) -> None:
    out = run("audit", "--help")[1]
    for words in ("--segments", "--as-of", "--retention-minutes", "10080", "Examples", "sexton audit --segments"):
        assert words in out


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"sexton {__version__}\n", "")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom sexton.cli import main\ncode = main(['--help'])\n"
        "heavy = set('numba numpy pyarrow pyspark jinja2 kafka pandas airflow great_expectations'.split())\n"
        "sys.exit(f'imported {heavy & set(sys.modules)}' if heavy & set(sys.modules) else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    program = "from sexton.cli import main\nimport sys\nsys.exit(main(['--help']))"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_snapshot(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sexton.pipeline import snapshot_log

    asked = []

    def double(engine: object, request: snapshot_log.SnapshotRequest, *, now_ms: object) -> snapshot_log.TakenSnapshot:
        asked.append(request)
        return snapshot_log.TakenSnapshot(
            cluster_id="c\x1b",
            topic_id="t",
            taken_at_ms=AS_OF_MS,
            log_partitions=4,
            segments=len(asked) % 2,
            batches=3,
            size_bytes=2048,
            log_offsets=1_500,
            warnings=["log partition 1: a new lineage starts"],
        )

    monkeypatch.setattr(snapshot_log, "run", double)
    options = ["--bootstrap-servers", "a:1,b:2", "--archive", tmp_path, "--as-of", AS_OF_MS, "--cluster-id", "c"]
    code, out, err = run("snapshot", *options)
    assert (code, err) == (0, "")
    assert out.startswith(
        "1,500 log_offsets, 2.0 KiB in 1 segment from 4 log partitions of cluster c‹U+001B›, taken at"
    )
    assert "! log partition 1: a new lineage starts\n" in out
    assert asked[0].config.bootstrap_servers == "a:1,b:2"
    assert (asked[0].archive, asked[0].as_of_ms, asked[0].cluster_id) == (str(tmp_path), AS_OF_MS, "c")
    assert run("snapshot", *options)[1].startswith("nothing new from 4 log partitions")
    assert json.loads(run("snapshot", *options, "--json")[1])["segments"] == 1
