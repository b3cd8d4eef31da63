"""What every command has in common: examples, machine output, exit codes, completion, and the page of it all."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer

from scripts.docs import cli_page as page
from sexton import cli, errors
from sexton.cli import progress
from sexton.cli.exit_codes import CODES, INTERRUPTED, ORDER

ROOT = typer.main.get_command(cli.app)
SEXTON = str(Path(sys.executable).with_name("sexton"))


def commands(group: Any = ROOT, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Everything that answers to --help, groups of commands, too."""
    for name, command in group.commands.items():
        yield (*before, name), command
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)


every_command = pytest.mark.parametrize(
    "words, command", [pytest.param(*each, id=" ".join(each[0])) for each in commands()]
)


@every_command
def test_help_has_an_example_of_the_command(words: tuple[str, ...], command: Any) -> None:
    assert command.help
    assert re.search(rf"^sexton {' '.join(words)}\b", command.epilog or "", flags=re.MULTILINE)


@every_command
def test_every_command_answers_machines(words: tuple[str, ...], command: Any) -> None:
    if not hasattr(command, "commands"):
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--json", "--json-schema", "--progress-json", "--debug"} <= options
        assert all(parameter.help for parameter in command.params if parameter.name != "help")


def test_the_page_tells_every_command_and_code() -> None:
    told = set(re.findall(r"^## sexton (.+)$", page(), flags=re.MULTILINE))
    assert told == {" ".join(words) for words, command in commands() if not hasattr(command, "commands")}
    assert all(f"| {code} | {short} |" in page() for code, (short, _) in CODES.items())


def test_every_error_has_a_code_that_is_told() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SextonError)]
    assert {kind.exit_code for kind in kinds} == set(ORDER)
    assert set(CODES) == {0, *ORDER, INTERRUPTED}


@pytest.mark.parametrize(
    "typed, offered",
    [
        ("ar", {"archive"}),
        ("archive ", {"ls", "verify", "import"}),
        ("apply x --sink ", {"dry_run", "coordinator", "log"}),
        ("audit --profile g", {"group_coordinator", "group_metadata_manager"}),
        ("plan --ret", {"--retention-minutes"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str, typed: str, offered: set[str]
) -> None:
    line = f"sexton {typed}"
    monkeypatch.setenv("_SEXTON_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 0
    assert {word for word in re.findall(r"[\w-]+", capsys.readouterr().out) if word in offered} == offered


@pytest.mark.parametrize(
    "shell, first", [("bash", "_sexton_completion()"), ("zsh", "#compdef sexton"), ("fish", "complete")]
)
def test_completion_is_installed(tmp_path: Path, shell: str, first: str) -> None:
    """As a user of that shell does it, in a home of our own; which shell asks is told, not found out."""
    given = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run([SEXTON, "--show-completion", shell], env=given, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(first)
    subprocess.run([SEXTON, "--install-completion", shell], env=given, capture_output=True, text=True, check=True)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_text().strip() == shown.stdout.strip()]
    assert kept


@pytest.mark.parametrize("is_quiet", [False, True])
def test_progress_is_for_terminals_and_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_quiet: bool
) -> None:
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.working("Reading", is_quiet=is_quiet), progress.bar("Groups", is_quiet=True):
        pass
    with progress.bar("Groups", is_quiet=is_quiet) as tell:
        tell(1, 2)
    told = terminal.getvalue()
    assert ("Reading" in told, "1/2" in told) == (not is_quiet, not is_quiet)
    monkeypatch.undo()
    with progress.working("Reading", is_quiet=False), progress.bar("Groups", is_quiet=False) as tell:
        tell(1, 2)
    assert capsys.readouterr() == ("", "")


def test_json_stays_json_beside_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--failpoints", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
