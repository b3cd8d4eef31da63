"""The Jinja2 environment of all pages; a page needs no network, no scripts and no other file.

Text from a log passes through `names` and Jinja2's autoescaping, which is always on. As a second defence, each page
forbids scripts and requests with a Content-Security-Policy.
"""

from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from sexton import as_text
from sexton.report.names import NAME_CELLS, harmless, short, visible
from sexton.settings import settings


def render(template: str, **values: Any) -> str:
    """A template of this package as HTML text; it can use the style sheet as `style`."""
    return _environment().get_template(template).render(style=Markup(style()), **values)


def style() -> str:
    """The style sheet of every page."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _spelled_out(value: object) -> object:
    """Applied to every expression of a template, so that a text without a filter is harmless too."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class _Compiled(FileSystemBytecodeCache):
    """A cache of compiled templates in a folder; if it cannot be written, each process compiles its own."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return new_environment()


def new_environment(*loaders: BaseLoader) -> Environment:
    """An environment with the filters and pieces of this package, which searches `loaders` first."""
    environment = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader("sexton.report", "")]),
        autoescape=True,
        finalize=_spelled_out,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_Compiled(str(settings().cache / "templates")),
    )
    environment.filters.update(
        count=as_text.count,
        some=as_text.some,
        size=as_text.size,
        percent=as_text.share,
        duration=as_text.duration,
        instant=as_text.instant,
        visible=visible,
        short=short,
    )
    environment.globals["NAME_CELLS"] = NAME_CELLS
    return environment
