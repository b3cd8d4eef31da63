"""A real Postgres as scripts/databases.sh leaves it: the databases and roles of docker-compose.yaml."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

from sexton.settings import environment
from tests.deploy.compose import ROOT
from tests.postgres import PACKAGE, USER, Postgres


def make_databases(server: Postgres, secrets: Path) -> None:
    """Run the script with the passwords in the folder `secrets`; it says nothing."""
    package = find_spec(PACKAGE)
    assert package is not None
    assert package.origin is not None
    programs = Path(package.origin).parent / "pginstall18" / "bin"
    login = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGPASSWORD": server.password}
    path = f"{programs}:{environment()['PATH']}"
    given = environment(**login, POSTGRES_USER=USER, SECRETS=str(secrets), PATH=path)
    command = ["sh", str(ROOT / "scripts" / "databases.sh")]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
