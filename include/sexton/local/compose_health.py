"""Whether one service answers: the health checks of docker-compose.yaml, where images have neither curl nor wget.

    python -m sexton.local.compose_health URL               0 when it answers with 200
    python -m sexton.local.compose_health URL COMPONENT     0 when the JSON there also says that COMPONENT is healthy

Airflow's API server knows of its scheduler, DAG processor and triggerer by their heartbeats, so that asking it costs a
request and no start of Airflow. Only the standard library, because it runs every few seconds.
"""

import json
import sys
from collections.abc import Sequence
from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

TIMEOUT_S = 5
OK = 200


def complaint(url: str, component: str | None = None) -> str:
    """What is wrong, empty when nothing is. Proxies are not asked: what is checked is beside us."""
    try:
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
        return f"{url}: says nothing of {component}"
    return "" if said == "healthy" else f"{component}: {said}"


def main(arguments: Sequence[str]) -> int:
    """What is wrong goes to standard error, which `docker inspect` shows."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m sexton.local.compose_health URL [COMPONENT]\n")
        return 2
    wrong = complaint(*arguments)
    if wrong:
        sys.stderr.write(f"{wrong}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
