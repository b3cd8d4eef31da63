"""Options that several commands share, each declared once, and what their values mean."""

from dataclasses import MISSING, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.as_text import ms_of
from sexton.coordinator import profiles
from sexton.errors import UsageError
from sexton.log.entry import CODECS
from sexton.numbers import whole_number

if TYPE_CHECKING:
    from pyarrow import fs as pafs

    from sexton.kafka.client import ClientConfig
    from sexton.policy import Policy

AUTO_PROFILE = "auto"
PROFILE_HELP = (
    "The coordinator whose rules apply: group_coordinator (Kafka 4.x; 3.8 and 3.9 as a preview), "
    "group_metadata_manager (0.10.1 to 3.9) or "
    "offset_manager (0.8.2 to 0.10.0), each at a RELEASE or at its default:  "
    f"{', '.join(profiles.profile_of(name).text.partition(':')[2] for name in profiles.NAMES)}; "
    "auto: the one that the log or the archive proves, else the newest that they allow.  "
    f"Compared with brokers of {', '.join('.'.join(map(str, release)) for release in profiles.RECORDED)}; "
    "other releases follow Kafka's sources and are unproven. Default: auto; for a run, the run's."
)
INPUT, RULES, OUTPUT = "Input", "Rules", "Output"
"""Panels of --help."""
OPTION = "option"
"""The key of the Typer option in the metadata of a field that `option` declares."""
DEFAULT_ROWS = 50
MAX_RETENTION_MINUTES = 2**31 - 1  # offsets.retention.minutes is an int in Kafka
_END_MS = 253_402_300_800_000  # the year 10000: sums of instants and spans stay far from the end of int64


def complete_profile(incomplete: str) -> list[str]:
    """What a shell offers for --profile."""
    return [name for name in (*profiles.NAMES, AUTO_PROFILE) if name.startswith(incomplete)]


def shared(usage: str, text: str, panel: str | None = None, **more: Any) -> Any:
    """A Typer option for an Annotated type, from `usage`, such as `--run DIR` or `--full`, in a panel of --help.

    `more` are other arguments of typer.Option.
    """
    name, _, value = usage.partition(" ")
    return typer.Option(name, metavar=value or None, help=text, rich_help_panel=panel, **more)


def option(usage: str, text: str, panel: str | None = None, *, default: Any = None, **more: Any) -> Any:
    """Declare a parameter, or a field of an object of options, as an option with a default; `...`: required."""
    shown = shared(usage, text, panel, **more)
    return field(default=MISSING if default is ... else default, metadata={OPTION: shown})


flag = partial(option, default=False)
"""`option` without a value."""
required = partial(option, default=...)

GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group id.")]
Json = Annotated[bool, shared("--json", "Print one JSON document on stdout, and nothing else.")]
Tree = Annotated[bool, shared("--tree", "Show the totals as a tree: by owner, then by rule.")]
ShownRows = Annotated[int, shared("--limit N", "Rows to show; 0: all. --json has all.", min=0)]

