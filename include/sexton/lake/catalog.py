"""One set of Iceberg catalog properties, in the words of Iceberg's Java side, for Spark and for readers without a JVM.

The default is the JDBC catalog on a SQLite file. Any other (REST, Glue, Nessie, Polaris, JDBC on Postgres) is a matter
of its properties: they go to Spark as they are, and to pyiceberg with `jdbc` told in its words.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.errors import NoCoverage, UsageError
from sexton.settings import settings
from sexton.tables import Table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_SQLITE = "jdbc:sqlite:"
_JDBC_DEFAULTS = {
    "jdbc.schema-version": "V1",  # the layout that pyiceberg reads too
    "jdbc.busy_timeout": "60000",  # SQLite has one writer: the others wait
}

_STORAGE = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "oss.", "client.", "py-io-impl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A catalog under Spark's name `name`, and the namespace in it that holds the tables."""

    properties: Mapping[str, str] = field(repr=False)  # may hold a password
    name: str = "lake"
    namespace: str = "sexton"

    def identifier(self, table: Table | str, branch: str | None = None) -> str:
        """The table's name in Spark SQL. A branch is a part of the name: `option("branch", ...)` writes to main."""
        name = table if isinstance(table, str) else table.name
        parts = [self.name, self.namespace, name, *([f"branch_{branch}"] if branch else [])]
        return ".".join(f"`{part}`" for part in parts)

    def spark_conf(self, jars: Iterable[Path] = ()) -> dict[str, str]:
        """What a Spark session needs before it starts to know this lake."""
        prefix = f"spark.sql.catalog.{self.name}"
        paths = ",".join(str(jar) for jar in jars)
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            # Every statement reads the table anew: another process may have published meanwhile.
            f"{prefix}.cache-enabled": "false",
            **{f"{prefix}.{key}": value for key, value in self.properties.items()},
            **({"spark.jars": paths} if paths else {}),
        }

    def reader(self) -> "Catalog":
        """The same catalog for pyiceberg; NoCoverage while its SQLite file is not there."""
        from pyiceberg.catalog import load_catalog

        if (file := _sqlite_file(self.properties)) is not None and not file.exists():
            raise NoCoverage("nothing was ever published here", place=file)
        return load_catalog(self.name, **reader_properties(self.properties))

    @property
    def place(self) -> str:
        """Where the tables are, for people; never a catalog's URI, which may hold a password."""
        return f"{self.name}.{self.namespace} in {self.properties.get('warehouse', 'the warehouse of its catalog')}"

    def storage_properties(self) -> dict[str, str]:
        """What a process needs to read files of the lake without its catalog."""
        return {key: value for key, value in self.properties.items() if key.startswith(_STORAGE)}


def open_lake(properties: Mapping[str, str] | None = None) -> Lake:
    """The lake of this deployment's settings, or of other catalog `properties`; local folders are made."""
    config = settings()
    default = {"type": "jdbc", "uri": config.iceberg_catalog_uri, "warehouse": config.warehouse_uri}
    found = dict(properties or config.catalog_properties or default)
    if found.get("type") == "jdbc":
        found = {**_JDBC_DEFAULTS, **found}
        if (file := _sqlite_file(found)) is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
    return Lake(properties=found)


def spark_conf(jars: Iterable[Path] = ()) -> dict[str, str]:
    """`Lake.spark_conf` of this deployment's lake."""
    return open_lake().spark_conf(jars)


def reader_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """pyiceberg's properties for a catalog that Iceberg's Java side knows by `properties`.

    Only `jdbc` differs; what pyiceberg does not know it leaves alone.
    """
    if properties.get("type") != "jdbc":
        return dict(properties)
    shared = {key: value for key, value in properties.items() if not key.startswith("jdbc.")}
    return {**shared, "type": "sql", "uri": _sqlalchemy_url(properties), "init_catalog_tables": "false"}


def _sqlite_file(properties: Mapping[str, str]) -> Path | None:
    uri = properties.get("uri", "")
    return Path(uri.removeprefix(_SQLITE)).absolute() if uri.startswith(_SQLITE) else None


def _sqlalchemy_url(properties: Mapping[str, str]) -> str:
    from sqlalchemy.engine import make_url

    uri = properties.get("uri", "")
    if (file := _sqlite_file(properties)) is not None:
        return f"sqlite:///{file}"
    if not uri.startswith("jdbc:"):
        raise UsageError("a JDBC catalog's uri begins with jdbc:", place=uri or "uri", fix="jdbc:sqlite:FILE")
    url = make_url(uri.removeprefix("jdbc:"))
    named = url.set(
        username=properties.get("jdbc.user", url.username), password=properties.get("jdbc.password", url.password)
    )
    return named.render_as_string(hide_password=False)
