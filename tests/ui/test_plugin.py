"""Airflow loads plugins in all its processes, also in each task's: this one costs them nothing."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError

from sexton.numbers import RE2
from sexton.ui.plugin import PREFIX, LazyApplication, SextonPlugin

HEAVY = (
    "duckdb", "pyiceberg", "pyarrow", "pyspark", "numba", "jinja2.environment", "sexton.ui.app",
    "sexton.lake.catalog",
)  # fmt: skip


def test_loading_the_plugin_loads_nothing_else() -> None:
    program = (
        "import sys\nimport airflow.plugins_manager\nbefore = set(sys.modules)\nimport sexton.ui.plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    new = done.stdout.splitlines()[-1].split()
    assert new
    assert [name for name in new if name in HEAVY or not name.startswith("sexton")] == []


@pytest.mark.parametrize("pattern", ["team-(", "(?=lookahead)", "((a{100}){100}){100}", "a" * 1_001])
def test_a_field_for_a_regular_expression_refuses(pattern: str) -> None:
    with pytest.raises(ParamValidationError, match="is not a 'RE2 regular expression'"):
        Param(None, type=["null", "string"], format=RE2).resolve(pattern)


@pytest.mark.parametrize("pattern", ["", "team-a-.*", r"\pL+-(?i:EU)"])
def test_a_field_for_a_regular_expression_takes(pattern: str) -> None:
    assert Param(None, type=["null", "string"], format=RE2).resolve(pattern) == pattern


def test_the_api_server_knows_the_formats_of_the_fields() -> None:
    """It validates what a form sends, and parses no DAG file."""
    program = (
        "import sexton.ui.plugin, jsonschema, sexton.numbers as formats;"
        "assert {formats.INSTANT, formats.RE2} <= jsonschema.FormatChecker().checkers.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_menu_leads_to_the_app() -> None:
    (app,), (view,) = SextonPlugin.fastapi_apps, SextonPlugin.external_views
    assert app["url_prefix"] == PREFIX
    assert view["href"].startswith(PREFIX)


def test_the_app_is_made_once_and_with_the_first_request() -> None:
    made = []

    def make() -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            scope["asked"].append(scope["number"])

        made.append(answer)
        return answer

    later, asked = LazyApplication(make), []
    assert made == []

    async def ask() -> None:
        await asyncio.gather(*(later({"asked": asked, "number": number}, None, None) for number in range(5)))

    asyncio.run(ask())
    assert len(made) == 1
    assert sorted(asked) == [0, 1, 2, 3, 4]
