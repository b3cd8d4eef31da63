"""Compiled templates are kept, if there is a place for them."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest
from jinja2 import Environment

from sexton.report import templates


def compiled(monkeypatch: pytest.MonkeyPatch, cache: Path) -> list[str | None]:
    """The templates that a new process compiles for a page, with that folder as the cache."""
    found: list[str | None] = []
    generate = Environment._generate

    def watched(self: Environment, source, name, filename, *rest, **more):
        found.append(name)
        return generate(self, source, name, filename, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(templates, "settings", lambda: SimpleNamespace(cache=cache))
        patch.setattr(Environment, "_generate", watched)
        templates.new_environment().get_template("run.html")
    return found


def test_a_template_is_compiled_once(monkeypatch, tmp_path):
    assert compiled(monkeypatch, tmp_path / "cache") == ["run.html"]
    assert compiled(monkeypatch, tmp_path / "cache") == []


def test_without_a_place_each_process_compiles_its_own(monkeypatch, tmp_path):
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refused)
    for _ in range(2):
        assert compiled(monkeypatch, tmp_path / "cache") == ["run.html"]
