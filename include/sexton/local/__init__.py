"""What the services of docker-compose.yaml and a Spark Connect server on this machine are started with.

`compose_init` has secrets, bucket, database, pools and connections, `compose_health` the health checks, `spark_server`
the server. The system of `make up`, which needs no Docker, is `sexton_dev`.
"""
