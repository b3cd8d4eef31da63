"""What the embedded Airflow loads as its `airflow_local_settings`: its database is SQLite, and pysqlite opens a
transaction at a savepoint as a reader's.

Such a transaction that writes after somebody else has written fails at once, whatever the busy timeout of SQLite.
Creating a backfill does just that (`Database is locked`); what Airflow then takes back can end the scheduler. One that
begins as a writer's waits for its turn instead. AirflowHome copies this file to AIRFLOW_HOME/config; nobody imports it.
"""

from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


@event.listens_for(Engine, "savepoint")
def begin_to_write(connection: Any, _name: str) -> None:
    """Begin before the savepoint, unless something has been written already."""
    if connection.dialect.driver == "pysqlite" and not connection.connection.dbapi_connection.in_transaction:
        connection.connection.dbapi_connection.execute("BEGIN IMMEDIATE")
