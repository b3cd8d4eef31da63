"""The page docs/settings.md, made from the settings themselves: `python -m sexton.cli.settings_reference FILE`."""

import json
import sys
import types
import typing
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from sexton.settings import PROJECT_ROOT, Settings

_HEAD = """# Settings

Made from `include/sexton/settings.py` by `python -m sexton.cli.settings_reference docs/settings.md`.

Settings are environment variables, read once by every process: the command line, Airflow's (where DAGs are parsed,
tasks run and the dashboard is served) and the jobs that it submits. All have a default under which the project runs on
one machine. Lists and mappings are JSON. Secrets are no settings: they are in Airflow's connections, in
`client.properties`, or where the drivers of databases and object stores look for them ([security](security.md)).

    SEXTON_ARCHIVE=s3://keep/offsets sexton archive ls

| variable | value | default | meaning |
|---|---|---|---|
"""
_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "folder"}


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_row(name, field) for name, field in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").split()).replace("|", "\\|").replace("<", "&lt;")
    meaning = meaning[:1].upper() + meaning[1:]
    return f"| `SEXTON_{name.upper()}` | {_type(field)} | {_default(field)} | {meaning} |\n"


def _type(field: FieldInfo) -> str:
    """What may be written, with its bounds."""
    kinds = [kind for kind in _members(field.annotation) if kind is not type(None)]
    origin = typing.get_origin(kinds[0]) or kinds[0]
    name = "JSON list" if origin is list else "JSON object" if origin is dict else _NAMES.get(origin, origin.__name__)
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


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value in (None, "", [], {}):
        return "none"
    if value == PROJECT_ROOT:
        return "the project's folder"
    return f"`{value}`" if isinstance(value, str | Path) else f"`{json.dumps(value)}`"


def main(target: Path) -> None:
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m sexton.cli.settings_reference docs/settings.md")
    main(Path(sys.argv[1]))
