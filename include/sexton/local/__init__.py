"""The whole system on one machine, without Docker: a broker, an Airflow and the demo's clients.

`python -m sexton.local up | down | demo`, which `make` calls. Everything it makes lies in var/, everything it starts
can be found and stopped again, also by another process. Not for production: one user, SQLite, loopback only. The same
system as services is docker-compose.yaml, which runs `sexton.local.compose_init` and `sexton.local.compose_health`.
"""
