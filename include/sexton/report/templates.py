"""Pages that need no network, no scripts and no other file: one environment for all of them.

Everything that came out of a log is shown through `names` and escaped by Jinja2, whose autoescaping is always on; each
page forbids itself scripts and requests by a Content-Security-Policy, should anything ever slip through.
"""

from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sexton.report import figures
from sexton.report.names import NAME_CELLS, harmless, short, visible


def render(template: str, **values: Any) -> str:
    """A template of this package as HTML text; it finds our style as `style`."""
    return _environment().get_template(template).render(style=Markup(style()), **values)


def style() -> str:
    """The style sheet of every page."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _spelled_out(value: object) -> object:
    """What every expression of a template passes through: a text that a filter forgot does no harm either."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return new_environment()


def new_environment(*loaders: BaseLoader) -> Environment:
    """An environment with the filters and pieces of this package, which looks for templates at `loaders` first."""
    environment = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader("sexton.report", "")]),
        autoescape=True,
        finalize=_spelled_out,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=figures.count,
        some=figures.some,
        size=figures.size,
        percent=figures.share,
        duration=figures.duration,
        instant=figures.instant,
        visible=visible,
        short=short,
    )
    environment.globals["NAME_CELLS"] = NAME_CELLS
    return environment
