"""The whole system on one machine, without Docker: a broker, Airflow and example clients. No wheel contains it.

`make` runs `python -m sexton_dev up | down | demo`. All files are in var/; every started process can be found and
stopped by another process. Not for production: two users, SQLite, loopback only. docker-compose.yaml is the same system
as services. `broker` and `workload` also serve the tests.
"""
