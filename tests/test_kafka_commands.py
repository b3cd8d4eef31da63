"""Kafka's own commands: a shell takes them apart into the names that were meant, whatever letters these have."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from sexton.kafka_commands import SERVERS, abort_transaction, delete_group, delete_offsets, reset_offsets

NAMES = ["plain", "two words", "it's", '"; rm -rf ~', "$(id)", "-x", "", "línea\nzwei"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_stays_one_argument(name: str) -> None:
    named = [f"--group={name}"] if name.startswith("-") else ["--group", name]
    words = ["kafka-consumer-groups.sh", "--bootstrap-server", "b:1", *named]
    offsets = delete_offsets(name, [("b", 3), ("a", 10), ("b", 1)], servers="b:1")
    assert shlex.split(offsets) == [*words, "--delete-offsets", "--topic", "a:10", "--topic", "b:1,3"]
    assert shlex.split(delete_group(name, servers="b:1")) == [*words, "--delete"]


def test_a_file_of_offsets_is_written_and_read(tmp_path: Path) -> None:
    typed = reset_offsets("it's", {("b.c", 0): 7, ("a", 2): 0})
    words = f"echo --bootstrap-server {SERVERS} --group it's --reset-offsets --from-file offsets.csv --execute"
    script = re.sub("^kafka-consumer-groups.sh", "echo echo", typed, flags=re.MULTILINE)
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{words}\n"
    assert (tmp_path / "offsets.csv").read_text() == "a,2,0\nb.c,0,7\n"


def test_a_transaction_is_named_by_its_arguments() -> None:
    assert abort_transaction("abort --partition 3") == (
        "kafka-transactions.sh --bootstrap-server HOST:PORT abort --partition 3"
    )
