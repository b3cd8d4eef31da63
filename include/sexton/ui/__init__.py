"""The dashboard inside Airflow: published runs, groups, verdicts and plans, read from the lake and shown.

tables.py      published tables through DuckDB (database.py), a run at a time; run_cache.py: what was computed of one
overview.py, index.py, groups.py, offsets.py, history.py, plans.py, what_if.py
              what the pages ask: plain dataclasses, no HTML
metrics.py    numbers of every cluster's newest run, for Prometheus
access.py     who may see what: Airflow's own login and permissions, in one place
app.py        the FastAPI application; pages.py, api.py, plan_routes.py and what_if_routes.py are its routes
texts.py      every word of the pages, in every language
plugin.py     what Airflow loads, in each of its processes: nothing else of this package is imported by it

Nothing here writes: not to the lake, not to the archive, not to a cluster.
"""
