"""The JSON Schema (draft 2020-12) of what a command prints with --json: `schema_of`.

answers.py declares what each command prints, with the columns of tables from sexton.tables, and the fields of
dataclasses and models from their definitions. A field that may be missing has the default ABSENT; every other field is
always there, and is null where nothing is known. The schemas are open: a later version may add fields, see
docs/json.md. Tests that run a command close them, so that they fail on a field that is not declared.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from sexton.tables.table import Column, Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ABSENT: Any = None
_NULL = re.compile(r"\b(?:None|NULL)\b")
"""Words in docstrings and in the tables for what is null in JSON."""


class Answer(BaseModel):
    """Base of what a command prints, and of the objects in it that have no other declaration."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Row:
    """The rows of a table, or the fields of a dataclass, if JSON has further fields or lacks some.

    Used as `Annotated[dict[str, Any], Row(TABLE, {"more": str})]`; a field that is NotRequired may be missing. `only`
    may also name the columns that all tables share.
    """

    def __init__(
        self,
        of: Table | type,
        more: Mapping[str, Any] = MappingProxyType({}),
        *,
        only: Collection[str] = (),
        without: Collection[str] = (),
        called: str | None = None,
    ) -> None:
        declared = _columns(of.all_columns if only else of.columns) if isinstance(of, Table) else _fields(of)
        fields = {name: declared[name] for name in only or declared if name not in without}
        fields |= {name: _field(kind) for name, kind in more.items()}
        name, doc = (of.name, f"{of.grain}.") if isinstance(of, Table) else (of.__name__, of.__doc__)
        self.model: type[BaseModel] = create_model(called or name, __base__=Answer, __doc__=doc, **fields)

    def __get_pydantic_core_schema__(self, _: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(self.model)


def schema_of(command: str) -> dict[str, Any]:
    """The schema of the answer of a command, named by its words after `sexton`, such as `groups list`.

    An answer is always a JSON object, even if it has one of several shapes.
    """
    from sexton.cli.answers import ANSWERS

    return {"$schema": DIALECT, "title": f"sexton {command} --json", "type": "object", **schema(ANSWERS[command])}


def schema(declaration: Any) -> dict[str, Any]:
    """The schema of a declaration."""
    found = TypeAdapter(declaration).json_schema(mode="serialization", schema_generator=_Generator)
    return {name: _in_json(value) for name, value in found.items()}


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, for printed answers: these have every field of a dataclass or model, so no defaults."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_is_required(self, field: Any, total: bool) -> bool:
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return _open(super().dataclass_schema(schema))

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        found = _open(super().model_schema(schema))
        return found if issubclass(schema["cls"], Answer) else {**found, "required": [*found["properties"]]}


def _open(schema: JsonSchemaValue) -> JsonSchemaValue:
    """A schema that allows the further fields of later versions, even if the model forbids them as input."""
    return {name: value for name, value in schema.items() if name not in ("title", "additionalProperties")}


def _in_json(node: Any) -> Any:
    """A schema whose descriptions say null in place of None and NULL."""
    if isinstance(node, list):
        return [_in_json(one) for one in node]
    if not isinstance(node, dict):
        return node
    text = node.get("description")
    said = {"description": _NULL.sub("null", text)} if isinstance(text, str) else {}
    return {name: _in_json(value) for name, value in node.items()} | said


def _field(kind: Any) -> Any:
    return (get_args(kind)[0], ABSENT) if get_origin(kind) is NotRequired else (kind, Field())


def _fields(of: type) -> dict[str, Any]:
    hints = get_type_hints(of, include_extras=True)
    return {field.name: (hints[field.name], Field()) for field in dataclasses.fields(of)}


def _columns(columns: Iterable[Column]) -> dict[str, Any]:
    return {column.name: (_kind(column), Field(description=column.doc)) for column in columns}


def _kind(column: Column) -> Any:
    """The type of a column; an enum only if its check is critical: values that cause a warning are printed."""
    is_enum = column.allowed and column.severity == "critical"
    kind = Literal[column.allowed] if is_enum else _type(column.type, column.name)
    return kind | None if column.nullable or column.known_from is not None else kind


def _type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_list(kind):
        return list[_type(kind.value_type, name)]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        fields: dict[str, Any] = {field.name: (_type(field.type, field.name) | None, Field()) for field in kind}
        return create_model(name, **fields)
    is_a = {int: pa.types.is_integer, float: pa.types.is_floating, bool: pa.types.is_boolean, str: pa.types.is_string}
    return next(name for name, holds in is_a.items() if holds(kind))
