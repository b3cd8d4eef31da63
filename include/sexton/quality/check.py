"""Measures the tables of a run part by part, sums the measures, and makes the rows of dq_results from the results.

validation.py validates the sums.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from sexton.quality.change_expectations import NEEDS, measure_changes
from sexton.quality.cross_table_expectations import measure_relations
from sexton.quality.declared_expectations import MISSING, checked_tables
from sexton.quality.measure import CheckedRun, Measures, Rows, measure_table, read_whole
from sexton.quality.validation import Result
from sexton.tables import INTERVAL_TABLES, TABLES


def measure_part(
    rows: Mapping[str, Rows], run: CheckedRun, log_partitions: Iterable[int], *, files: Mapping[str, int]
) -> Measures:
    """Measure whole log partitions. `rows` and `files`: by table what was found, and how many files there should be.

    Tables without an entry in `files` are skipped: those of the whole run belong to one part.
    """
    kept = set(log_partitions)
    run = replace(run, cuts={part: cut for part, cut in run.cuts.items() if part in kept})
    found = Measures()
    sound: dict[str, pa.Table] = {}
    for table in checked_tables(tells_changes=run.tells_changes):
        if table.name not in files:
            continue
        of_table = rows.get(table.name, ())
        found.add([measure_table(table, of_table, run, pieces=files[table.name])])
        whole = read_whole(table, of_table)
        if of_table and whole is not None:
            sound[table.name] = whole
    if run.tells_changes and sound.keys() >= {*NEEDS}:
        measure_changes(found, sound)
    return found.add([measure_relations(sound, run)])


def total_of(measures: Iterable[Measures], run: CheckedRun) -> Measures:
    """Return the measures of a whole run."""
    total = Measures().add(measures)
    if run.tells_changes:
        for table in INTERVAL_TABLES:
            total.put(table.name, MISSING, 0)  # so that it is validated even without files
    total.put("runs", "coverage", 0 if run.is_complete else 1, "the log does not reach back to its beginning")
    return total


def results_table(results: Iterable[Result]) -> pa.Table:
    """Return dq_results without the run's columns."""
    names = TABLES["dq_results"].column_names
    rows = [{name: getattr(result, name) for name in names} for result in results]
    return pa.Table.from_pylist(rows, schema=TABLES["dq_results"].arrow_schema(with_run=False))
