"""Reads policy files and reports all errors with their file, line and fix."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sexton.errors import UsageError
from sexton.policy.diagnostics import Diagnostic, PolicyError, shown
from sexton.policy.model import Policy
from sexton.policy.strict_yaml import MAX_BYTES, Loc, YamlDocument, read_document
from sexton.policy.testing_schema import PolicyTestFile

M = TypeVar("M", bound=BaseModel)


def read_policy(path: Path) -> Policy:
    """Return the policy of a file; UsageError if it cannot be read, PolicyError with all errors if it is invalid."""
    return policy_of(open_document(path))


def parse_policy(text: str, *, where: str) -> Policy:
    """Return the policy of a text. Diagnostics name `where` as the file."""
    return policy_of(read_document(text, where=where))


def policy_of(document: YamlDocument) -> Policy:
    """Return the policy of a document; PolicyError with all errors if it is invalid."""
    return _validated(Policy, document)


def read_tests(path: Path) -> PolicyTestFile:
    """Return the tests of a file without a policy; errors as for a policy."""
    return _validated(PolicyTestFile, open_document(path))


def open_document(path: Path) -> YamlDocument:
    """Parse a file as YAML with lines; UsageError if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(error.strerror or "cannot be read", where=path, fix="a policy is a YAML file") from None
    try:
        text = data.decode("utf-8-sig", errors="strict" if len(data) <= MAX_BYTES else "replace")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError("not UTF-8", where=f"{path}:{line}", fix="save the file as UTF-8") from None
    return read_document(text, where=str(path))


def _validated(model: type[M], document: YamlDocument) -> M:
    found: M | None = None
    diagnostics = list(document.diagnostics)
    if document.is_read:
        try:
            found = model.model_validate(document.value)
        except ValidationError as error:
            # A model error in a line with a YAML error is only a consequence.
            reported = {diagnostic.line for diagnostic in diagnostics}
            further = [_diagnostic(model, document, dict(one)) for one in error.errors(include_url=False)]
            diagnostics += [diagnostic for diagnostic in further if diagnostic.line not in reported]
    if diagnostics or found is None:
        raise PolicyError(sorted(diagnostics, key=lambda diagnostic: diagnostic.line))
    return found


def _diagnostic(model: type[BaseModel], document: YamlDocument, error: dict[str, Any]) -> Diagnostic:
    context = error.get("ctx") or {}
    loc: Loc = (*error["loc"], *context.get("at", ()))
    what, fix = _sentence(model, loc, error, context)
    return Diagnostic(where=document.where, line=document.line_of(loc), what=what, fix=fix)


def _sentence(model: type[BaseModel], loc: Loc, error: dict[str, Any], context: dict[str, Any]) -> tuple[str, str]:
    """Return what is wrong and the fix."""
    path = _path(loc)
    if error["type"] == "policy":
        return (f"{path}: {context['what']}" if loc else context["what"]), context["fix"]
    if error["type"] == "extra_forbidden":
        known = _keys(model, loc[:-1])
        near = get_close_matches(str(loc[-1]), known, n=1)
        return f"unknown key {shown(loc[-1])}", f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    field = _field(model, loc)
    fix = (field.description if field else None) or "see the documentation of policies"
    if error["type"] == "missing":
        return f"{path} is missing", fix
    return f"{path}: {shown(error['input'])} does not fit", fix


def _path(loc: Loc) -> str:
    """Return a location as text: `rules[2].match.prefix`, counted from 1."""
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".") or "the file"


def _field(model: type[BaseModel], loc: Loc) -> FieldInfo | None:
    """Return the field at or around a location."""
    found: FieldInfo | None = None
    inside: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, str) and inside is not None:
            fields = inside.model_fields.items()
            found = next((field for name, field in fields if part in (field.alias, name)), None)
            inside = None if found is None else _model_in(found.annotation)
    return found


def _keys(model: type[BaseModel], loc: Loc) -> list[str]:
    field = _field(model, loc)
    inside = model if field is None else _model_in(field.annotation) or model
    return [field.alias or name for name, field in inside.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation such as `tuple[Rule, ...]` or `Match | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
