"""The Iceberg tables in which runs are published, with write-audit-publish.

catalog.py   one set of catalog properties, for Spark and for readers without a JVM
branch.py    a run's rows on a branch of every table
publish.py   the branch onto main, table by table, then `runs`
read.py      published runs and branches as Arrow
published_tables.py  published rows as SQL for DuckDB (database.py); run_cache.py: what was computed from a run
"""