Archive = Annotated[str | None, shared("--archive URI", "Sexton's archive: a folder or s3://, gs://, ...", INPUT)]
RunDir = Annotated[Path | None, shared("--run DIR", "A folder of `sexton audit --out`.", INPUT)]
ClusterId = Annotated[
    str | None, shared("--cluster-id ID", "The cluster, if several are archived or published (see `archive ls`).")
]
Profile = Annotated[
    str | None, shared("--profile NAME[:RELEASE]", PROFILE_HELP, RULES, autocompletion=complete_profile)
]
RetentionMinutes = Annotated[
    int | None,
    shared(
        "--retention-minutes N",
        "offsets.retention.minutes. Default: as recorded, else Kafka's: 10080 (1440 before 2.0).",
        RULES,
        min=1,
    ),
]
PolicyFile = Annotated[Path | None, shared("--policy FILE", "Retention rules and holds (see `sexton policy`).", RULES)]
ArchiveUri = Annotated[str | None, shared("--archive URI", "A folder or s3://, gs://, ... Default: SEXTON_ARCHIVE.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInput:
    """The cluster that a command talks to."""

    bootstrap_servers: str | None = option(
        "--bootstrap-servers HOST:PORT,...", "Some brokers of the cluster. Default: SEXTON_BOOTSTRAP_SERVERS."
    )
    client_config_file: Path | None = option(
        "--client-config FILE", "A client.properties file: for secrets, which no option takes."
    )

    @property
    def is_given(self) -> bool:
        return self.bootstrap_servers is not None or self.client_config_file is not None

    def client(self) -> "ClientConfig":
        """The settings of a client; if they name no brokers, with SEXTON_BOOTSTRAP_SERVERS."""
        from sexton.kafka.client import client_config, read_properties
        from sexton.settings import settings

        servers, file = self.bootstrap_servers, self.client_config_file
        properties = read_properties(file) if file else {}
        if not servers and not {"bootstrap.servers", "metadata.broker.list"} & properties.keys():
            servers = settings().bootstrap_servers
        return client_config(properties, bootstrap_servers=servers, where=file)


def archive_uri(archive: str | None) -> str:
    """The URI of the archive, from the option, else from the settings."""
    from sexton.settings import settings

    return archive or settings().archive_uri


def open_archive_uri(archive: str | None) -> "tuple[pafs.FileSystem, str]":
    """File system and folder of the archive (`archive_uri`)."""
    from sexton.archive.folder import filesystem

    return filesystem(archive_uri(archive))


def read_policy_file(path: Path | None) -> "Policy | None":
    """The policy in a file; UsageError for one with mistakes."""
    if path is None:
        return None
    from sexton.policy import read_policy

    return read_policy(path)


def codec_number(name: str | None) -> int | None:
    """Kafka's number of a codec; UsageError for an unknown name."""
    if name is None:
        return None
    if name not in CODECS:
        raise UsageError(f"unknown codec {name!r}", where="--codec", fix=f"one of {', '.join(CODECS)}")
    return CODECS.index(name)


def check_profile(text: str | None) -> None:
    """UsageError unless `text` is a profile, with a release or without, AUTO_PROFILE or None."""
    if text is None or text == AUTO_PROFILE:
        return
    try:
        profiles.profile_of(text)
    except UsageError as error:
        raise UsageError(error.message, where="--profile", fix=error.fix) from None


def check_topics_file(path: Path | None) -> None:
    """UsageError for a file that does not exist."""
    if path is not None and not path.is_file():
        raise UsageError("no such file", where=path, fix="--topics takes a file of JSON lines")


def check_retention(minutes: int | None, option: str = "--retention-minutes") -> None:
    """UsageError for a retention that Kafka's setting cannot hold."""
    if minutes is not None and minutes > MAX_RETENTION_MINUTES:
        raise UsageError(f"too long: {minutes}", where=option, fix=f"at most {MAX_RETENTION_MINUTES}")


def parse_instant(text: str, option: str) -> int:
    """Epoch milliseconds of an instant, given as epoch milliseconds or in ISO 8601 (UTC if it has no zone)."""
    try:
        at_ms = whole_number(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"not an instant: {text!r}",
                where=option,
                fix="ISO 8601 like 2026-11-21T04:00:00Z, or epoch milliseconds",
            ) from None
        at_ms = ms_of(moment)
    if not 0 <= at_ms < _END_MS:
        raise UsageError(f"out of range: {text!r}", where=option, fix="an instant of the years 1970 to 9999")
    return at_ms


def parse_optional_instant(text: str | None, option: str) -> int | None:
    """`parse_instant`, with None for an option that was not given."""
    return None if text is None else parse_instant(text, option)


def parse_partition(text: str, where: str) -> tuple[str, int | None]:
    """The topic of `TOPIC[:PARTITION]`, and the partition if there is one; topic names contain no colon."""
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not (partition.isascii() and partition.isdigit())):
        raise UsageError(f"not TOPIC or TOPIC:PARTITION: {text!r}", where=where, fix="such as orders or orders:0")
    return topic, int(partition) if colon else None


def parse_exact_partition(text: str) -> tuple[str, int]:
    """Topic and partition of `TOPIC:PARTITION`."""
    topic, _, partition = text.rpartition(":")
    if not topic or not (partition.isascii() and partition.isdigit()):
        raise UsageError(f"not TOPIC:PARTITION: {text!r}", fix="such as orders:0")
    return topic, int(partition)
