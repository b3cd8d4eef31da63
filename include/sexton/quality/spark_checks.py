"""Great Expectations over the rows of a run on Spark, and its Data Docs: one suite for each table.

What a table declares is an expectation of the library for each column; a law is an `UnexpectedRowsExpectation`. All
suites run without details first, which Spark answers with one aggregation a table. Only what failed runs again, to show
rows.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sexton.errors import printable
from sexton.quality.data_docs import docs_config, write_docs
from sexton.quality.expectation import MOST_SHOWN, Expectation, Result, result_of
from sexton.quality.relations import GROUP_COLUMNS, HELD_GROUPS, VIEWS, CheckedRun, held_groups
from sexton.quality.suites import Shapes, Suites, needs
from sexton.settings import set_variables
from sexton.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT_ONCE = 2
"""Suites validated at a time: one makes Spark's queries while another waits for their plans and rows."""


def load_library() -> None:
    """Import Great Expectations without telemetry. It takes seconds."""
    set_variables({"GX_ANALYTICS_ENABLED": "false"})
    import great_expectations  # noqa: F401  # whoever imports it next has it at once


def check(
    spark: "SparkSession",
    tables: Mapping[str, "DataFrame"],
    shapes: Shapes,
    suites: Suites,
    run: CheckedRun,
    *,
    docs: Path | None,
) -> list[Result]:
    """Return the results of all expectations. With `docs` write the Data Docs there, replacing earlier ones."""
    load_library()
    import great_expectations as gx
    from pyspark.sql.functions import broadcast

    views = create_views(spark, {name: rows for name, rows in tables.items() if shapes.is_sound(name)}, run)
    try:
        cuts = broadcast(views["cuts"])
        context = gx.get_context(mode="ephemeral", project_config=docs_config(docs))
        results: dict[str, dict[str, Result]] = {}
        validations = []
        for table, suite in suites.items():
            judged = {each.name: result for each in suite if (result := shapes.judge(each)) is not None}
            results[table] = judged
            if measured := [each for each in suite if each.name not in judged]:
                rows = views["run" if table == "runs" else table]
                if any(each.rule == "below_cut" for each in measured):
                    rows = rows.join(cuts, "log_partition", "left")
                validations.append(_Validation(context, table, rows, measured))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            passed = list(pool.map(_Validation.passes, validations))
            for each, has_passed in zip(validations, passed, strict=True):
                results[each.table] |= each.all_passed() if has_passed else each.details()
    finally:
        for rows in views.values():
            rows.unpersist()  # a Spark Connect server keeps them beyond the session
    if docs is not None:
        write_docs(context, docs)
    return [results[table][each.name] for table, suite in suites.items() for each in suite]


def create_views(spark: "SparkSession", tables: Mapping[str, "DataFrame"], run: CheckedRun) -> dict[str, "DataFrame"]:
    """Name what the queries read, and keep it in memory, or on the executors' disks, until it is unpersisted."""
    views = {name: rows.persist() for name, rows in tables.items()}
    views |= {name: frame(spark, rows) for name, rows in run.relations().items()}
    if tables.keys() >= {"groups", "tombstones"}:
        views["held_groups"] = _held_groups(spark, views["groups"], views["tombstones"], run.policy)
    for name, rows in views.items():
        rows.createOrReplaceTempView(name)
    for name, sql in VIEWS.items():
        if needs(sql) <= tables.keys():
            spark.sql(sql).createOrReplaceTempView(name)
    return views


