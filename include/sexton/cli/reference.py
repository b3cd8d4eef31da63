"""The page docs/cli.md, made from the commands themselves: `python -m sexton.cli.reference docs/cli.md`."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from sexton.cli import app
from sexton.cli.codes import CODES, ORDER

_HEAD = """# Command line

Made from the commands in `include/sexton/cli` by `python -m sexton.cli.reference docs/cli.md`; `sexton COMMAND --help`
says the same.

- Answers go to stdout, everything else to stderr: what is odd (`! ...`), errors, progress. Progress is drawn on a
  terminal only.
- `--json` prints one JSON document on stdout, whatever the command; `--help` shows options and examples; `--debug` adds
  the traceback to an error, which is else one line: `error: <place>: <what> (<how to mend it>)`.
- An instant is ISO 8601 (UTC where it names no zone) or epoch milliseconds. An archive is a folder or a URI.
- What no option says is a [setting](settings.md). Secrets come from files (`--client-config`), never from options.

## Exit codes

| code | | |
|---|---|---|
"""
_COMPLETION = """
## Shell completion

Commands, options and their choices, in bash, zsh, fish and PowerShell. The first installs it for the shell that asks,
the second prints it:

    sexton --install-completion
    sexton --show-completion
"""
_SHARED = frozenset({"json", "_debug", "help"})
"""Options of every command, told once."""
_MARKUP = re.compile(r"\[/?(?:b|dim)\]")


def page() -> str:
    """The whole page."""
    codes = "".join(f"| {code} | {short} | {more} |\n" for code, (short, more) in CODES.items())
    order = f"\nOf several that apply it is the first of {', '.join(map(str, ORDER))}.\n"
    root = typer.main.get_command(app)
    sections = (_section(f"sexton {name}", command) for name, command in _commands(root))
    return _HEAD + codes + order + _COMPLETION + "".join(sections)


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words after `sexton`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _section(name: str, command: Any) -> str:
    arguments = "".join(
        f" {parameter.metavar or parameter.name}"
        for parameter in command.params
        if parameter.param_type_name == "argument"
    )
    rows = [_row(parameter) for parameter in command.params if parameter.name not in _SHARED]
    table = ["| | meaning |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(
        [
            f"\n## {name}\n",
            f"`{name}{arguments} [OPTIONS]`\n",
            inspect.cleandoc(command.help) + "\n",
            *table,
            _examples(command.epilog or ""),
        ]
    )


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name
    else:
        name = " ".join(filter(None, (", ".join(parameter.opts), _value(parameter))))
    text = (parameter.help or "").strip()
    if parameter.required and parameter.param_type_name == "option":
        text += " Required."
    elif parameter.default not in (None, False, "", ()) and "Default" not in text:
        text += f" Default: {parameter.default}."
    return f"| `{_cell(name)}` | {_cell(text)} |"


def _value(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    annotation = parameter.type_descriptor.annotation
    if annotation is bool:
        return ""
    choices = getattr(annotation, "__args__", ())
    return "|".join(map(str, choices)) if choices and all(isinstance(one, str) for one in choices) else "VALUE"


def _examples(epilog: str) -> str:
    """The paragraphs of an epilog: headings, prose, and commands under what they are for."""
    told = []
    for block in epilog.strip().split("\n\n"):
        lines = [_MARKUP.sub("", line) for line in block.splitlines()]
        if block.startswith("[b]"):
            told.append(f"**{lines[0]}**\n")
        elif block.startswith("[dim]"):
            told.append("".join(f"    {line}\n" for line in lines))
        else:
            told.append("\n".join(lines) + "\n")
    return "\n".join(told)


def _cell(text: str) -> str:
    """Text that stays inside its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def main(target: Path) -> None:
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m sexton.cli.reference docs/cli.md")
    main(Path(sys.argv[1]))
