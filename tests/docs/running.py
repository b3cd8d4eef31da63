"""Running a documented command of ours: what its names stand for, and what has to come of it."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from sexton import cli
from sexton.settings import settings
from tests.docs.pages import ASSIGNMENT, Command

PLACES = {
    "/var/lib/kafka/data": "disk", "/var/kafka-logs": "disk", "s3://keep/offsets": "archive", "$(date +%u)/7": "1/7",
}  # fmt: skip
"""What stands in the pages, and what a test has in its place. Other relative names are those of the world's folder."""


def argv_of(command: Command, names: Mapping[str, str]) -> tuple[dict[str, str], list[str], str]:
    """Variables, the words after `sexton`, and what its output is piped into."""
    text = command.text
    for told, here in {**PLACES, **names}.items():
        text = text.replace(told, here)
    text, _, pipe = text.partition(" | ")
    words = shlex.split(text, comments=True)
    variables = {}
    while ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    return variables, words[1:], pipe


def run(
    command: Command,
    names: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    codes: tuple[int, ...] = (0,),
) -> str:
    """Run it as a user would; returns what it printed. The pipe is followed, too."""
    variables, argv, pipe = argv_of(command, names)
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        settings.cache_clear()
        try:
            code = cli.main(argv)
        except SystemExit as ended:  # completion ends so
            code = int(ended.code or 0)
    settings.cache_clear()
    out, err = capsys.readouterr()
    assert code in codes, f"{command}\n{err}"
    assert out.strip(), f"{command}\n{err}"
    if "--json" in argv:
        told = json.loads(out)
        if pipe:
            _follow(command, pipe, out, told)
    else:
        assert not pipe, f"{command}: only --json is piped"
    return out


def _follow(command: Command, pipe: str, out: str, told: Any) -> None:
    words = shlex.split(pipe, comments=True)
    assert words[0] == "jq", command
    for name in re.findall(r"\.([a-z_]\w*)", words[-1]):
        assert name in _keys(told), f"{command}: no {name} in {sorted(_keys(told))}"
    if shutil.which("jq"):
        done = subprocess.run(words, input=out, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def _keys(told: Any) -> set[str]:
    if isinstance(told, Mapping):
        return set(told) | {key for value in told.values() for key in _keys(value)}
    return {key for value in told for key in _keys(value)} if isinstance(told, list) else set()