def frame(spark: "SparkSession", rows: pa.Table) -> "DataFrame":
    """Return `rows` as a DataFrame; Spark Connect needs the schema of an empty table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if rows.num_rows:  # of a partition that begins with an empty batch Spark reads nothing more
        rows = pa.Table.from_batches([batch for batch in rows.to_batches() if batch.num_rows], rows.schema)
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema))


def _held_groups(
    spark: "SparkSession", groups: "DataFrame", tombstones: "DataFrame", policy: str | None
) -> "DataFrame":
    """Which of the planned groups the policy holds."""
    if policy is None:
        return frame(spark, HELD_GROUPS.empty_table())
    planned = groups.join(tombstones.select("group_id").distinct(), "group_id", "left_semi").select(*GROUP_COLUMNS)

    def held(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return held_groups(policy, batches)

    return planned.mapInArrow(held, "log_partition int, group_id string").persist()


class _Validation:
    """The validation of one suite. Several may run at a time, but not be made: each adds itself to the context."""

    def __init__(self, context: Any, table: str, rows: "DataFrame", suite: Sequence[Expectation]) -> None:
        import great_expectations as gx
        from great_expectations.core.run_identifier import RunIdentifier

        source = context.data_sources.add_spark(table, persist=False)  # of its own: it holds what is validated
        batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("branch")
        expectations = [each for expectation in suite for each in _expectations(gx, expectation)]
        suite_of_table = context.suites.add(gx.ExpectationSuite(name=table, expectations=expectations))
        definition = gx.ValidationDefinition(name=table, data=batch, suite=suite_of_table)
        self.table, self._rows, self._suite, self._context = table, rows, suite, context
        self._definition = context.validation_definitions.add(definition)
        self._run_id = RunIdentifier(run_name=table)  # one, so that the second validation replaces the first

    def passes(self) -> bool:
        """Validate without details."""
        return bool(self._run("BOOLEAN_ONLY").success)

    def all_passed(self) -> dict[str, Result]:
        """The results of a suite that passes, by name of the expectation."""
        return {each.name: result_of(each, success=True) for each in self._suite}

    def details(self) -> dict[str, Result]:
        """Validate again; the results by name of the expectation, with the rows that break it."""
        outcome = self._run({"result_format": "SUMMARY", "partial_unexpected_count": MOST_SHOWN})
        by_name: dict[str, list[Any]] = {}
        for each in outcome.results:
            by_name.setdefault(each.expectation_config.meta["name"], []).append(each)
        found = {each.name: _result(self._rows.sparkSession, each, by_name[each.name]) for each in self._suite}
        store = self._context.validation_results_store
        for identifier in store.list_keys():
            if identifier.expectation_suite_identifier.name == self.table:
                store.set(identifier, outcome)
        return found

    def _run(self, result_format: str | dict[str, Any]) -> Any:
        return self._definition.run(
            batch_parameters={"dataframe": self._rows}, result_format=result_format, run_id=self._run_id
        )


def _result(spark: "SparkSession", expectation: Expectation, validated: Sequence[Any]) -> Result:
    """Return the result of an expectation from those of the library, and have its pages show the rows that break it."""
    errors = [info["exception_message"] for each in validated for info in _raised(each.exception_info)]
    if errors:
        # Alerts show it to everybody: by Spark's condition, without the value that its message may quote.
        condition = re.match(r"\[[A-Z_.]+\]", errors[0])
        observed = f"not measured: {condition[0] if condition else 'its query failed'}"
        return result_of(expectation, success=False, observed=observed)
    failed = [each for each in validated if not each.success]
    if not failed:
        return result_of(expectation, success=True)
    by_column: dict[str, int] = {}
    if expectation.by_column:
        by_column = {
            each.expectation_config.kwargs["column"]: 0 if each.success else each.result["unexpected_count"]
            for each in validated
        }
    broken = spark.sql(expectation.sql)
    rows = [row.asDict(recursive=True) for row in broken.limit(MOST_SHOWN).collect()]
    found = result_of(
        expectation, success=False, count=0 if by_column else broken.count(), by_column=by_column, rows=rows
    )
    for each in failed:
        for name in ("partial_unexpected_counts", "partial_unexpected_index_list"):
            each.result.pop(name, None)
        shown = {"unexpected_count": len(rows), "partial_unexpected_list": list(map(_shown, found.failing_rows))}
        each.result.update({**shown, **({"unexpected_count": each.result["unexpected_count"]} if by_column else {})})
    return found


def _raised(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The exceptions of an expectation, made safe for the pages: Spark quotes the value on which a query failed.

    The library returns one as it is, or each by the metric that raised it.
    """
    infos: list[Any] = [info] if "raised_exception" in info else list(info.values())
    raised = [each for each in infos if each["raised_exception"]]
    for each in raised:
        message = printable(" ".join(each["exception_message"].split()))
        each.update(exception_message=_without_html(message), exception_traceback="")
    return raised


