"""DuckDB over published files: one database in memory, with a memory limit, that reads given Parquet files.

DuckDB fetches no extension, reads no Python object and spills nothing to disk. It reads remote files through
pyiceberg's file system, with the lake's properties.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from glob import escape
from typing import TYPE_CHECKING, Any

from sexton.errors import SextonError
from sexton.tables import TABLES

if TYPE_CHECKING:
    import duckdb

MEMORY_MB = 384
"""DuckDB's memory limit; a web process needs some 400 MB more for libraries."""
THREADS = 2
_SETTINGS = {
    "threads": str(THREADS),
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
_THEN = ("SET GLOBAL parquet_metadata_cache=true", "SET lock_configuration=true")
Rows = list[dict[str, Any]]


class UnreadableFiles(SextonError):
    """Files are gone, or a query needs more memory than allowed."""


class Database:
    """A DuckDB database in memory, opened by the first query; safe for any number of threads."""

    def __init__(self, *, memory_mb: int = MEMORY_MB) -> None:
        self._memory_mb = memory_mb
        self._lock = threading.Lock()
        self._opened: duckdb.DuckDBPyConnection | None = None
        self._systems: set[str] = set()
        self._made = 0

    def rows(self, sql: str, *parameters: Any) -> Rows:
        """The rows of a query, as dicts."""
        import duckdb

        cursor = self._connection().cursor()
        try:
            cursor.execute(sql, list(parameters))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.InvalidInputException) as error:
            raise UnreadableFiles(f"the tables cannot be read: {type(error).__name__}") from error
        finally:
            cursor.close()

    def create_table(self, sql: str) -> str:
        """Create a table in memory from a query; return the table's name."""
        with self._lock:
            self._made += 1
            name = f"derived_{self._made}"
        self.rows(f"CREATE TABLE {name} AS {sql}")
        return name

    def drop_table(self, name: str) -> None:
        self.rows(f"DROP TABLE IF EXISTS {name}")

    def reading(self, paths: Sequence[str], properties: Mapping[str, str], *, with_name: bool = False) -> str:
        """SQL, for a FROM clause, that reads Parquet files; `properties` are pyiceberg's for the files' storage.

        A column that some files lack is NULL in the rows of those files. `with_name` adds the column `filename`.
        """
        files = ", ".join(text(escape(self.readable(path, properties))) for path in paths)
        name = ", filename=true" if with_name else ""
        return f"read_parquet([{files}], union_by_name=true, hive_partitioning=false{name})"

    def readable(self, path: str, properties: Mapping[str, str]) -> str:
        """A data file's path for DuckDB: local, or in a file system registered with DuckDB."""
        scheme, separator, rest = path.partition("://")
        if not separator:
            return path.removeprefix("file:")
        if scheme == "file":
            return rest
        self._register(scheme, rest.partition("/")[0], properties)
        return f"{_protocol(scheme)}://{rest}"

    def _register(self, scheme: str, netloc: str, properties: Mapping[str, str]) -> None:
        from fsspec.implementations.arrow import ArrowFSWrapper  # type: ignore[import-untyped]
        from pyiceberg.io.pyarrow import PyArrowFileIO

        protocol, connection = _protocol(scheme), self._connection()
        with self._lock:
            if protocol in self._systems:
                return
            arrow = PyArrowFileIO(dict(properties)).fs_by_scheme(scheme, netloc)
            kind = type("Stored", (ArrowFSWrapper,), {"protocol": protocol, "_strip_protocol": staticmethod(_path)})
            connection.register_filesystem(kind(arrow))
            self._systems.add(protocol)

    def _connection(self) -> "duckdb.DuckDBPyConnection":
        with self._lock:
            if self._opened is None:
                import duckdb

                opened = duckdb.connect(config={**_SETTINGS, "memory_limit": f"{self._memory_mb}MB"})
                for statement in _THEN:
                    opened.execute(statement)
                self._opened = opened
            return self._opened


def text(value: str) -> str:
    """A string literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def marks(values: Sequence[Any]) -> str:
    """One placeholder for each value, for IN; without values NULL, which matches nothing."""
    return ", ".join("?" * len(values)) or "NULL"


def declared(table: str, there: Collection[str]) -> list[str]:
    """The declared columns of a table, for SELECT; columns not in `there` are NULL."""
    return [
        f'"{name}"' if name in there else f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in _columns(table).items()
    ]


def no_rows(table: str) -> str:
    """SQL for a table without rows."""
    return f"(SELECT {', '.join(declared(table, ()))} WHERE false)"


@cache
def _columns(table: str) -> Mapping[str, str]:
    """The declared columns of a table, with DuckDB's types."""
    import duckdb

    with duckdb.connect() as database:
        rows = database.from_arrow(TABLES[table].arrow_schema().empty_table())
        return dict(zip(rows.columns, map(str, rows.types), strict=True))


def _path(where: str) -> str:
    """A path without its protocol, for pyarrow's file systems: bucket and key."""
    return where.partition("://")[2] or where


def _protocol(scheme: str) -> str:
    return f"sexton{scheme}"
