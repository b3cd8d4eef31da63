"""One set of Iceberg catalog properties, named as in Java, for Spark and for readers without a JVM.

The default is the JDBC catalog on a SQLite file. For any other catalog (REST, Glue, Nessie, Polaris, JDBC on Postgres)
only the properties differ: Spark gets them unchanged, pyiceberg gets `jdbc` translated. A login in a JDBC uri is moved
to separate properties first, since errors and plans may show a uri.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from sexton.errors import NoCoverage, SetupError, SextonError, UsageError
from sexton.settings import settings
from sexton.tables import Table
from sexton.uris import split_login

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from sqlalchemy import URL

EXTENSIONS = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
"""Spark settings that a JVM needs for Iceberg before it starts."""
_JDBC = "jdbc:"
_SQLITE = "jdbc:sqlite:"
_JDBC_DEFAULTS = {"jdbc.schema-version": "V1"}  # the schema that pyiceberg can read
_SQLITE_DEFAULTS = {"jdbc.busy_timeout": "60000"}  # SQLite has one writer at a time: others wait
_LOGIN = ("user", "password")
_LIBPQ = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    **{name: name for name in ("sslmode", "sslrootcert", "sslcert", "sslkey")},
}
"""Options of Postgres's JDBC driver that libpq also has; the driver's other options only matter to the driver."""

_NOTHING = "nothing was ever published here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A catalog, named `name` in Spark, and the namespace in it that contains the tables."""

    properties: Mapping[str, str] = field(repr=False)  # may contain a password
    name: str = "lake"
    namespace: str = "sexton"

    def identifier(self, table: Table | str, branch: str | None = None) -> str:
        """The table's name in Spark SQL. A branch is part of the name, since `option("branch", ...)` writes to main."""
        name = table if isinstance(table, str) else table.name
        parts = [self.name, self.namespace, name, *([f"branch_{branch}"] if branch else [])]
        return ".".join(f"`{part}`" for part in parts)

    def spark_conf(self, jars: Iterable[Path] = ()) -> dict[str, str]:
        """Spark settings for this lake, which the session needs before it starts."""
        prefix = f"spark.sql.catalog.{self.name}"
        paths = ",".join(str(jar) for jar in jars)
        return {
            **EXTENSIONS,
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            # Every statement reloads the table: another process may have published meanwhile.
            f"{prefix}.cache-enabled": "false",
            **{f"{prefix}.{key}": value for key, value in self.properties.items()},
            **({"spark.jars": paths} if paths else {}),
        }

    def require_readable(self) -> None:
        """NoCoverage if nothing was ever published to the lake, SetupError without pyiceberg."""
        if (file := _sqlite_file(self.properties)) is not None and not file.exists():
            raise NoCoverage(_NOTHING, where=file)
        if find_spec("pyiceberg") is None:
            fix = "pip install 'sexton[lake]', or give the log: --segments DIR or --archive URI"
            raise SetupError("pyiceberg, which reads published tables, is not installed", fix=fix)

    def reader(self) -> "Catalog":
        """This catalog for pyiceberg, to be closed by the caller; errors as in `require_readable`."""
        self.require_readable()
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError, RESTError

        try:
            catalog = load_catalog(self.name, **reader_properties(self.properties))
        except NotInstalledError as error:
            what = f"pyiceberg lacks the driver of this catalog: {error.__cause__ or error}"
            raise SetupError(what, fix="for Postgres: pip install 'sexton[postgres]'") from None
        except (RESTError, OSError) as error:  # opening a REST catalog requests its configuration
            raise SextonError(f"the catalog does not answer: {error}", where=self.where) from None
        if self.properties.get("type") == "jdbc":
            _require_tables(catalog, self.properties["uri"])
        return catalog

    @property
    def where(self) -> str:
        """Location of the tables for messages; never a catalog's URI, which may have a password."""
        return f"{self.name}.{self.namespace} in {self.properties.get('warehouse', 'the warehouse of its catalog')}"