def _shown(row: str) -> str:
    """A row for the pages of the library, which do not escape: in ASCII and without HTML's signs, still JSON."""
    return _without_html(json.dumps(json.loads(row)))


def _without_html(text: str) -> str:
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _expectations(gx: Any, expectation: Expectation) -> list[Any]:
    """Return the expectations of the library that an expectation consists of, one for each column."""
    library = gx.expectations
    common = {
        "severity": expectation.severity,
        "description": expectation.sentence,
        "meta": {"name": expectation.name},
    }
    columns, value = expectation.by_column, expectation.value
    match expectation.rule:
        case "written":
            return [library.ExpectTableRowCountToBeBetween(min_value=0, **common)]
        case "columns":
            names = [column.name for column in TABLES[expectation.table].all_columns]
            return [library.ExpectTableColumnsToMatchSet(column_set=names, exact_match=False, **common)]
        case "unique" if len(value) == 1:
            return [library.ExpectColumnValuesToBeUnique(column=value[0], **common)]
        case "unique":
            return [library.ExpectCompoundColumnsToBeUnique(column_list=list(value), ignore_row_if="never", **common)]
        case "not_null":
            return [library.ExpectColumnValuesToNotBeNull(column=name, **common) for name in columns]
        case "minimum":
            return [library.ExpectColumnValuesToBeBetween(column=name, min_value=value, **common) for name in columns]
        case "maximum":
            return [library.ExpectColumnValuesToBeBetween(column=name, max_value=value, **common) for name in columns]
        case "allowed":
            return [
                library.ExpectColumnValuesToBeInSet(column=name, value_set=list(values), **common)
                for name, values in value.items()
            ]
        case "forbidden":
            return [
                library.ExpectColumnValuesToNotBeInSet(column=name, value_set=list(values), **common)
                for name, values in value.items()
            ]
        case "below_cut":
            return [
                library.ExpectColumnPairValuesAToBeGreaterThanB(
                    column_A="cut", column_B=name, ignore_row_if="either_value_is_missing", **common
                )
                for name in value
            ]
        case None:
            query = expectation.sql.replace("{", "{{").replace("}", "}}")  # it is a format string
            return [_rows_that_break()(unexpected_rows_query=query, **common)]


@cache
def _rows_that_break() -> Any:
    """Return the library's UnexpectedRowsExpectation, but with one query instead of two: rows alone, no count.

    A query names the views that it reads, of which each is one batch, where the library wants {batch}: on Spark that is
    one temporary view of the session, which suites that are validated at the same time would take from one another.
    """
    from great_expectations.compatibility.pydantic import validator
    from great_expectations.expectations import UnexpectedRowsExpectation

    class RowsThatBreak(UnexpectedRowsExpectation):  # type: ignore[misc]  # the library has no types
        metric_dependencies = ("unexpected_rows_query.table",)

        @validator("unexpected_rows_query")  # type: ignore[untyped-decorator]
        def _validate_query(cls, query: str) -> str:  # noqa: N805  # the library's own name, which this replaces
            return query

        def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
            rows = metrics["unexpected_rows_query.table"]
            found = {**metrics, "unexpected_rows_query.row_count": len(rows)}
            return super()._validate(found, runtime_configuration, execution_engine)

    return RowsThatBreak
