"""Reads the configuration of Kafka clusters from Airflow connections, and passes it to a job or command.

The connection's extra has the client configuration, as for Airflow's Kafka provider. The job gets the address as an
argument, and everything else in a file that only this user can read and that is deleted when the task ends, because
logs and `ps` show arguments.
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
"""Names whose values must not be logged. Airflow masks by its own list of names, which lacks `sasl.jaas.config`."""
QUOTED = re.compile(r"[\"']([^\"']+)[\"']")


def client_config(conn_id: str) -> dict[str, str]:
    """Return the client configuration of a connection, with Java's or librdkafka's names, and with bootstrap.servers.

    Fail the task without retry if there is no such connection.
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
    """Yield a temporary properties file (mode 0600) of everything except the address; None if there is nothing else."""
    rest = {name: value for name, value in config.items() if name != BOOTSTRAP}
    if not rest:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", prefix="sexton-", suffix=".properties", encoding="utf-8") as file:
        file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in sorted(rest.items()))
        file.flush()
        yield Path(file.name)


def _mask(config: Mapping[str, str]) -> None:
    """Mask secrets in the task's log, including quoted values in a JAAS line."""
    for name, value in config.items():
        if SECRET.search(name) and not name.endswith((".location", ".url")):
            for secret in (value, *QUOTED.findall(value)):
                mask_secret(secret)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """Escape as java.util.Properties does."""
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("=", "\\="), (":", "\\:")):
        text = text.replace(plain, escaped)
    if text[:1] in (" ", "#", "!"):
        text = "\\" + text
    return text
