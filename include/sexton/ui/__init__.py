"""The dashboard inside Airflow: published runs, groups, verdicts and plans, read from the lake.

plugin.py             what Airflow loads, in each of its processes; it imports nothing else of this package at first
app.py, access.py     the FastAPI application, and who may see what
pages.py, api.py, plan_routes.py, what_if_routes.py, metrics.py
                      the routes: pages, JSON, Prometheus; parameters.py has what requests share
group_queries.py, offset_queries.py, overview.py, story_queries.py, plan_queries.py, what_if_process.py
                      the queries: plain dataclasses, no HTML; paging.py returns a page of rows
run_files.py          report.html and the Data Docs of a run, from its folder
page_view.py, rendering.py, texts.py
                      the run and the links of a page, templates, texts in every language

Nothing here writes: not to the lake, not to the archive, not to a cluster.
"""
