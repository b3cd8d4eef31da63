"""What programs rely on: every command has a schema, and progress comes as JSON lines.

That answers keep to their schemas is shown by every test that runs a command with --json (tests/answers.py).
"""

import json
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sexton.cli.answers import ANSWERS, Failure, ProgressLine
from sexton.cli.json_schema import schema, schema_of
from sexton.runs.progress import AS_JSON, ProgressLines
from tests.answers import complaints, line_validator
from tests.cli.conftest import Run
from tests.cli.test_reference import commands

NAMES = [" ".join(words) for words, command in commands() if any(one.name == "json" for one in command.params)]
every_answer = pytest.mark.parametrize("name", NAMES)


def test_every_answer_is_declared() -> None:
    assert sorted(NAMES) == sorted(ANSWERS)


@every_answer
def test_a_command_prints_its_schema(run: Run, name: str) -> None:
    """Whatever else it would need."""
    code, out, err = run(*name.split(), "--json-schema")
    assert (code, err, json.loads(out)) == (0, "", schema_of(name))
    assert schema_of(name)["type"] == "object"
    Draft202012Validator.check_schema(schema_of(name))


def test_a_later_version_may_add_fields() -> None:
    assert all('"additionalProperties": false' not in json.dumps(schema_of(name)) for name in NAMES)


def test_descriptions_are_in_the_words_of_json() -> None:
    told = json.dumps([schema_of(name) for name in NAMES])
    assert "null" in told
    assert [word for word in ("None", "NULL") if f" {word}" in told] == []


FIT: dict[str, Any] = {"fit": True, "checks": [{"name": "Java", "state": "ok", "found": "17", "fix": None}]}


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({}, ""),
        ({"checks": [FIT["checks"][0] | {"more": 1}]}, "not valid under any of the given schemas"),
        ({"checks": [{"name": "Java"}]}, "not valid under any of the given schemas"),
        ({"fit": None}, "not valid under any of the given schemas"),
    ],
)
def test_what_is_not_declared_is_found(change: dict[str, Any], complaint: str) -> None:
    found = [*complaints("doctor", json.dumps(FIT | change), "")]
    assert bool(found) == bool(complaint)
    assert all(complaint in one or "$.checks" in one or "$.fit" in one for one in found)


@pytest.mark.parametrize("kind, line", [(Failure, {"error": "gone"}), (ProgressLine, {"type": "progress"})])
def test_lines_are_held_against_their_schema(kind: type, line: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema(kind))
    assert [*line_validator(kind.__name__).iter_errors(line)]
    assert [*complaints("doctor", "", json.dumps(line) + "\n")]


def test_progress_as_json(run: Run, tmp_path: Path) -> None:
    code, out, err = run("demo", "--out", tmp_path / "demo", "--json", "--progress-json")
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert code == 0
    assert json.loads(out)["exit_code"] == 0
    assert lines[0] == {"type": "progress", "phase": lines[0]["phase"], "done": 0, "total": None}
    assert any(line["total"] is not None and line["done"] == line["total"] for line in lines)
    assert "progress" not in run("demo", "--out", tmp_path / "demo", "--json")[2]


def test_a_line_for_each_hundredth(capsys: pytest.CaptureFixture[str]) -> None:
    copy_context().run(tell, 10_000)
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["done"] for line in found] == [0, *range(0, 10_001, 100)]
    assert [line["total"] for line in found] == [None, *[10_000] * 101]
    copy_context().run(tell, 0)
    assert len(capsys.readouterr().err.splitlines()) == 1


def tell(total: int) -> None:
    AS_JSON.set(True)
    lines = ProgressLines("Verifying")
    for done in range(total + 1):
        lines.at(done, total)
