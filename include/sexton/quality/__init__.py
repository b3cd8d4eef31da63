"""Data quality: what is expected of a run's tables, as SQL over their rows.

Minimums, allowed values, keys and NULLs are declared with the columns, in sexton.tables.

expectation.py            an expectation, and its result
declared_expectations.py  expectations that follow from the declaration of a table
laws.py                   laws: checks between tables
queried_views.py          relations that the SQL of expectations may read in addition to the tables
suites.py                 the expectations of a run, including users' own; tables that are not as declared
duckdb_checks.py          checks with DuckDB, for `sexton audit`
proofs.py                 expectations that row order and Parquet footers prove without a query
spark_checks.py           checks with Great Expectations on Spark
data_docs.py              the Data Docs of Great Expectations, with the files that they load (vendor/)
"""
