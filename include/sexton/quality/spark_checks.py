"""Great Expectations over the rows of a run on Spark, and its Data Docs: one suite for each table.

One query counts what breaks each expectation, and the suite of a table expects every count to be 0. For failed
expectations the library then shows rows: a declared rule is one library expectation per column, a law is an
`UnexpectedRowsExpectation`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sexton.errors import printable
from sexton.quality.data_docs import docs_config, write_docs
from sexton.quality.expectation import MAX_SHOWN, Expectation, ExpectationResult, result_of
from sexton.quality.queried_views import GROUP_COLUMNS, HELD_GROUPS, KEY, VIEWS, CheckedRun, held_groups, relation_of
from sexton.quality.suites import Shapes, Suites, needs
from sexton.settings import set_variables
from sexton.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT_ONCE = 4
"""Parallel Spark requests that only register something: each waits for a response."""
CONF_FOR_MANY_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
"""Spark settings for checking many rows. The views are distributed by group and sorted by key: with these settings
Spark neither exchanges nor sorts them again for a join or a count by key, so adaptive execution has nothing to do."""
_WHOLE = "whole_"
"""Prefix of a second view of a table, with all columns: the view without the prefix may have fewer."""
_PARTITION_OF = {"tombstones": "target_log_partition"}
"""Table -> the column with the log partition that joins use, if it is not log_partition."""
_Query = tuple[Sequence[tuple[str, str]], str]
"""Expectations to count, as (table, name), and the SQL of an array of their counts: `... FROM ...`."""


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
    known: Collection[str] = (),
    count: Callable[[Suites], Mapping[tuple[str, str], int]] | None = None,
) -> list[ExpectationResult]:
    """Return the results of all expectations. With `docs` write the Data Docs there, replacing earlier ones.

    The rows of `known` tables are in this process and were passed to Spark, so Spark need not cache them. `count` may
    replace `count_broken`; expectations that it counts as broken or leaves out are run on Spark.
    """
    load_library()
    import great_expectations as gx
    from pyspark.sql.functions import broadcast

    results: dict[str, dict[str, ExpectationResult]] = {}
    measured: dict[str, list[Expectation]] = {}
    for table, suite in suites.items():
        results[table] = {each.name: result for each in suite if (result := shapes.judge(each)) is not None}
        if unjudged := [each for each in suite if each.name not in results[table]]:
            measured[table] = unjudged
    context = gx.get_context(mode="ephemeral", project_config=docs_config(docs))
    sound = {name: rows for name, rows in tables.items() if shapes.is_sound(name)}
    views: dict[str, DataFrame] = {}
    whole: dict[str, DataFrame] = {}
    try:
        if count is None:
            views = create_views(spark, sound, run, known=known, counted=measured)
        counts = count_broken(spark, measured, views) if count is None else count(measured)
        for table, suite in measured.items():
            validation = _Validation(context, table, suite, counts)
            failed = [each for each in suite if each.name not in validation.passed]
            results[table] |= {
                each.name: result_of(each, success=True) for each in suite if each.name in validation.passed
            }
            if failed:
                whole = whole or create_views(spark, sound, run, known=known)
                rows = whole[relation_of(table)]
                if any(each.rule == "below_cut" for each in failed):
                    rows = rows.join(broadcast(whole["cuts"]), "log_partition", "left")
                results[table] |= validation.details(rows, failed)
    finally:
        with ThreadPoolExecutor(_AT_ONCE) as pool:  # a Spark Connect server would keep them after the session
            list(pool.map(lambda rows: rows.unpersist(), (*views.values(), *whole.values())))
    if docs is not None:
        write_docs(context, docs)
    return [results[table][each.name] for table, suite in suites.items() for each in suite]


def count_broken(spark: "SparkSession", suites: Suites, views: Collection[str] = ()) -> dict[tuple[str, str], int]:
    """Return (table, name of an expectation) -> number of rows or values that break it, counted by one query.

    Expectations whose SQL fails, such as a user's, are left out. `views` are the names of the registered views.
    """
    return _count(spark, [query for table, suite in suites.items() for query in _queries(table, suite, views)])


def _queries(table: str, suite: Sequence[Expectation], views: Collection[str]) -> Iterator[_Query]:
    """One query counts all expectations about single values; every other expectation has its own query."""
    by_value = [each for each in suite if _is_by_value(each)]
    counts = [" + ".join(["0L", *(f"count_if({broken})" for broken in each.by_column.values())]) for each in by_value]
    if by_value:
        rows = _WHOLE + table if _WHOLE + table in views else relation_of(table)
        yield [(table, each.name) for each in by_value], f"array({', '.join(counts)}) FROM {rows} t"
    for each in suite:
        if not _is_by_value(each):
            yield [(table, each.name)], f"array(count(*)) FROM ({each.sql})"


def _is_by_value(expectation: Expectation) -> bool:
    return bool(expectation.by_column) or not expectation.sql


def _count(spark: "SparkSession", queries: Sequence[_Query]) -> dict[tuple[str, str], int]:
    from pyspark.errors import PySparkException

    union = " UNION ALL ".join(f"SELECT {at}, {sql}" for at, (_, sql) in enumerate(queries))
    try:
        # Every task deserialises the plans of all queries: with one task per query they would be read over and over.
        found = spark.sql(union).coalesce(_task_count(spark)).collect()
    except PySparkException:
        half = len(queries) // 2
        return _count(spark, queries[:half]) | _count(spark, queries[half:]) if half else {}
    return {name: count for at, counts in found for name, count in zip(queries[at][0], counts, strict=True)}


def create_views(
    spark: "SparkSession",
    tables: Mapping[str, "DataFrame"],
    run: CheckedRun,
    *,
    known: Collection[str] = (),
    counted: Suites | None = None,
) -> dict[str, "DataFrame"]:
    """Register the views that queries read, and return their rows by name.

    With a single shuffle partition (few rows) nothing is cached or exchanged. Otherwise the rows, except those of
    `known` tables, are distributed by group, sorted by key, and cached in memory or on the executors' disks until
    unpersisted. With `counted`, only the columns that the queries of these suites name are cached; a second view, with
    the prefix _WHOLE, reads all columns from the table.
    """
    task_count = _task_count(spark)
    spread = [name for name in tables if name not in known] if task_count > 1 else []
    views = {name: rows.coalesce(1) if task_count == 1 else rows for name, rows in tables.items()}
    for name in spread:
        columns = tables[name].columns if counted is None else _named_columns(tables[name].columns, counted)
        rows = tables[name].select(*columns)
        if "group_id" in columns:
            key = [_PARTITION_OF.get(name, "log_partition"), *KEY[1:]]
            rows = rows.repartition(task_count, "group_id").sortWithinPartitions(
                *(each for each in key if each in columns)
            )
        views[name] = rows.persist()
    if counted is not None:
        views |= {_WHOLE + name: tables[name] for name in spread}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        views |= {name: frame(spark, rows).coalesce(1) for name, rows in run.relations().items()}
        if tables.keys() >= {"groups", "tombstones"}:
            views["held_groups"] = _held_groups(spark, tables["groups"], tables["tombstones"], run.policy)
        list(pool.map(lambda name: views[name].createOrReplaceTempView(name), views))
    for name, sql in VIEWS.items():
        if needs(sql) <= tables.keys():
            spark.sql(sql).createOrReplaceTempView(name)
    if spread:  # fill the caches first: tasks of the counts would wait for one another's rows
        spark.sql(" UNION ALL ".join(f"SELECT count(*) FROM {name}" for name in spread)).collect()
    return views


def _named_columns(columns: Sequence[str], suites: Suites) -> list[str]:
    """The columns that queries over several rows name; all of them if a query is a user's, whose result may depend on
    columns that it does not name (SELECT DISTINCT *)."""
    queries = [each for suite in suites.values() for each in suite if not _is_by_value(each)]
    if any(each.is_users for each in queries):
        return list(columns)
    named = set(re.findall(r"\w+", " ".join([*(each.sql for each in queries), *VIEWS.values()])))
    return [name for name in columns if name in named]


def _task_count(spark: "SparkSession") -> int:
    """Number of tasks of a stage."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def frame(spark: "SparkSession", rows: pa.Table) -> "DataFrame":
    """Return `rows` as a DataFrame; Spark Connect needs the schema of an empty table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if rows.num_rows:  # Spark ignores the rest of a partition that begins with an empty batch
        rows = pa.Table.from_batches([batch for batch in rows.to_batches() if batch.num_rows], rows.schema)
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema))


def _held_groups(
    spark: "SparkSession", groups: "DataFrame", tombstones: "DataFrame", policy: str | None
) -> "DataFrame":
    """The planned groups that the policy holds."""
    if policy is None:
        return frame(spark, HELD_GROUPS.empty_table())
    planned = groups.join(tombstones.select("group_id"), "group_id", "left_semi").select(*GROUP_COLUMNS)

    def held(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return held_groups(policy, batches)

    return planned.mapInArrow(held, "log_partition int, group_id string").persist()


class _Validation:
    """Validates the counts of one suite, and then the rows that break failed expectations."""

    def __init__(
        self, context: Any, table: str, suite: Sequence[Expectation], counts: Mapping[tuple[str, str], int]
    ) -> None:
        import great_expectations as gx
        import pandas as pd

        self._context, self._table = context, table
        counted = [each for each in suite if (table, each.name) in counts]
        expectations = [
            gx.expectations.ExpectColumnMaxToBeBetween(column=each.name, max_value=0, **_common(each))
            for each in counted
        ]
        frame = pd.DataFrame({each.name: [counts[table, each.name]] for each in counted})
        self._outcome = self._run(context.data_sources.add_pandas(table), table, frame, expectations, "BASIC")
        self.passed = {each.expectation_config.meta["name"] for each in self._outcome.results if each.success}

    def details(self, rows: "DataFrame", failed: Sequence[Expectation]) -> dict[str, ExpectationResult]:
        """Results of failed expectations by name; their rows also go to the pages."""
        import great_expectations as gx

        name = f"{self._table} rows"
        source = self._context.data_sources.add_spark(name, persist=False)  # separate: it keeps the validated rows
        expectations = [each for expectation in failed for each in _expectations(gx, expectation)]
        result_format = {"result_format": "SUMMARY", "partial_unexpected_count": MAX_SHOWN}
        outcome = self._run(source, name, rows, expectations, result_format)
        by_name: dict[str, list[Any]] = {}
        for each in outcome.results:
            by_name.setdefault(each.expectation_config.meta["name"], []).append(each)
        found = {each.name: _result(rows.sparkSession, each, by_name[each.name]) for each in failed}
        self._show(outcome, name)
        return found

    def _show(self, outcome: Any, name: str) -> None:
        """Replace the results about counts with the results about rows: a table has one page."""
        self._context.suites.delete(name)
        store = self._context.validation_results_store
        self._outcome.results = [*outcome.results, *(each for each in self._outcome.results if each.success)]
        for identifier in store.list_keys():
            match identifier.expectation_suite_identifier.name:
                case self._table:
                    store.set(identifier, self._outcome)
                case suite if suite == name:
                    store.remove_key(identifier)

    def _run(self, source: Any, name: str, rows: Any, expectations: Sequence[Any], result_format: Any) -> Any:
        import great_expectations as gx

        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("branch")
        suite = self._context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations))
        validation = gx.ValidationDefinition(name=name, data=batch, suite=suite)
        definition = self._context.validation_definitions.add(validation)
        return definition.run(batch_parameters={"dataframe": rows}, result_format=result_format)


def _result(spark: "SparkSession", expectation: Expectation, validated: Sequence[Any]) -> ExpectationResult:
    """Return the result of an expectation from the library's results, and put the rows that break it on its page."""
    errors = [info["exception_message"] for each in validated for info in _raised(each.exception_info)]
    if errors:
        # Alerts are public: they get Spark's error condition, not its message, which may quote a value.
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
    rows = [row.asDict(recursive=True) for row in broken.limit(MAX_SHOWN).collect()]
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
    """The exceptions of an expectation, sanitised for the pages: Spark quotes the value on which a query failed.

    The library returns a single exception, or exceptions by the metric that raised them.
    """
    infos: list[Any] = [info] if "raised_exception" in info else list(info.values())
    raised = [each for each in infos if each["raised_exception"]]
    for each in raised:
        message = printable(" ".join(each["exception_message"].split()))
        each.update(exception_message=_without_html(message), exception_traceback="")
    return raised


