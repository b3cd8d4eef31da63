"""The subset of YAML that a policy may use: mappings, lists and scalars, each with its line.

Scalars stay text as in the file, so the groups `123`, `no` and `2026-11-21` need no quotes; the model interprets text.
Refused, with their lines: anchors and aliases (a kilobyte can expand to gigabytes), tags (`!!python/object`), repeated
keys, keys without a value, several documents, deep nesting.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from sexton.policy.diagnostics import Diagnostic, shown

MAX_BYTES = 256 << 10
MAX_DEPTH = 12
_TEXT = "tag:yaml.org,2002:str"
_NO_ANCHORS = "a policy has no anchors or aliases"
_NULL = "tag:yaml.org,2002:null"

Loc = tuple[str | int, ...]
"""A location in a document: keys and positions from its root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """The content of a file: text, lists and dicts of text. `lines` has the first line of each part."""

    where: str
    value: Any
    lines: dict[Loc, int]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    is_read: bool = False
    """Whether the file has a value."""

    def line_of(self, loc: Loc) -> int:
        """Return the line of a location, or of the nearest one that encloses it."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc, 1)


def read_document(text: str, *, where: str) -> YamlDocument:
    """Read YAML. Syntax errors are in `diagnostics`; the value may lack the parts that they are about."""
    document = YamlDocument(where=where, value={}, lines={})
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_BYTES:
        _report(document, 1, f"the file has {size_bytes} bytes", f"at most {MAX_BYTES}: split the rules by cluster")
        return document
    try:
        loader = _Loader(text, document)
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        _report_syntax(document, text, error)
        return document
    if node is None:
        _report(document, 1, "the file is empty", "begin with `version: 1`")
        return document
    return replace(document, value=_value(node, (), document), is_read=True)


class _Loader(yaml.SafeLoader):
    """A loader that removes YAML features a policy may not use, and reports them."""

    def __init__(self, text: str, document: YamlDocument) -> None:
        super().__init__(text)
        self._document = document
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            _report(self._document, line, f"an alias: *{event.anchor}", f"write it out: {_NO_ANCHORS}")
            self.get_event()  # type: ignore[no-untyped-call]
            mark: Any = event.start_mark
            return yaml.ScalarNode(_TEXT, "", mark, mark)
        if event.anchor is not None:
            _report(self._document, line, f"an anchor: &{event.anchor}", f"leave it out: {_NO_ANCHORS}")
            event.anchor = None
        if event.tag is not None:
            _report(self._document, line, f"a tag: {shown(event.tag)}", "leave it out: a policy has no tags")
            event.tag, event.implicit = None, (True, True) if isinstance(event, yaml.ScalarEvent) else True
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested more than {MAX_DEPTH} deep", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _value(node: yaml.Node, loc: Loc, document: YamlDocument) -> Any:
    document.lines.setdefault(loc, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return dict(_pairs(node, loc, document))
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*loc, number), document) for number, item in enumerate(node.value)]
    if node.tag == _NULL:
        key = next((part for part in reversed(loc) if isinstance(part, str)), "the file")
        _report(document, document.lines[loc], f"`{key}` has no value", "give one, or leave the key out")
        return ""
    return _text(node, document)


def _pairs(node: yaml.MappingNode, loc: Loc, document: YamlDocument) -> Iterator[tuple[str, Any]]:
    first_lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            _report(document, line, "a key that is not text", "keys are words such as `name`")
            continue
        key = _text(key_node, document)
        if key in first_lines:
            _report(document, line, f"the key {shown(key)} comes twice, first in line {first_lines[key]}", "keep one")
            continue
        first_lines[key] = line
        document.lines[(*loc, key)] = line
        yield key, _value(value_node, (*loc, key), document)


def _text(node: yaml.Node, document: YamlDocument) -> str:
    """Return a scalar's text with surrogate pairs joined: a JSON escape may be two halves, which PyYAML does not join.

    A single half is not a character, and no name in a log has one.
    """
    try:
        return str(node.value).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        _report(document, node.start_mark.line + 1, "half a character (a lone surrogate)", "write the whole character")
        return ""


def _report(document: YamlDocument, line: int, what: str, fix: str) -> None:
    document.diagnostics.append(Diagnostic(where=document.where, line=line, what=what, fix=fix))


def _report_syntax(document: YamlDocument, text: str, error: yaml.YAMLError) -> None:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line, what = (mark.line + 1 if mark else 1), ", ".join(part for part in (error.context, error.problem) if part)
    elif isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        what = f"a character that YAML does not allow: U+{int(error.character):04X}"
    else:
        line, what = 1, str(error)
    fix = "see where the indentation, a quote or a bracket does not fit"
    _report(document, line, f"not valid YAML for a policy: {what}", fix)
