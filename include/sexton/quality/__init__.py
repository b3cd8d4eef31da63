"""Data quality: what is expected of a run's tables, measured in Arrow and judged by Great Expectations.

expectation.py   sentences that follow from a table's declaration
laws.py          sentences that hold between tables, and how they are measured
verdicts.py      the same of verdicts: a policy's beside the broker's, and what comes of them
measure.py       one table against its declaration
suites.py        Great Expectations over the measures, Data Docs
check.py         all of it, for a run
"""

from sexton.quality.check import measure_part, results_table, total_of
from sexton.quality.expectation import CHECKED_TABLES, Expectation, checked_tables
from sexton.quality.measure import CheckedRun, Measures
from sexton.quality.suites import EXPECTATIONS, Result, Validate, load_library, validate

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
