"""Makes SQLite transactions of the embedded Airflow that begin at a savepoint begin as write transactions.

By default pysqlite begins them as read transactions. Such a transaction that writes after somebody else has written
fails at once (`Database is locked`), whatever SQLite's busy timeout, as when a backfill is created; the rollback that
follows can end the scheduler. A write transaction waits for its turn instead. AirflowHome copies this file to
AIRFLOW_HOME/config, where Airflow loads it as `airflow_local_settings`; nobody imports it.
"""

from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


@event.listens_for(Engine, "savepoint")
def begin_to_write(connection: Any, _name: str) -> None:
    """Begin before the savepoint, unless something has been written already."""
    if connection.dialect.driver == "pysqlite" and not connection.connection.dbapi_connection.in_transaction:
        connection.connection.dbapi_connection.execute("BEGIN IMMEDIATE")
