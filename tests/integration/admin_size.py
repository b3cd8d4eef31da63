"""How long a look at very many groups takes, and how much memory: `python -m tests.integration.admin_size`.

A broker of its own gets the groups, each with some offsets among all partitions of a topic; then two admin snapshots.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sexton.java import find_java
from sexton.job_params import SnapshotRequest
from sexton.kafka import jars
from sexton.kafka.client import client_config
from sexton.settings import settings, variable
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import commit_offsets

TOPIC = "many"
AT_ONCE = 1_000


def commit_for(admin: AdminClient, groups: int, partitions: int, offsets: int) -> None:
    commit_offsets(admin, "first", [TopicPartition(TOPIC, 0, 1)])  # waits for the coordinators
    for start in range(0, groups, AT_ONCE):
        made = [
            admin.alter_consumer_group_offsets(
                [
                    ConsumerGroupTopicPartitions(
                        f"group-{number:06}",
                        [TopicPartition(TOPIC, (number * 7 + n * 613) % partitions, number) for n in range(offsets)],
                    )
                ]
            )
            for number in range(start, min(start + AT_ONCE, groups))
        ]
        for each in made:
            for future in each.values():
                future.result(60)


def snapshot(servers: str, archive: str) -> None:
    """One admin snapshot, in a process of its own: its time and its largest memory."""
    from sexton.pipeline import snapshot_groups

    began = time.monotonic()
    request = SnapshotRequest(config=client_config({}, bootstrap_servers=servers), archive=archive)
    taken = snapshot_groups.run(request, reason="measured", now_ms=lambda: time.time_ns() // 1_000_000)
    spent, memory = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"look: {spent:.1f} s, {memory:.0f} MB, {taken.rows}, {taken.refused} refused\n")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.integration.admin_size", description=__doc__)
    options.add_argument("--groups", type=int, default=65_000)
    options.add_argument("--partitions", type=int, default=2_500)
    options.add_argument("--offsets", type=int, default=4, help="of a group (default: %(default)s)")
    options.add_argument("--look", nargs=2, metavar=("SERVERS", "ARCHIVE"), help="look only")
    asked = options.parse_args()
    if asked.snapshot:
        snapshot(*asked.snapshot)
        return
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    with tempfile.TemporaryDirectory(prefix="sexton-size-") as root:
        own = {"offsets.topic.num.partitions": "50"}
        kafka = jars.ensure(settings().cache, "kafka")
        with EmbeddedBroker(Path(root) / "broker", port=free_port(), java=java, jars=kafka, settings=own) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            for made in admin.create_topics([NewTopic(TOPIC, asked.partitions, 1)]).values():
                made.result(120)
            began = time.monotonic()
            commit_for(admin, asked.groups, asked.partitions, asked.offsets)
            sys.stdout.write(f"{asked.groups} groups made in {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
            for _ in range(2):
                one = [sys.executable, "-m", "tests.integration.admin_size", "--look"]
                subprocess.run([*one, broker.bootstrap_servers, f"{root}/archive"], check=True)


if __name__ == "__main__":
    main()