def open_lake(properties: Mapping[str, str] | None = None) -> Lake:
    """The lake in this deployment's settings, or the one with other catalog `properties`; creates local folders."""
    config = settings()
    default = {"type": "jdbc", "uri": config.iceberg_catalog_uri, "warehouse": config.warehouse_uri}
    found = dict(properties or config.catalog_properties or default)
    if found.get("type") == "jdbc":
        found = {**_JDBC_DEFAULTS, **_login_apart(found)}
        if (file := _sqlite_file(found)) is not None:
            found = {**_SQLITE_DEFAULTS, **found}
            file.parent.mkdir(parents=True, exist_ok=True)
    return Lake(properties=found)


def reader_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """pyiceberg's properties for a catalog whose properties in Java are `properties`.

    Only `jdbc` catalogs differ; pyiceberg ignores properties that it does not know.
    """
    if properties.get("type") != "jdbc":
        return dict(properties)
    shared = {key: value for key, value in properties.items() if not key.startswith("jdbc.")}
    return {**shared, "type": "sql", "uri": _sqlalchemy_url(properties), "init_catalog_tables": "false"}


def _require_tables(catalog: Any, uri: str) -> None:
    """NoCoverage without the catalog's own tables, which Spark creates; SextonError if the database is down."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import OperationalError

    try:
        is_there = inspect(catalog.engine).has_table("iceberg_tables")
    except OperationalError as error:
        catalog.close()
        raise SextonError(f"the catalog does not answer: {error.orig}", where=uri) from None
    if not is_there:
        catalog.close()
        raise NoCoverage(_NOTHING, where=uri)


def _sqlite_file(properties: Mapping[str, str]) -> Path | None:
    uri = properties.get("uri", "")
    return Path(uri.removeprefix(_SQLITE)).absolute() if uri.startswith(_SQLITE) else None


def _login_apart(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties with the user and password moved out of a JDBC uri; the driver also reads them as properties."""
    login, bare = split_login(properties.get("uri", "").removeprefix(_JDBC))
    parts = urlsplit(bare)
    options = parse_qsl(parts.query, keep_blank_values=True)
    found = [*zip(_LOGIN, map(unquote, login.split(":", 1)), strict=False)] if login else []
    found += [(name, value) for name, value in options if name in _LOGIN]
    if not found:
        return dict(properties)
    rest = urlencode([(name, value) for name, value in options if name not in _LOGIN], safe="/:")
    uri = _JDBC + parts._replace(query=rest).geturl()
    return {**{f"jdbc.{name}": value for name, value in found}, **properties, "uri": uri}


def _sqlalchemy_url(properties: Mapping[str, str]) -> str:
    from sqlalchemy.engine import make_url

    uri = properties.get("uri", "")
    if (file := _sqlite_file(properties)) is not None:
        return f"sqlite:///{file}"
    if not uri.startswith(_JDBC):
        raise UsageError("a JDBC catalog's uri begins with jdbc:", where=uri or "uri", fix="jdbc:sqlite:FILE")
    apart = _login_apart(properties)
    url = apart["uri"].removeprefix(_JDBC)
    bare = _postgres_url(url, apart) if url.startswith("postgresql:") else make_url(url)
    named = bare.set(username=apart.get("jdbc.user"), password=apart.get("jdbc.password"))
    return named.render_as_string(hide_password=False)


def _postgres_url(url: str, properties: Mapping[str, str]) -> "URL":
    """A Postgres JDBC url as one for psycopg2, with its hosts and the options that both drivers know."""
    from sqlalchemy import URL

    parts = urlsplit(url)
    asked = {name.removeprefix("jdbc."): value for name, value in properties.items() if name.startswith("jdbc.")}
    asked |= dict(parse_qsl(parts.query))
    options: dict[str, str | tuple[str, ...]] = {_LIBPQ[name]: asked[name] for name in asked if name in _LIBPQ}
    if asked.get("ssl") in ("", "true"):
        options.setdefault("sslmode", "verify-full")  # the JDBC driver's meaning of ssl=true
    if schema := asked.get("currentSchema"):
        options["options"] = f"-csearch_path={schema}"
    options["host"] = tuple(parts.netloc.split(",")) or ("localhost",)
    return URL.create("postgresql+psycopg2", database=parts.path.lstrip("/") or None, query=options)
