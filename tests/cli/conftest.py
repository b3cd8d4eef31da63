"""Run a command in this process: its exit code and what it printed. A module whose `run` is of one command says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexton import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*argv: object) -> tuple[int, str, str]:
        code = cli.main([str(word) for word in argv])
        return code, *capsys.readouterr()

    return command


@pytest.fixture
def printed(run: Run) -> Callable[..., str]:
    """What a command prints that has to succeed and to complain of nothing."""

    def command(*argv: object) -> str:
        code, out, err = run(*argv)
        assert (code, err) == (0, ""), err
        return out

    return command


@pytest.fixture
def out_of(run: Run) -> Callable[..., str]:
    """What a command prints that has to succeed, whatever it says besides."""

    def command(*argv: object) -> str:
        code, out, err = run(*argv)
        assert code == 0, err
        return out

    return command


@pytest.fixture
def asked(printed: Callable[..., str]) -> Callable[..., Any]:
    """The JSON answer of such a command."""
    return lambda *argv: json.loads(printed(*argv, "--json"))


@pytest.fixture
def misused(refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The one line in which a command complains of its words, in a folder with nothing in it."""
    monkeypatch.chdir(tmp_path)

    def command(*argv: object) -> str:
        err = refused(2, *argv)
        assert err.count("\n") == 1
        return err

    return command


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """What a command complains of that has to end with `code` and to print nothing."""

    def command(code: int, *argv: object) -> str:
        ended, out, err = run(*argv)
        assert (ended, out) == (code, ""), err
        return err

    return command
