"""The Kafka cluster as an Airflow connection: what a snapshot job may see of it, and by which way.

The connection's extra holds the client configuration, as the Kafka provider has it. The address goes to the job as an
argument; everything else goes through a file that only this user can read and that is gone when the task ends, because
arguments show in logs and in `ps`.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException, AirflowRuntimeError
from airflow.sdk.log import mask_secret

BOOTSTRAP = "bootstrap.servers"
SECRET = re.compile(r"password|passwd|secret|token|jaas|pem|credential|keystore\.key|truststore\.cert", re.IGNORECASE)
"""Names whose values no log may show; Airflow masks by names of its own, which `sasl.jaas.config` is not among."""
QUOTED = re.compile(r"[\"']([^\"']+)[\"']")


def client_config(conn_id: str) -> dict[str, str]:
    """The client configuration of an Airflow connection, in Java's or librdkafka's names; always has bootstrap.servers.

    Fails the task without a retry when there is no such connection: a guessed cluster would be the wrong one.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise AirflowFailException(f"no Airflow connection {conn_id!r}: create it, type kafka ({error})") from None
    config = {name: _text(value) for name, value in connection.extra_dejson.items() if value is not None}
    if not config.get(BOOTSTRAP) and connection.host:
        config[BOOTSTRAP] = f"{connection.host}:{connection.port or 9092}"
    if not config.get(BOOTSTRAP):
        raise AirflowFailException(f"connection {conn_id!r} names no {BOOTSTRAP} in its extra")
    _mask(config)
    return config


@contextmanager
def config_file(config: Mapping[str, str]) -> Iterator[Path | None]:
    """A properties file (mode 0600) of everything but the address while the block runs; None when nothing is left."""
    rest = {name: value for name, value in config.items() if name != BOOTSTRAP}
    if not rest:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", prefix="sexton-", suffix=".properties", encoding="utf-8") as file:
        file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in sorted(rest.items()))
        file.flush()
        yield Path(file.name)


def _mask(config: Mapping[str, str]) -> None:
    """Keep secrets out of the task's log, also what a jaas line quotes."""
    for name, value in config.items():
        if SECRET.search(name) and not name.endswith((".location", ".url")):
            for secret in (value, *QUOTED.findall(value)):
                mask_secret(secret)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """As java.util.Properties writes it, so that any client reads it back unchanged."""
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("=", "\\="), (":", "\\:")):
        text = text.replace(plain, escaped)
    if text[:1] in (" ", "#", "!"):
        text = "\\" + text
    return text
