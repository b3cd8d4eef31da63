"""Holds what every command that a test runs in its process prints for programs against its schema, closed.

Closed: a field that is not declared fails, so that whoever adds one declares it (cli/answers.py). It is a plugin, so
that `cli.main` is replaced before a test module takes it by its name.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, TextIO

from jsonschema import Draft202012Validator

from sexton import cli


class Tee:
    """A stream that keeps what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.kept = stream, list[str]()

    def write(self, text: str) -> int:
        self.kept.append(text)
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    @property
    def text(self) -> str:
        return "".join(self.kept)


def closed(schema: Any) -> Any:
    """A schema whose objects have the declared fields alone."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    is_open = isinstance(found.get("properties"), dict) and "additionalProperties" not in found
    return found | ({"additionalProperties": False} if is_open else {})


@cache
def validator(command: str) -> Draft202012Validator:
    from sexton.cli.json_schema import schema_of  # late: few tests run a command, and it imports what commands do

    return Draft202012Validator(closed(schema_of(command)))


@cache
def line_validator(name: str) -> Draft202012Validator:
    from sexton.cli import answers
    from sexton.cli.json_schema import schema

    return Draft202012Validator(closed(schema(getattr(answers, name))))


def command_of(argv: Sequence[str]) -> str:
    from sexton.cli.answers import ANSWERS

    return next((name for name in (" ".join(argv[:2]), argv[0]) if name in ANSWERS), "")


def complaints(command: str, out: str, err: str) -> Iterator[str]:
    """What an answer in JSON, and the lines of JSON on stderr, have that is not declared; and what they lack."""
    if out.strip():
        for error in validator(command).iter_errors(json.loads(out)):
            deepest = max([error, *(error.context or ())], key=lambda one: len(one.absolute_path))
            yield f"{deepest.json_path}: {deepest.message[:500]}"
    for line in err.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            name = "ProgressLine" if told.get("type") == "progress" else "Failure"
            yield from (f"{name}: {error.message}" for error in line_validator(name).iter_errors(told))


@contextmanager
def tees() -> Iterator[tuple[Tee, Tee]]:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err = Tee(sys.stdout), Tee(sys.stderr)  # type: ignore[assignment]
    try:
        yield out, err
    finally:
        sys.stdout, sys.stderr = before


def held(main: Any) -> Any:
    @wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        if not argv or "--json" not in argv:
            return main(argv)
        with tees() as (out, err):
            code = main(argv)
        found = [*complaints(command_of(argv), out.text, err.text)] if code != 130 else []
        assert not found, f"sexton {' '.join(argv)}\n" + "\n".join(found)
        return code

    return run


def pytest_configure() -> None:
    cli.main = held(cli.main)
