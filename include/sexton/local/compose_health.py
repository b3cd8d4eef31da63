"""The health checks of docker-compose.yaml, whose images have neither curl nor wget.

    python -m sexton.local.compose_health URL               exit code 0 if it answers with 200
    python -m sexton.local.compose_health URL COMPONENT     0 if its JSON also reports COMPONENT healthy
    python -m sexton.local.compose_health tcp://HOST:PORT   0 if somebody listens

Airflow's API server reports the heartbeats of scheduler, DAG processor and triggerer, so that a check costs a request
instead of a start of Airflow. This module imports only the standard library, because it runs every few seconds.
"""

import json
import socket
import sys
from collections.abc import Sequence
from http.client import HTTPException
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

TIMEOUT_S = 5
OK = 200


def complaint(url: str, component: str | None = None) -> str:
    """What is wrong, or an empty string. Uses no proxy: the service is local."""
    try:
        if (address := urlsplit(url)).scheme == "tcp":
            socket.create_connection((address.hostname or "", address.port or 0), TIMEOUT_S).close()
            return ""
        with build_opener(ProxyHandler({})).open(url, timeout=TIMEOUT_S) as answer:
            status, body = answer.status, answer.read()
    except (OSError, HTTPException, ValueError) as error:
        return f"{url}: {error}"
    if status != OK:
        return f"{url}: {status}"
    if component is None:
        return ""
    try:
        said = json.loads(body)[component]["status"]
    except (ValueError, KeyError, TypeError):
        return f"{url}: does not report {component}"
    return "" if said == "healthy" else f"{component}: {said}"


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong on standard error, which `docker inspect` shows."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m sexton.local.compose_health URL [COMPONENT]\n")
        return 2
    wrong = complaint(*arguments)
    if wrong:
        sys.stderr.write(f"{wrong}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
