"""Great Expectations over the measures: one suite per table, validated on one row with a column per measure.

The tables themselves never reach Great Expectations, so its cost does not grow with them. A missing measure is a
missing column, which fails its expectation.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sexton.quality.change_expectations import CHANGE_EXPECTATIONS
from sexton.quality.cross_table_expectations import CROSS_TABLE_EXPECTATIONS
from sexton.quality.declared_expectations import CHECKED_TABLES, Expectation, expectations_of
from sexton.quality.measure import Measures
from sexton.settings import set_variables
from sexton.tables import INTERVAL_TABLES, TABLES, Severity

EXPECTATIONS: Mapping[str, tuple[Expectation, ...]] = {
    name: found
    for name in TABLES
    if (
        found := (
            *(e for table in CHECKED_TABLES if table.name == name for e in expectations_of(table)),
            *(law for law in CROSS_TABLE_EXPECTATIONS if law.table == name),
        )
    )
}
"""The expectations of every run, by table."""

INTERVAL_EXPECTATIONS: Mapping[str, tuple[Expectation, ...]] = {
    table.name: (*expectations_of(table), *(law for law in CHANGE_EXPECTATIONS if law.table == table.name))
    for table in INTERVAL_TABLES
}
"""The expectations of runs that write the changes of an interval."""

_SITE = "sexton"
_UNUSED_STATIC = ("images/glossary_scroller.gif", "images/validation_failed_unexpected_values.gif")
"""Images of a tour that no page shows. They are most of a site's size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One row of dq_results."""

    table: str
    expectation: str
    severity: Severity
    success: bool
    observed: str

    @property
    def stops_publication(self) -> bool:
        return not self.success and self.severity == "critical"


def load_library() -> None:
    """Import Great Expectations without telemetry. It takes seconds."""
    set_variables({"GX_ANALYTICS_ENABLED": "false"})
    import great_expectations  # noqa: F401


class Validate(Protocol):
    """The signature of `validate`, which may run in another process."""

    def __call__(self, measures: Measures, *, docs: Path | None) -> list[Result]: ...


def validate(measures: Measures, *, docs: Path | None) -> list[Result]:
    """Validate every suite. With `docs` write the Data Docs there, replacing earlier ones."""
    load_library()
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral", project_config=_config(docs))
    source = context.data_sources.add_pandas("measures")
    results = []
    for table, expectations in expected_of(measures).items():
        batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("run")
        suite = context.suites.add(gx.ExpectationSuite(name=table, expectations=[_gx(gx, e) for e in expectations]))
        definition = gx.ValidationDefinition(name=table, data=batch, suite=suite)
        frame = _frame(measures, table, expectations)
        outcome = context.validation_definitions.add(definition).run(batch_parameters={"dataframe": frame})
        passed = {each.expectation_config.kwargs["column"]: bool(each.success) for each in outcome.results}
        results += [_result(e, measures, is_met=passed.get(e.measure, False)) for e in expectations]
    if docs is not None:
        _write_docs(context, docs)
    return results


def expected_of(measures: Measures) -> dict[str, tuple[Expectation, ...]]:
    """Return the expectations of the measured run, by table."""
    measured = {table for table, _ in measures.counts}
    return {**EXPECTATIONS, **{name: some for name, some in INTERVAL_EXPECTATIONS.items() if name in measured}}


def _config(docs: Path | None) -> Any:
    """Return the configuration of an ephemeral context that writes only its pages."""
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


def _gx(gx: Any, expectation: Expectation) -> Any:
    return gx.expectations.ExpectColumnMaxToBeBetween(
        column=expectation.measure,
        min_value=0,
        max_value=0,
        severity=expectation.severity,
        description=expectation.sentence,
    )


def _frame(measures: Measures, table: str, expectations: tuple[Expectation, ...]) -> Any:
    import pandas as pd

    counts = {e.measure: measures.counts.get((table, e.measure)) for e in expectations}
    # Without columns the index keeps the one row; an empty frame would pass everything.
    return pd.DataFrame({name: [count] for name, count in counts.items() if count is not None}, index=[0])


def _result(expectation: Expectation, measures: Measures, *, is_met: bool) -> Result:
    key = (expectation.table, expectation.measure)
    count = measures.counts.get(key)
    rows = measures.counts.get((expectation.table, "rows"))
    if count is None:
        observed = "not measured: the table, or one that it is held against, is not there or not as declared"
    elif count:
        observed = f"{count:,}" + (f": {measures.seen[key]}" if key in measures.seen else "")
    else:
        observed = "none" if rows is None else f"none in {rows:,} rows"
    return Result(
        table=expectation.table,
        expectation=expectation.sentence,
        severity=expectation.severity,
        success=is_met,
        observed=observed,
    )


def _write_docs(context: Any, docs: Path) -> None:
    shutil.rmtree(docs, ignore_errors=True)
    context.build_data_docs(site_names=[_SITE])
    for name in _UNUSED_STATIC:
        (docs / "static" / name).unlink(missing_ok=True)
