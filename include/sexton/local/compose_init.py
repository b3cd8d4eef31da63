"""Prepares the services of docker-compose.yaml at each start: secrets, bucket, database, pools, connections.

    python -m sexton.local.compose_init secrets FOLDER    the missing secrets
    python -m sexton.local.compose_init init              the bucket, Airflow's tables, pools and connections
    python -m sexton.local.compose_init pools             the pools alone

Each step may run again: existing secrets and connections are not changed. Secrets never pass through the environment or
an argument, where `docker inspect` and `ps` would show them: each is a file of mode 0600 that belongs to the one user
who reads it. scripts/databases.sh creates the databases in Postgres.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.airflow.pools import POOLS
from sexton.archive.folder import filesystem
from sexton.errors import SetupError, SextonError
from sexton.runs.spark_session import CONNECT_PORT
from sexton.settings import Settings, program, settings, variable

USER, APPROVER = "admin", "approver"
USERS = {USER: "admin", APPROVER: "user"}
"""User -> role (viewer, user, op, admin). Two, because the user who triggers a deletion cannot approve it."""
SECRETS = (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret"))
OWNERS = {
    **dict.fromkeys(("airflow", "spark-master", "spark-worker", "spark-connect"), 10_001),
    "postgres": 999,
    "object-store": 1_000,
}
"""Folder of secrets -> the id of the user that reads them in its image: Sexton's, Postgres's, SeaweedFS's. Code on a
Spark worker can read the worker's folder, so that folder has only what executors need."""
SPARK_READERS = ("spark-worker", "spark-connect")
"""The folders of services that need the logins of the object store and the lake's catalog, in addition to Airflow."""
KEPT = "kept"
"""The folder with one file of all secrets, which belongs to root. The other files are made from that file."""
DATABASES = ("airflow", "iceberg")
"""Databases, and the roles of the same names that own them."""
DATABASE_HOST = "postgres"
SPARK_DEFAULTS = "spark-defaults.conf"
"""File with properties of Spark's master, workers and drivers, in the folder SPARK_CONF_DIR."""
TOKEN = "spark.connect.authenticate.token"
"""The Connect server's property with the token that clients have to send."""
CONNECT_HOST, CONNECT_TOKEN = "spark-connect", "connect_token"
"""Host of the Connect server, and the file next to SPARK_DEFAULTS with its token: `init` makes a connection of both."""
TIMEOUT_S = 300


def write_secrets(root: Path, *, owners: Mapping[str, int] | None = None) -> list[Path]:
    """Create the secrets that `root` lacks, each file atomically; returns the new files.

    `owners` are user ids by folder; None: this user. Existing files are not changed.
    """
    kept = root / KEPT / "secrets.json"
    known: dict[str, str] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    every = {**_new_secrets(), **known}
    made = []
    if every != known:
        _write_private(kept, json.dumps(every), owner=None)
        made.append(kept)
    for name, text in _files(every).items():
        path = root / name
        if not path.exists():
            _write_private(path, text, owner=owners[path.parent.name] if owners else None)
            made.append(path)
    return made


def init(config: Settings) -> None:
    """Create what the services need; SetupError names the step that failed."""
    ensure_bucket(config.archive_uri)
    _airflow("db", "migrate")
    make_pools()
    make_connections(config)


def make_pools() -> None:
    """Create or reset the pools: the pipeline relies on their single slot."""
    pools = {name: {"slots": 1, "description": text, "include_deferred": False} for name, text in POOLS.items()}
    _import("pools", pools)


def make_connections(config: Settings) -> None:
    """Create the missing connections; existing ones are not changed."""
    _import("connections", {**connections(config), config.spark_conn_id: spark_connection()})


def spark_connection() -> dict[str, Any]:
    """The connection to the Connect server, with its token from the folder that SPARK_CONF_DIR names."""
    token = Path(variable("SPARK_CONF_DIR") or "", CONNECT_TOKEN).read_text(encoding="utf-8")
    server = {"conn_type": "spark_connect", "host": CONNECT_HOST, "port": CONNECT_PORT}
    return {**server, "password": token, "extra": {"use_ssl": False}}


def connections(config: Settings) -> dict[str, dict[str, Any]]:
    """The connections of the DAGs, as Airflow reads them from JSON; those that change a cluster have their own.

    A cluster whose address is not in the settings gets none: its owner creates it.
    """
    kafka = {
        conn_id: {"conn_type": "kafka", "extra": {"bootstrap.servers": cluster.bootstrap_servers}}
        for cluster in config.every_cluster
        if cluster.bootstrap_servers
        for conn_id in (cluster.kafka_conn_id, cluster.applier_conn_id)
    }
    return {
        **kafka,
        config.spark_conn_id: {"conn_type": "spark", "host": config.spark_master},
    }


