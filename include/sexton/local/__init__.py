"""What the services of docker-compose.yaml are started with.

`compose_init` has secrets, bucket, database, pools and connections, `compose_health` the health checks. The system of
`make up`, which needs no Docker, is `sexton_dev`.
"""
