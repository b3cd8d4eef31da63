"""The embedded Airflow's home: its configuration, its secrets, and the environment that its processes run in.

airflow.cfg is rewritten at every start, so that it fits this release; its secrets are kept. airflow.cfg and the
password file have mode 0600. `AIRFLOW_HOME=var/airflow .venv/bin/airflow ...` works while the system runs.
"""

import configparser
import json
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from sexton.errors import UsageError
from sexton.local.compose_init import SECRETS, USER, USERS, connections, new_secret
from sexton.ports import HOST
from sexton.settings import Settings, environment

CONNECTION_PREFIX = "AIRFLOW_CONN_"
LOCAL_SETTINGS = Path(__file__).with_name("airflow_local_settings.py")
PARALLELISM = 2
"""Tasks at a time: each has its own JVM, and the pipeline is a chain."""


class AirflowHome:
    """`root` is AIRFLOW_HOME; everything but `users` (name -> role) comes from the settings."""

    def __init__(self, config: Settings, *, users: Mapping[str, str] | None = None) -> None:
        self._config = config
        self._users = USERS if users is None else users
        self.root = config.var / "airflow"

    @property
    def spark_connection(self) -> str:
        """The environment variable of the Spark connection."""
        return f"{CONNECTION_PREFIX}{self._config.spark_conn_id.upper()}"

    @property
    def port(self) -> int:
        return self._config.airflow_port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log_folder(self) -> Path:
        """Task logs; the output of the components is next to it."""
        return self._config.var / "log" / "airflow"

    @property
    def cfg_file(self) -> Path:
        return self.root / "airflow.cfg"

    @property
    def password_file(self) -> Path:
        return self.root / "simple_auth_manager_passwords.json.generated"

    def write(self) -> None:
        """Write airflow.cfg, and passwords for users without one."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = configparser.ConfigParser(interpolation=None)
        kept.read(self.cfg_file, encoding="utf-8")
        cfg = configparser.ConfigParser(interpolation=None)
        for section, options in self._options().items():
            cfg[section] = {name: value.replace("%", "%%") for name, value in options.items()}
        for section, name in SECRETS:
            cfg[section][name] = kept.get(section, name, fallback="") or new_secret(name)
        part = _private(self.cfg_file.with_suffix(".part"))
        with part.open("w", encoding="utf-8") as file:
            cfg.write(file)
        part.replace(self.cfg_file)
        config = self.root / "config"
        config.mkdir(exist_ok=True)
        shutil.copy(LOCAL_SETTINGS, config)
        self._write_passwords()

    def started_url(self) -> str:
        """The URL of the running Airflow, by the settings of its start, which may differ from the present ones."""
        started = configparser.ConfigParser(interpolation=None)
        started.read(self.cfg_file, encoding="utf-8")
        return started.get("api", "base_url", fallback=self.url)

    def password(self, user: str = USER) -> str:
        """The password of a user."""
        found = self._passwords().get(user)
        if found is None:
            raise UsageError(f"user {user} has no password", where=self.password_file, fix="run `make up` first")
        return found

    def environment(self, spark: Mapping[str, str], **changes: str) -> dict[str, str]:
        """The environment of Airflow's processes and thereby of the Spark jobs that they start.

        `spark` has the paths of Java and Python. Of the variables of another Airflow only connections are kept.
        Sexton's connections that are not among them lead to the embedded broker, which has no access control.
        """
        config = self._config
        foreign: dict[str, str | None] = {
            name: None
            for name in environment()
            if name.startswith("AIRFLOW_") and not name.startswith(CONNECTION_PREFIX)
        }
        ours = {
            f"{CONNECTION_PREFIX}{conn_id.upper()}": json.dumps(value) for conn_id, value in connections(config).items()
        }
        own: dict[str, str | None] = {
            **{name: value for name, value in ours.items() if name not in environment()},
            "AIRFLOW_HOME": str(self.root),
            "SEXTON_HOME": str(config.home),
            "GX_ANALYTICS_ENABLED": "false",
            "PYTHONUNBUFFERED": "1",
            "PATH": f"{Path(sys.executable).parent}:{environment().get('PATH', '/usr/bin:/bin')}",
            # Airflow's components use HTTP between them, which must not go through a proxy.
            "NO_PROXY": _joined(environment().get("NO_PROXY"), HOST, "localhost"),
            "no_proxy": _joined(environment().get("no_proxy"), HOST, "localhost"),
        }
        return environment(**{**foreign, **own, **spark, **changes})

    def _passwords(self) -> dict[str, str]:
        try:
            found = json.loads(self.password_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {str(user): str(password) for user, password in found.items()} if isinstance(found, dict) else {}

    def _write_passwords(self) -> None:
        known = self._passwords()
        made = {user: secrets.token_urlsafe(12) for user in self._users if user not in known}
        if made:
            _private(self.password_file).write_text(json.dumps({**known, **made}), encoding="utf-8")

    def _options(self) -> dict[str, dict[str, str]]:
        return {
            "core": {
                "dags_folder": str(self._config.home / "dags"),
                "plugins_folder": str(self._config.home / "plugins"),
                "load_examples": "False",
                "executor": "LocalExecutor",
                "parallelism": str(PARALLELISM),
                "execution_api_server_url": f"{self.url}/execution/",
                "simple_auth_manager_users": ",".join(f"{user}:{role}" for user, role in self._users.items()),
                "simple_auth_manager_passwords_file": str(self.password_file),
                "max_active_tasks_per_dag": str(PARALLELISM),
                "test_connection": "Enabled",  # users here may reach whatever this machine does
            },
            "database": {"sql_alchemy_conn": f"sqlite:///{self.root / 'airflow.db'}?timeout=60"},
            "api": {"host": HOST, "port": str(self.port), "base_url": self.url, "workers": "1"},
            "api_auth": {},
            # A changed file is parsed immediately. Parsing an unchanged one again costs a second of processor time.
            "dag_processor": {"parsing_processes": "1", "min_file_process_interval": "300"},
            "scheduler": {"scheduler_idle_sleep_time": "0.5", "task_instance_heartbeat_sec": "5"},
            "logging": {
                "base_log_folder": str(self.log_folder),
                "dag_processor_child_process_log_directory": str(self.log_folder / "dag_processor"),
            },
        }


def _private(path: Path) -> Path:
    """An empty file that only this user can read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    return path


def _joined(known: str | None, *more: str) -> str:
    return ",".join(dict.fromkeys([*(known.split(",") if known else []), *more]))
