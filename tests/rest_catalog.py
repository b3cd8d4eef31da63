"""Iceberg's own REST catalog, the reference implementation, in a JVM of its own, which ends with the block.

No program of it is on Maven Central, but its servlet is, in a jar of Iceberg's tests. The rest comes with pyspark: a
web server, Hadoop, and py4j, by which Python puts these together. The server is of another release than the clients.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from sexton.java import find_java
from sexton.kafka.jars import ensure
from sexton.lake.catalog import Lake, open_lake
from sexton.settings import settings, variable

LOCK = Path(__file__).with_name("rest_catalog.lock")
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
REQUEST = "%m|%U|%{User-Agent}i|%{Authorization}i"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCatalog:
    """A server on the loopback address with one catalog, and the properties of a client that logs in."""

    properties: dict[str, str]
    log: Path

    @property
    def lake(self) -> Lake:
        """Under a name of its own: a session keeps the first catalog that it saw of a name."""
        return replace(open_lake(self.properties), name=f"rest_{secrets.token_hex(4)}")

    @property
    def secret(self) -> str:
        return self.properties["credential"].partition(":")[2]

    def requests(self) -> list[list[str]]:
        """Method, path, client and Authorization of each request so far."""
        return [line.split("|") for line in self.log.read_text().splitlines()]


def fetch() -> list[Path]:
    """The jars that neither users nor Spark need."""
    return ensure(settings().cache, "rest_catalog", lock=LOCK)  # type: ignore[arg-type]


@contextmanager
def running_rest_catalog(folder: Path) -> Iterator[RestCatalog]:
    """A new server while the block runs; tables and requests are kept in `folder`."""
    own, cache = Path(pyspark.__file__).parent / "jars", settings().cache
    (py4j,) = own.glob("py4j-*.jar")
    sqlite = [jar for jar in ensure(cache, "spark") if jar.name.startswith("sqlite")]
    port, process = launch_gateway(
        jarpath=str(py4j), classpath=":".join(map(str, [*fetch(), *sqlite, own / "*"])), javaopts=list(OPTIONS),
        java_path=str(find_java(cache, variable("JAVA_HOME"), variable("PATH")).java), die_on_exit=True,
        return_proc=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        log = folder / "requests.log"
        uri = _start(gateway.jvm, folder, log)
        credential = f"sexton:canary{secrets.token_hex(8)}"
        yield RestCatalog(properties={"type": "rest", "uri": uri, "credential": credential}, log=log)
    finally:
        gateway.close()
        process.kill()
        process.wait()


def _start(jvm: Any, folder: Path, log: Path) -> str:
    """Serve a catalog whose own records are in SQLite; returns its URI."""
    iceberg, jetty = jvm.org.apache.iceberg, jvm.org.sparkproject.jetty
    properties = {
        "type": "jdbc", "uri": f"jdbc:sqlite:{folder / 'catalog.db'}", "warehouse": str(folder / "warehouse"),
        "jdbc.schema-version": "V1",
        "clients": "1",  # SQLite has one writer at a time
    }  # fmt: skip
    catalog = iceberg.CatalogUtil.buildIcebergCatalog("served", properties, jvm.org.apache.hadoop.conf.Configuration())
    servlet = iceberg.rest.RESTCatalogServlet(iceberg.rest.RESTCatalogAdapter(catalog))
    server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    handler = jetty.servlet.ServletContextHandler()
    handler.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
    server.setHandler(handler)
    server.setRequestLog(jetty.server.CustomRequestLog(str(log), REQUEST))
    server.start()
    return f"http://127.0.0.1:{server.getConnectors()[0].getLocalPort()}"
