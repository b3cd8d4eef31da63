"""More questions of `sexton groups`: which log partition a group belongs to, and what goes with a log partition."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.input_options import (
    Archive,
    AsOf,
    Profile,
    RunDir,
    Segments,
    TopicsFile,
    error_fields,
    exit_code,
    tell_json,
    tell_line,
    tell_notes,
    tell_table,
    view_of,
)
from sexton.cli.options import Debug, Json, LoadBuffer
from sexton.cli.progress import working
from sexton.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sexton.coordinator.offsets import OffsetKey, StoredOffset

COORDINATOR_EXAMPLES = """\
[b]Examples[/b]

[dim]# which log partition holds these groups[/dim]
sexton groups coordinator my-group other-group --segments backup
"""
UNLOAD_EXAMPLES = """\
[b]Examples[/b]

[dim]# what moves to another broker with log partition 3[/dim]
sexton groups unload 3 --archive archive
"""


def coordinator(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Group ids.")],
    *,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Say which log partition each group belongs to, and which broker leads that (FindCoordinator).

    The broker is the one that led when the snapshot was taken; `-` where no snapshot recorded it.
    """
    from sexton.coordinator.api.errors import Error
    from sexton.coordinator.api.find_coordinator import FoundCoordinator, find_coordinator

    view = view_of(segments, archive, run, topics=topics, as_of=as_of, profile=profile)
    count = view.coordinator.partition_count
    if count is None:  # then a group belongs where it is found
        places = {group: view.coordinator.log_partition_of(group) for group in groups}
        owners = [
            FoundCoordinator(group_id=group, error=Error.NONE, log_partition=place) for group, place in places.items()
        ]
    else:
        leaders = view.recorded.leaders or None
        owners = [find_coordinator(group, partition_count=count, leaders=leaders) for group in groups]
    if json:
        told = [
            {"group_id": owner.group_id, "log_partition": owner.log_partition, "leader": owner.leader,
             **error_fields(owner.error)}
            for owner in owners
        ]  # fmt: skip
        tell_json(view, "FindCoordinator", {"partition_count": count, "groups": told})
        return exit_code(view)
    tell_table(
        ("GROUP", "LOG-PARTITION", "COORDINATOR (ID)", "ERROR"),
        ((owner.group_id, owner.log_partition, owner.leader, owner.error.name) for owner in owners),
    )
    tell_notes(view)
    return exit_code(view)


def unload(
    log_partition: Annotated[int, typer.Argument(metavar="LOG-PARTITION", min=0, help="The log partition.")],
    *,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    load_buffer_bytes: LoadBuffer = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Say what a broker drops from memory when it stops leading a log partition; nothing is changed.

    Groups that stay are of other log partitions: only coordinators before 4.0 load those and keep them.
    """
    from sexton.coordinator.api.unloading import unload as unloaded

    view = view_of(
        segments, archive, run, topics=topics, as_of=as_of, profile=profile, load_buffer_bytes=load_buffer_bytes
    )
    if log_partition not in view.coordinator.shards:
        raise UsageError(f"log partition {log_partition} is not here", where=view.where)
    with working("Reading the log", is_quiet=json):
        gone = unloaded(view.coordinator, log_partition)
    view.check_read()
    groups, staying = ([group.group_id for group in some] for some in (gone.groups, gone.staying))
    if json:
        answer = {
            "log_partition": log_partition,
            "leader": view.recorded.leaders.get(log_partition),
            "groups": groups,
            "offsets": gone.offset_count,
            "pending": _pending_rows(gone.pending),
            "staying": staying,
        }
        tell_json(view, "unload", answer)
        return exit_code(view)
    leader = view.recorded.leaders.get(log_partition)
    led = "" if leader is None else f", which broker {leader} led when the snapshot was taken"
    tell_line(
        f"{gone.offset_count} cached offsets and {len(groups)} cached groups go with log partition {log_partition}{led}"
    )
    tell_table(("GROUP", "STAYS"), [*((name, "no") for name in groups), *((name, "yes") for name in staying)])
    if gone.pending:
        tell_line("")
        tell_line("open transactions, which the next coordinator loads again:")
        rows = _pending_rows(gone.pending)
        tell_table(("PRODUCER-ID", "GROUP", "TOPIC", "PARTITION", "PENDING-OFFSET"), ([*row.values()] for row in rows))
    tell_notes(view)
    return exit_code(view)


def _pending_rows(pending: "Mapping[int, Mapping[OffsetKey, StoredOffset]]") -> list[dict[str, Any]]:
    """Values of open transactions, by producer and key."""
    return [
        {
            "producer_id": producer_id,
            "group_id": group_id,
            "topic": topic,
            "partition": partition,
            "committed_offset": values[group_id, topic, partition].committed_offset,
        }
        for producer_id, values in sorted(pending.items())
        for group_id, topic, partition in sorted(values)
    ]


def register(app: typer.Typer) -> None:
    """Add the commands to `sexton groups`."""
    app.command("coordinator", epilog=COORDINATOR_EXAMPLES)(coordinator)
    app.command("unload", epilog=UNLOAD_EXAMPLES)(unload)
