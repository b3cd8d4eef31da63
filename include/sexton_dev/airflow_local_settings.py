"""Makes the embedded Airflow's processes wait for each other in its SQLite database.

This file makes transactions that begin at a savepoint write transactions. By default pysqlite begins them as read
transactions. If a read transaction writes after another process has written, it fails immediately (`Database is
locked`), whatever SQLite's busy timeout, for example when a backfill is created; the rollback that follows can end the
scheduler. A write transaction waits for its turn instead.

The API server waits for a few seconds only. Some of its requests write from the event loop: while one request waits
there, another request that has written cannot commit until the waiting one gives up. Triggering a paused DAG in the
form sends two such requests at the same time, and requests of tasks wait, too. AirflowHome copies this file to
AIRFLOW_HOME/config, where Airflow loads it as `airflow_local_settings`; no other code imports it.
"""

import sys
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

API_SERVER_WAITS_MS = 3_000


@event.listens_for(Engine, "savepoint")
def begin_to_write(connection: Any, _name: str) -> None:
    """Begin a write transaction before the savepoint, unless a transaction has begun already."""
    if connection.dialect.driver == "pysqlite" and not connection.connection.dbapi_connection.in_transaction:
        connection.connection.dbapi_connection.execute("BEGIN IMMEDIATE")


@event.listens_for(Engine, "connect")
def wait_in_the_api_server(connection: Any, _record: Any) -> None:
    if "api-server" in sys.argv and type(connection).__module__ == "sqlite3":
        connection.execute(f"PRAGMA busy_timeout = {API_SERVER_WAITS_MS}")
