"""Data quality: expectations about a run's tables, measured in Arrow and validated by Great Expectations.

Minimums, allowed values, keys and NULLs are declared with the columns, in sexton.tables.

declared_expectations.py     expectations derived from the declaration of a table
cross_table_expectations.py  expectations between tables, and their measures
verdict_expectations.py      the same for verdicts: the policy's compared with the broker's, and what follows from them
change_expectations.py       the same for offset_changes
measure.py                   one table measured against its declaration
check.py                     all measures of a run
validation.py                Great Expectations over the measures, Data Docs
"""

from sexton.quality.check import measure_part, results_table, total_of
from sexton.quality.declared_expectations import CHECKED_TABLES, Expectation, checked_tables
from sexton.quality.measure import CheckedRun, Measures
from sexton.quality.validation import EXPECTATIONS, Result, Validate, load_library, validate

__all__ = [
    "CHECKED_TABLES",
    "EXPECTATIONS",
    "CheckedRun",
    "Expectation",
    "Measures",
    "Result",
    "Validate",
    "checked_tables",
    "load_library",
    "measure_part",
    "results_table",
    "total_of",
    "validate",
]