def new_secret(name: str) -> str:
    """A new secret: 32 bytes in url-safe base64 for Fernet, else 64 bytes (for SHA-512)."""
    return urlsafe_b64encode(secrets.token_bytes(32)).decode() if name == "fernet_key" else secrets.token_hex(64)


def ensure_bucket(uri: str) -> bool:
    """Create the bucket of an s3:// URI if it does not exist; returns whether it was created."""
    if not uri.startswith("s3://"):
        return False
    store, path = filesystem(f"{uri}{'&' if '?' in uri else '?'}allow_bucket_creation=true")
    bucket = path.partition("/")[0]
    if store.get_file_info(bucket).type is not pafs.FileType.NotFound:
        return False
    store.create_dir(bucket)
    return True


def _new_secrets() -> dict[str, str]:
    return {
        **{name: new_secret(name) for _, name in SECRETS},
        **{f"database.{name}": secrets.token_urlsafe(24) for name in ("superuser", *DATABASES)},
        **{f"user.{name}": secrets.token_urlsafe(12) for name in USERS},
        "s3.access_key": secrets.token_hex(10).upper(),
        "s3.secret_key": secrets.token_urlsafe(30),
        "spark.authenticate.secret": secrets.token_urlsafe(48),
        TOKEN: secrets.token_urlsafe(32),
    }


def _files(secret: Mapping[str, str]) -> dict[str, str]:
    """File name, with its reader's folder, -> content in the format of the reader."""
    login = {"accessKey": secret["s3.access_key"], "secretKey": secret["s3.secret_key"]}
    identity = {"name": "sexton", "credentials": [login], "actions": ["Admin", "Read", "List", "Tagging", "Write"]}
    metadata, lake = (f"{name}:{secret[f'database.{name}']}" for name in DATABASES)
    storage = {
        "pgpass": f"{DATABASE_HOST}:5432:iceberg:{lake}\n",
        "aws_credentials": "[default]\n"
        f"aws_access_key_id = {login['accessKey']}\naws_secret_access_key = {login['secretKey']}\n",
    }
    spark, token = _spark_defaults(secret["spark.authenticate.secret"]), secret[TOKEN]
    return {
        **{f"airflow/{name}": secret[name] for _, name in SECRETS},
        "airflow/sql_alchemy_conn": f"postgresql+psycopg2://{metadata}@{DATABASE_HOST}/airflow",
        **{f"{reader}/{name}": storage[name] for reader in ("airflow", *SPARK_READERS) for name in storage},
        **{f"{reader}/{SPARK_DEFAULTS}": spark for reader in ("airflow", "spark-master", "spark-worker")},
        f"spark-connect/{SPARK_DEFAULTS}": f"{spark}{TOKEN} {token}\n",
        f"airflow/{CONNECT_TOKEN}": token,
        "airflow/passwords.json": json.dumps({user: secret[f"user.{user}"] for user in USERS}),
        **{f"postgres/{name}": secret[f"database.{name}"] for name in ("superuser", *DATABASES)},
        "object-store/config.json": json.dumps({"identities": [identity]}),
    }


def _spark_defaults(secret: str) -> str:
    """Properties with the secret that a standalone cluster and its drivers share, so that nobody else can connect.

    Spark passes the secret to executors in their environment, not on a command line. The master's REST server for
    submissions is off, because it does not check the secret, and a master with a secret does not start with it.
    """
    properties = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.master.rest.enabled": "false",
    }
    return "".join(f"{name} {value}\n" for name, value in properties.items())


def _write_private(path: Path, text: str, *, owner: int | None) -> None:
    """Write the file, then change its owner: without capabilities even root may not write another user's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    part.write_text(text, encoding="utf-8")
    if owner is not None:
        os.chown(part, owner, owner)
    part.replace(path)


def _import(kind: str, content: Mapping[str, object]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{kind}.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        _airflow(kind, "import", str(file))


def _airflow(*arguments: str) -> None:
    """Run an airflow command of this Python environment, with the output of this process."""
    command = [program("airflow"), *arguments]
    try:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        raise SetupError(f"airflow {arguments[0]} took more than {TIMEOUT_S} s") from None
    if code:
        raise SetupError(f"airflow {' '.join(arguments[:2])} ended with {code}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step; print an error as one line."""
    parser = argparse.ArgumentParser(prog="python -m sexton.local.compose_init", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("secrets").add_argument("folder", type=Path)
    steps.add_parser("init")
    steps.add_parser("pools")
    given = parser.parse_args(arguments)
    try:
        if given.step == "secrets":
            made = write_secrets(given.folder, owners=OWNERS if os.geteuid() == 0 else None)
            sys.stdout.write(f"{len(made)} new files of secrets in {given.folder}\n")
        elif given.step == "pools":
            make_pools()
        else:
            init(settings())
    except SextonError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
