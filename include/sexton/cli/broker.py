"""`sexton broker`: a real Kafka broker on this machine, to try things out."""

from typing import Annotated

from sexton.cli.command import command, command_group
from sexton.cli.options import Json, option
from sexton.cli.output import print_json, print_line
from sexton.cli.progress import working
from sexton.errors import UsageError

UP_EXAMPLES = """\
[dim]# on 127.0.0.1:19092[/dim]
sexton broker up

[dim]# one that keeps offsets for a minute[/dim]
sexton broker up --port 19093 --set offsets.retention.minutes=1
"""
DOWN_EXAMPLES = """\
[dim]# its data stays; `sexton broker up` continues with it[/dim]
sexton broker down
"""
app = command_group("Start and stop the embedded Kafka broker.", UP_EXAMPLES)


@command(app, "up", UP_EXAMPLES)
def up(
    *,
    port: Annotated[
        int | None,
        option("--port", "Port on 127.0.0.1. Default: that of SEXTON_BOOTSTRAP_SERVERS.", at_least=1, at_most=65_535),
    ] = None,
    setting: Annotated[
        list[str] | None, option("--set NAME=VALUE", "A broker property, such as offsets.retention.minutes=1.")
    ] = None,
    json: Json = False,
) -> int:
    """Start the broker and leave it running; its data stays in var/kafka until you delete it."""
    properties = dict(_property(text) for text in setting or [])

    from sexton.java import find_java
    from sexton.kafka import jars
    from sexton.kafka.broker import EmbeddedBroker
    from sexton.settings import settings, variable

    config = settings()
    broker = EmbeddedBroker(
        config.var / "kafka",
        port=port or int(config.bootstrap_servers.split(",")[0].rpartition(":")[2]),
        java=find_java(config.cache, variable("JAVA_HOME"), variable("PATH")),
        jars=jars.ensure(config.cache, "kafka"),
        settings=properties,
    )
    with working("Starting Kafka", is_quiet=json):
        broker.start()
    if json:
        servers, cluster_id = broker.bootstrap_servers, broker.cluster_id
        print_json({"bootstrap_servers": servers, "cluster_id": cluster_id, "data": str(broker.data)}, indent=None)
    else:
        print_line(f"Kafka runs at {broker.bootstrap_servers}, its segments are in {broker.data}")
    return 0


@command(app, "down", DOWN_EXAMPLES)
def down(*, json: Json = False) -> int:
    """Stop the broker and keep its data."""
    from sexton.kafka.broker import stop_broker
    from sexton.settings import settings

    stopped = stop_broker(settings().var / "kafka")
    if json:
        print_json({"stopped": stopped}, indent=None)
    else:
        print_line("Kafka is stopped." if stopped else "No broker was running.")
    return 0


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(
            f"not NAME=VALUE: {text!r}", where="--set", fix="for example --set offsets.retention.minutes=1"
        )
    return name.strip(), value.strip()
