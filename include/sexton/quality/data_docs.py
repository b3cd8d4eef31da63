"""The Data Docs of Great Expectations: static pages with every expectation, its result and the rows that break it."""

import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

_SITE = "sexton"
_UNUSED_STATIC = ("images/glossary_scroller.gif", "images/validation_failed_unexpected_values.gif")
"""Images of a tour that no page shows. They are most of a site's size."""
_LOADED = re.compile(r"""<(?:link|script|img)\b[^>]*?\b(?:href|src)="(https://[^"]+)"[^>]*>(?:</script>)?""")
"""A tag with which a page loads a file from the internet."""
_BACKGROUND = re.compile(r"url\('https://[^')]*'\)")


def docs_config(docs: Path | None) -> Any:
    """Return the configuration of an ephemeral context that writes only its pages, to `docs`."""
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs and docs.resolve())},
    }
    return DataContextConfig(
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={_SITE: site} if docs is not None else {},
    )


def write_docs(context: Any, docs: Path) -> None:
    """Write the pages of all that `context` has validated, replacing earlier ones. They open without the internet."""
    shutil.rmtree(docs, ignore_errors=True)
    context.build_data_docs(site_names=[_SITE])
    static = docs / "static"
    for name in _UNUSED_STATIC:
        (static / name).unlink(missing_ok=True)
    vendored = files(__package__).joinpath("vendor")
    for folder in ("vendor", "webfonts"):
        (static / folder).mkdir(parents=True)
    for file in vendored.iterdir():
        folder = "webfonts" if file.name.endswith(".woff2") else "vendor"
        (static / folder / file.name).write_bytes(file.read_bytes())
    for page in docs.rglob("*.html"):
        to_static = "../" * (len(page.relative_to(docs).parts) - 1) + "static"
        page.write_text(_offline(page.read_text("utf-8"), static, to_static), "utf-8")


def _offline(page: str, static: Path, to_static: str) -> str:
    """Return `page` with local copies in place of the files that it loads from the internet. References to files
    without a local copy (logo, dark theme, charts) are removed."""

    def local(match: re.Match[str]) -> str:
        name = match[1].split("?")[0].rpartition("/")[2]
        return match[0].replace(match[1], f"{to_static}/vendor/{name}") if (static / "vendor" / name).exists() else ""

    return _BACKGROUND.sub("none", _LOADED.sub(local, page))
