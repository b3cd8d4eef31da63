"""The deployment's files, read once, and the part of the Compose specification that they keep to.

The schema is ours: it knows the keys that this file uses and no others, so that a key that Compose would not know, or
a misspelt one, fails here. Words and types are those of https://github.com/compose-spec/compose-spec.
"""

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

TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
DURATION = {"type": "string", "pattern": r"^\d+(ms|s|m|h)$"}
SIZE = {"type": "string", "pattern": r"^\d+(b|k|m|g|kb|mb|gb|K|M|G)$"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


CONDITION = closed(condition={"enum": ["service_started", "service_healthy", "service_completed_successfully"]})
HEALTH_CHECK = {
    "oneOf": [
        {**closed(disable={"const": True}), "required": ["disable"]},
        {
            **closed(
                test={**TEXTS, "minItems": 2, "items": TEXT},
                interval=DURATION,
                timeout=DURATION,
                start_period=DURATION,
                retries={"type": "integer", "minimum": 1},
            ),
            "required": ["test", "interval", "timeout", "start_period", "retries"],
        },
    ]
}
LIMITS = {
    **closed(memory={"type": "string", "pattern": r"^\d+M$"}, cpus={"type": "string", "pattern": r"^\d+(\.\d+)?$"}),
    "required": ["memory", "cpus"],
}
SERVICE = {
    **closed(
        build=closed(context=TEXT),
        cap_add=TEXTS,
        cap_drop=TEXTS,
        command=TEXTS,
        depends_on={"type": "object", "additionalProperties": CONDITION},
        deploy=closed(resources=closed(limits=LIMITS)),
        entrypoint=TEXTS,
        env_file={
            "type": "array",
            "items": {**closed(path=TEXT, required={"const": False}), "required": ["path", "required"]},
        },
        # Values are text, so that YAML's own yes, no and 1e3 never get between.
        environment={"type": "object", "additionalProperties": TEXT},
        healthcheck=HEALTH_CHECK,
        hostname=TEXT,
        image=TEXT,
        init={"type": "boolean"},
        logging=closed(driver=TEXT, options={"type": "object", "additionalProperties": TEXT}),
        network_mode={"const": "none"},
        ports=TEXTS,
        read_only={"type": "boolean"},
        restart={"enum": ["no", "unless-stopped"]},
        security_opt=TEXTS,
        shm_size=SIZE,
        stop_grace_period=DURATION,
        user={"type": "string", "pattern": r"^\d+:\d+$"},
        volumes=TEXTS,
    ),
    "required": ["image", "healthcheck", "deploy", "restart", "logging", "security_opt"],
}
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
    "required": ["name", "services"],
}


def environment(service: str) -> dict[str, str]:
    """What Compose makes of the variables: `${NAME:-default}` without NAME."""
    found: dict[str, str] = SERVICES[service].get("environment", {})
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in found.items()}


def mounts(service: str) -> dict[str, str]:
    """Volume or path -> where it is mounted, with `:ro` where nothing may be written."""
    return dict(entry.split(":", 1) for entry in SERVICES[service].get("volumes", []))
