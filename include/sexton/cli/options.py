"""What several commands share: options with one meaning, instants as text, and where output goes."""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sexton.coordinator import profiles
from sexton.errors import UsageError
from sexton.log.entry import CODECS

if TYPE_CHECKING:
    from sexton.kafka.client import ClientConfig

PIPE_COLUMNS = 120
AUTO_PROFILE = "auto"
DEFAULT_PROFILE = AUTO_PROFILE
PROFILE_HELP = (
    "Whose rules to replay by: group_coordinator (Kafka 4.x), group_metadata_manager (0.10.1 to 3.9), offset_manager "
    "(0.8.2 to 0.10.0), each at a RELEASE or, alone, at "
    f"{', '.join(profiles.profile_of(name).text.partition(':')[2] for name in profiles.NAMES)}; "
    "auto takes what the log or the archive proves, and where nothing does the newest. "
    f"Compared with brokers of {', '.join('.'.join(map(str, release)) for release in profiles.RECORDED)}; "
    "other releases are unproven: they follow Kafka's sources."
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END_MS = 253_402_300_800_000  # the year 10000: sums of instants and spans stay far from the end of int64


@dataclass(slots=True)
class State:
    """What `main` wants to know of a command while it runs."""

    debug: bool = False


def _remember_debug(context: typer.Context, wanted: bool) -> bool:
    if wanted and isinstance(context.obj, State):
        context.obj.debug = True
    return wanted


Debug = Annotated[
    bool, typer.Option("--debug", callback=_remember_debug, is_eager=True, help="Show the traceback of an error.")
]
Json = Annotated[bool, typer.Option("--json", help="Print machine output on stdout, and nothing else.")]

ClusterId = Annotated[
    str | None, typer.Option(metavar="ID", help="Which cluster of an archive that holds several (see `archive ls`).")
]
Full = Annotated[
    bool, typer.Option("--full", help="Replay the archive from its beginning, from no published checkpoint on.")
]

LoadBuffer = Annotated[
    int | None,
    typer.Option(
        "--load-buffer-bytes",
        metavar="N",
        min=1,
        rich_help_panel="Rules",
        help="The broker's offsets.load.buffer.size, of matter before 2.0.1. Default: as recorded, else 5242880.",
    ),
]
Codec = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(CODECS),
        rich_help_panel="Rules",
        help="offsets.topic.compression.codec: the plan's batches are written in it. Default: as recorded, else none.",
    ),
]
BootstrapServers = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,...", help="The cluster, by some of its brokers.")
]
ClientConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--client-config",
        metavar="FILE",
        help="A client.properties file: the place for secrets, which no option takes.",
    ),
]


def client_of(bootstrap_servers: str | None, client_config_file: Path | None) -> "ClientConfig":
    """How to reach the cluster that the options speak of; without any, the one of the settings."""
    from sexton.kafka.client import client_config, read_properties
    from sexton.settings import settings

    properties = read_properties(client_config_file) if client_config_file else {}
    if not bootstrap_servers and not {"bootstrap.servers", "metadata.broker.list"} & properties.keys():
        bootstrap_servers = settings().bootstrap_servers
    return client_config(properties, bootstrap_servers=bootstrap_servers, where=client_config_file)


def codec_number(name: str | None) -> int | None:
    """The number of a codec; UsageError for what is none."""
    if name is None:
        return None
    if name not in CODECS:
        raise UsageError(f"unknown codec {name!r}", where="--codec", fix=f"one of {', '.join(CODECS)}")
    return CODECS.index(name)


def check_profile(text: str) -> None:
    """UsageError unless `text` is a profile, with a release or without, or AUTO_PROFILE."""
    if text == AUTO_PROFILE:
        return
    try:
        profiles.profile_of(text)
    except UsageError as error:
        raise UsageError(error.message, where="--profile", fix=error.fix) from None


def complete_profile(incomplete: str) -> list[str]:
    """What a shell offers for --profile."""
    return [name for name in (*profiles.NAMES, AUTO_PROFILE) if name.startswith(incomplete)]


def parse_instant(text: str, option: str) -> int:
    """Epoch milliseconds, or ISO 8601 (UTC where it names no zone), as epoch milliseconds."""
    if text.strip().lstrip("-").isdigit():
        at_ms = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise UsageError(
                f"no instant: {text!r}", where=option, fix="ISO 8601 like 2026-11-21T04:00:00Z, or epoch milliseconds"
            ) from None
        at_ms = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    if not 0 <= at_ms < _END_MS:
        raise UsageError(f"out of range: {text!r}", where=option, fix="an instant of the years 1970 to 9999")
    return at_ms


def output() -> Console:
    """stdout for people: colours on a terminal, plain text in a pipe."""
    return Console(file=sys.stdout, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
