"""The embedded Spark Connect server: one JVM with warm Python workers for all jobs of the embedded Airflow.

Whoever can connect can run code as this user. Therefore the server listens on 127.0.0.1 alone and demands a token.
"""

import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sexton.lake.catalog import EXTENSIONS
from sexton.ports import HOST
from sexton.runs.spark_session import QUICK_JVM_OPTIONS, REMOTE
from sexton.settings import Settings, program
from sexton_dev.ports import free_port

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
UI_PORT = "spark.ui.port"
DAEMON = {"spark.python.daemon.module": "sexton.spark.daemon"}
WARM_JVM_OPTIONS = f"{QUICK_JVM_OPTIONS} -XX:ReservedCodeCacheSize=240m"
"""With the quick compiler alone Java keeps 48 MB of machine code, which the plans of one run fill: it would compile the
same methods again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkServer:
    """Where the server of one start listens, and what it demands of clients."""

    port: int = field(default_factory=free_port)
    ui_port: int = field(default_factory=free_port)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def ui(self) -> str:
        """Address of the Spark UI, which is read-only."""
        return _url(self.ui_port)

    @property
    def connection(self) -> dict[str, Any]:
        """The Airflow connection. Spark takes a token without TLS only for `localhost`."""
        return {"conn_type": "spark_connect", "host": "localhost", "port": self.port, "password": self.token}

    def command(self, config: Settings, jars: Iterable[Path]) -> list[str]:
        """The program and arguments, none of which is secret; `jars` are those of the lake."""
        conf = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
            **EXTENSIONS,
            **DAEMON,
            "spark.sql.warehouse.dir": str(config.var / "spark-warehouse"),
            UI_PORT: str(self.ui_port),
            "spark.ui.killEnabled": "false",
        }
        return [
            program("spark-submit"),
            f"--master={config.spark_master}",
            f"--driver-memory={config.spark_driver_memory}",
            f"--jars={','.join(map(str, jars))}",
            *(f"--conf={name}={value}" for name, value in conf.items()),
            f"--class={SERVER_CLASS}",
            "spark-internal",
        ]

    def is_ready(self) -> bool:
        """Whether clients can connect."""
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def environment(self, clients: Mapping[str, str]) -> dict[str, str]:
        """The server's environment, made from that of its clients."""
        ours = {name: value for name, value in clients.items() if name != REMOTE}  # spark-submit would connect to it
        return {**ours, "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token, "SPARK_SUBMIT_OPTS": WARM_JVM_OPTIONS}


def ui_of(command: Iterable[str]) -> str | None:
    """Address of the Spark UI of a running server, from the server's command line."""
    found = re.search(rf"\b{re.escape(UI_PORT)}=(\d+)", " ".join(command))
    return _url(found[1]) if found else None


def _url(port: int | str) -> str:
    return f"http://{HOST}:{port}"
