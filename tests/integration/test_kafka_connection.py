"""Airflow's own form for a Kafka cluster: its Test against a real broker, and that tasks read what it takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.kafka.broker import EmbeddedBroker
from tests.integration.conftest import PASSWORDS

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
def test_what_the_form_takes_is_what_tasks_read(tmp_path: Path, broker: EmbeddedBroker, sasl_port: int) -> None:
    """Java's names are for tasks alone: librdkafka, which Test asks, does not know them."""
    login = {"bootstrap.servers": f"127.0.0.1:{sasl_port}", "security.protocol": "SASL_PLAINTEXT"}
    named = {"sasl.mechanism": "PLAIN", "sasl.username": "reader", "sasl.password": PASSWORDS["reader"]}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="reader" password="{PASSWORDS["reader"]}";'
    given = {
        "plain": {"bootstrap.servers": broker.bootstrap_servers},
        "login": {**login, **named},
        "java": {**login, "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas},
    }
    connections = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps({"conn_type": "kafka", "extra": extra})
        for name, extra in given.items()
    }
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), **connections}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    hidden, found = json.loads(done.stdout.splitlines()[-1])
    assert {name: each[0] for name, each in found.items()} == given
    assert {name: each[1] for name, each in found.items()} == {"plain": True, "login": True, "java": False}
    assert "JAAS" in found["java"][2]
    assert {"host", "port", "login", "password"} <= set(hidden)