def _shown(row: str) -> str:
    """A row for the library's pages, which do not escape: ASCII without HTML metacharacters, still JSON."""
    return _without_html(json.dumps(json.loads(row)))


def _without_html(text: str) -> str:
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _common(expectation: Expectation) -> dict[str, Any]:
    return {
        "severity": expectation.severity,
        "description": expectation.sentence,
        "meta": {"name": expectation.name},
    }


def _expectations(gx: Any, expectation: Expectation) -> list[Any]:
    """Return the library's expectations for an expectation, one for each column."""
    library = gx.expectations
    common = _common(expectation)
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
            return [
                library.ExpectColumnValuesToBeBetween(column=name, min_value=lowest, **common)
                for name, (lowest,) in value.items()
            ]
        case "allowed" | "forbidden" as which:
            is_in = library.ExpectColumnValuesToBeInSet
            kind = is_in if which == "allowed" else library.ExpectColumnValuesToNotBeInSet
            return [kind(column=name, value_set=list(values), **common) for name, values in value.items()]
        case "below_cut":
            return [
                library.ExpectColumnPairValuesAToBeGreaterThanB(
                    column_A="cut", column_B=name, ignore_row_if="either_value_is_missing", **common
                )
                for name in value
            ]
        case None:
            query = expectation.sql.replace("{", "{{").replace("}", "}}")  # the library formats this string
            return [_rows_that_break()(unexpected_rows_query=query, **common)]


@cache
def _rows_that_break() -> Any:
    """Return the library's UnexpectedRowsExpectation with one query instead of two: only the rows, no count.

    A query names the views that it reads, and a law between tables reads several; the library requires one, as {batch}.
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
