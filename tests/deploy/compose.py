"""The deployment's files, read once, and the schema of the Compose specification.

That is schema/compose-spec.json of https://github.com/compose-spec/compose-spec at 170098b (Apache License 2.0), as it
is: it knows every key of a service and lets no other pass.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {name for name, service in SERVICES.items() if service.get("restart") == "no"}
OURS = {name for name, service in SERVICES.items() if service["image"].startswith("sexton:")}
AIRFLOW = {name for name in OURS if name.startswith("airflow-")} | {"init"}

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent / "compose-spec.json").read_text(encoding="utf-8"))
EVERY_SERVICE_HAS = {"image", "healthcheck", "deploy", "restart", "logging", "security_opt"}


def environment(service: str) -> dict[str, str]:
    """What Compose makes of the variables: `${NAME:-default}` without NAME."""
    found: dict[str, str] = SERVICES[service].get("environment", {})
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in found.items()}


def mounts(service: str) -> dict[str, str]:
    """Volume or path -> where it is mounted, with `:ro` where nothing may be written."""
    return dict(entry.split(":", 1) for entry in SERVICES[service].get("volumes", []))
