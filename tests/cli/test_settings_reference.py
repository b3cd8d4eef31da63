"""docs/settings.md is what the settings say of themselves."""

from scripts.docs import setting_texts
from scripts.docs import settings_page as page
from sexton.settings import Settings


def test_every_setting_says_what_it_is_for() -> None:
    assert all(setting_texts()[name] for name in Settings.model_fields)
    rows = page().splitlines()
    assert all(any(row.startswith(f"| `SEXTON_{name.upper()}` |") for row in rows) for name in Settings.model_fields)


def test_values_and_bounds_are_told() -> None:
    for row in (
        "| `SEXTON_AIRFLOW_PORT` | whole number, at least 1, at most 65535 | `8080` |",
        "| `SEXTON_RETENTION_MINUTES` | whole number, at least 1 | none |",
        "| `SEXTON_APPROVERS` | JSON list | none |",
        "| `SEXTON_CATALOG_PROPERTIES` | JSON object | none |",
        "| `SEXTON_MAINTENANCE_DELETES` | true or false | `false` |",
        "| `SEXTON_HOME` | folder | the project's folder |",
    ):
        assert row in page()
