"""Policy files: read, checked as a whole, and every diagnostic told with its file, its line and a fix."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sexton.errors import UsageError
from sexton.policy.diagnostics import Diagnostic, PolicyError, shown
from sexton.policy.model import Policy
from sexton.policy.strict_yaml import MAX_BYTES, Document, Loc, read_document
from sexton.policy.testing_schema import PolicyTestFile

M = TypeVar("M", bound=BaseModel)


def read_policy(path: Path) -> Policy:
    """The policy of a file; UsageError where it cannot be read, PolicyError with every diagnostic in it."""
    return policy_of(open_document(path))


def parse_policy(text: str, *, where: str) -> Policy:
    """The policy that `text` is; `where` is what diagnostics are told of."""
    return policy_of(read_document(text, where=where))


def policy_of(document: Document) -> Policy:
    """The policy of a document; PolicyError with every diagnostic in it."""
    return _validated(Policy, document)


def read_tests(path: Path) -> PolicyTestFile:
    """A file of `tests:` alone; errors as for a policy."""
    return _validated(PolicyTestFile, open_document(path))


def open_document(path: Path) -> Document:
    """A file as a document with lines, not yet understood; UsageError where it cannot be read."""
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


def _validated(model: type[M], document: Document) -> M:
    found: M | None = None
    diagnostics = list(document.diagnostics)
    if document.is_read:
        try:
            found = model.model_validate(document.value)
        except ValidationError as error:
            # Where the YAML itself is wrong, what the model misses or dislikes in that line is only a consequence.
            told = {diagnostic.line for diagnostic in diagnostics}
            further = [_diagnostic(model, document, dict(one)) for one in error.errors(include_url=False)]
            diagnostics += [diagnostic for diagnostic in further if diagnostic.line not in told]
    if diagnostics or found is None:
        raise PolicyError(sorted(diagnostics, key=lambda diagnostic: diagnostic.line))
    return found


def _diagnostic(model: type[BaseModel], document: Document, error: dict[str, Any]) -> Diagnostic:
    context = error.get("ctx") or {}
    loc: Loc = (*error["loc"], *context.get("at", ()))
    what, fix = _told(model, loc, error, context)
    return Diagnostic(where=document.where, line=document.line_of(loc), what=what, fix=fix)


def _told(model: type[BaseModel], loc: Loc, error: dict[str, Any], context: dict[str, Any]) -> tuple[str, str]:
    """What is wrong and how to mend it, in our words."""
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
    """`rules[2].match.prefix`, as people count: from 1."""
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".") or "the file"


def _field(model: type[BaseModel], loc: Loc) -> FieldInfo | None:
    """The field that a place is in or of."""
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
    """The model that an annotation such as `tuple[Rule, ...]` or `Match | None` speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
