"""Airflow's own form for a Kafka cluster: its Test against a real broker, and that tasks read what it takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.java import JavaHome
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.integration.test_dags import READER, properties_of, secured

PROGRAM = """
import json
from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
from airflow.providers_manager import ProvidersManager
from sexton.airflow.brokers import client_config
hidden = ProvidersManager().field_behaviours["kafka"]["hidden_fields"]
found = {name: [client_config(name), *KafkaBaseHook(name).test_connection()] for name in ("plain", "login", "java")}
print(json.dumps([hidden, found]))
"""


@pytest.mark.usefixtures("needs_airflow")
def test_what_the_form_takes_is_what_tasks_read(tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> None:
    """Java's names are for tasks alone: librdkafka, which Test asks, does not know them."""
    sasl_port = free_port()
    named = properties_of(READER, sasl_port)
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
        f'{java_name}="{named.pop(f"sasl.{java_name}")}"' for java_name in ("username", "password")
    )
    java_names = {**named, "sasl.jaas.config": f"{jaas};"}
    broker = EmbeddedBroker(
        tmp_path / "broker", port=free_port(), java=java, jars=kafka_jars, settings=secured(sasl_port)
    )
    given = {
        "plain": {"bootstrap.servers": broker.bootstrap_servers},
        "login": properties_of(READER, sasl_port),
        "java": java_names,
    }
    connections = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps({"conn_type": "kafka", "extra": extra})
        for name, extra in given.items()
    }
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), **connections}
    command = [sys.executable, "-c", PROGRAM]
    with broker:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    hidden, found = json.loads(done.stdout.splitlines()[-1])
    assert {name: each[0] for name, each in found.items()} == given
    assert {name: each[1] for name, each in found.items()} == {"plain": True, "login": True, "java": False}
    assert "JAAS" in found["java"][2]
    assert {"host", "port", "login", "password"} <= set(hidden)
