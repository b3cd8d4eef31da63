"""Start and health checks of the services in docker-compose.yaml.

`compose_init` creates secrets, bucket, database, pools and connections; `compose_health` has the health checks. The
system of `make up`, which needs no Docker, is `sexton_dev`.
"""
