"""Writes the generated pages of docs/: `python scripts/docs.py`.

cli.md comes from the commands themselves, settings.md from the settings, tables.md from the declared tables. A test
fails when a page is not current.
"""

import inspect
import json
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic.fields import FieldInfo

from sexton.cli import app
from sexton.cli.exit_codes import CODES, ORDER
from sexton.settings import PROJECT_ROOT, Settings
from sexton.tables import TABLES
from sexton.tables.ddl import spark_type
from sexton.tables.table import RUN_COLUMNS, Column, Kind, Table

_CLI_HEAD = """# Command line

Made from the commands in `include/sexton/cli` by `python scripts/docs.py`; `sexton COMMAND --help`
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


def cli_page() -> str:
    """docs/cli.md: every command with its options and examples."""
    codes = "".join(f"| {code} | {short} | {more} |\n" for code, (short, more) in CODES.items())
    order = f"\nOf several that apply it is the first of {', '.join(map(str, ORDER))}.\n"
    root = typer.main.get_command(app)
    sections = (_command_section(f"sexton {name}", command) for name, command in _commands(root))
    return _CLI_HEAD + codes + order + _COMPLETION + "".join(sections)


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words after `sexton`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _command_section(name: str, command: Any) -> str:
    arguments = "".join(
        f" {parameter.metavar or parameter.name}"
        for parameter in command.params
        if parameter.param_type_name == "argument"
    )
    rows = [_option_row(parameter) for parameter in command.params if parameter.name not in _SHARED]
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


def _option_row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name
    else:
        name = " ".join(filter(None, (", ".join(parameter.opts), _option_value(parameter))))
    text = (parameter.help or "").strip()
    if parameter.required and parameter.param_type_name == "option":
        text += " Required."
    elif parameter.default not in (None, False, "", ()) and "Default" not in text:
        text += f" Default: {parameter.default}."
    return f"| `{_cell(name)}` | {_cell(text)} |"


def _option_value(parameter: Any) -> str:
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


_SETTINGS_HEAD = """# Settings

Made from `include/sexton/settings.py` by `python scripts/docs.py`.

Settings are environment variables, read once by every process: the command line, Airflow's (where DAGs are parsed,
tasks run and the dashboard is served) and the jobs that it submits. All have a default under which the project runs on
one machine. Lists and mappings are JSON. Secrets are no settings: they are in Airflow's connections, in
`client.properties`, or where the drivers of databases and object stores look for them ([security](security.md)).

    SEXTON_ARCHIVE=s3://keep/offsets sexton archive ls

| variable | value | default | meaning |
|---|---|---|---|
"""
_TYPE_NAMES = {
    **{str: "text", int: "whole number", float: "number", bool: "true or false"},
    **{Path: "folder", list: "JSON list", dict: "JSON object"},
}


def settings_page() -> str:
    """docs/settings.md: every environment variable with its type, default and meaning."""
    return _SETTINGS_HEAD + "".join(_setting_row(name, field) for name, field in Settings.model_fields.items())


def _setting_row(name: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").split()).replace("|", "\\|").replace("<", "&lt;")
    meaning = meaning[:1].upper() + meaning[1:]
    return f"| `SEXTON_{name.upper()}` | {_setting_type(field)} | {_setting_default(field)} | {meaning} |\n"


def _setting_type(field: FieldInfo) -> str:
    """What may be written, with its bounds."""
    kinds = [kind for kind in _members(field.annotation) if kind is not type(None)]
    origin = typing.get_origin(kinds[0]) or kinds[0]
    name = (
        "JSON list" if origin is list else "JSON object" if origin is dict else _TYPE_NAMES.get(origin, origin.__name__)
    )
    bounds = [
        f"{word} {getattr(limit, key)}"
        for limit in field.metadata
        for key, word in (("ge", "at least"), ("gt", "above"), ("le", "at most"))
        if getattr(limit, key, None) is not None
    ]
    return ", ".join([name, *bounds])


def _members(annotation: Any) -> list[Any]:
    is_union = isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
    return list(typing.get_args(annotation)) if is_union else [annotation]


def _setting_default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value in (None, "", [], {}):
        return "none"
    if value == PROJECT_ROOT:
        return "the project's folder"
    return f"`{value}`" if isinstance(value, str | Path) else f"`{json.dumps(value)}`"


_TABLES_HEAD = """# Tables

Made from the declarations in `include/sexton/tables` by `python scripts/docs.py`.

Kafka's fields keep Kafka's names. Names that end in `_ms` are epoch milliseconds or durations in milliseconds. NULL
means absent, and only where Kafka itself declares absence or where a column of ours does not apply; the wire's own
sign of absence (-1, an empty string, the zero id) is never stored there.

In a run folder each table is Parquet files, one a log partition, or one for the whole run. In the lake it is an Iceberg
table of the same columns, partitioned by `cluster_id` and `as_of_ms`. Read it through `runs`: a run that is not named
there is not published.
"""
_KINDS: dict[Kind, str] = {
    "snapshot": "A run replaces its own `(cluster_id, as_of_ms)`.",
    "interval": "An interval replaces its own rows.",
    "append": "Append only.",
    "index": "A run replaces its own `(cluster_id, as_of_ms)`, after all its other tables.",
}


def tables_page() -> str:
    """docs/tables.md: every table with its grain, key and columns."""
    return "\n".join(
        [_TABLES_HEAD, "## Columns of every table\n", _column_table(RUN_COLUMNS), *map(_table_section, TABLES.values())]
    )


def _table_section(table: Table) -> str:
    key = f"Key: {', '.join(f'`{name}`' for name in table.key)}. " if table.key else ""
    return "\n".join(
        [
            f"## {table.name}\n",
            f"One row is {table.grain}. {key}{_KINDS[table.kind]}",
            *([table.doc] if table.doc else []),
            "",
            _column_table(table.columns),
        ]
    )


def _column_table(columns: tuple[Column, ...]) -> str:
    cells = (
        (f"`{c.name}`", spark_type(c.type).lower(), _column_null(c), _column_cell(c.doc), _column_values(c))
        for c in columns
    )
    rows = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join(["| column | type | NULL | meaning | values |", "|---|---|---|---|---|", *rows, ""])


def _column_null(column: Column) -> str:
    if not column.nullable:
        return "never"
    return "may be" if column.absent is None else f"for `{column.absent}`" if column.absent != "" else 'for `""`'


def _column_values(column: Column) -> str:
    rules = []
    if column.allowed:
        rules.append(", ".join(column.allowed))
    if column.minimum is not None:
        rules.append(f"at least {column.minimum}")
    if column.below_cut:
        rules.append("below the cut")
    if rules and column.severity == "warning":
        rules.append("else a warning")
    return "; ".join(rules)


def _column_cell(text: str) -> str:
    """Text that stays inside its cell and is not taken for markup."""
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")


PAGES = {"cli.md": cli_page, "settings.md": settings_page, "tables.md": tables_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (PROJECT_ROOT / "docs" / name).write_text(page(), encoding="utf-8")
