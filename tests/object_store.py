"""An object store for a test: moto's server, which speaks S3 and asks nobody who one is."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from moto.backends import get_backend
from moto.server import ThreadedMotoServer


@contextmanager
def running_object_store() -> Iterator[str]:
    """Its `host:port`. It starts empty: what another one has kept in this process is gone, they share their memory."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it has a line to say for each request
    get_backend("s3").reset()
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"{host}:{port}"
    finally:
        server.stop()
