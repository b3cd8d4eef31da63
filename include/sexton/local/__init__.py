"""The whole system on one machine, without Docker: a broker, Airflow and example clients.

`make` runs `python -m sexton.local up | down | demo`. All files are in var/; every started process can be found and
stopped by another process. Not for production: two users, SQLite, loopback only. docker-compose.yaml is the same system
as services, and runs two modules of this package: `compose_init` (secrets, bucket, database, pools, connections) and
`compose_health` (health checks).
"""
