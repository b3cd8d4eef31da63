"""`sexton groups coordinator` and `unload`: the log partition of a group, and the groups of a log partition."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.options import Json
from sexton.cli.output import error_fields, print_line, print_notes, print_section, print_table, print_view_json
from sexton.cli.progress import working
from sexton.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sexton.coordinator.offsets import OffsetKey, StoredOffset

PENDING_FIELDS = ("producer_id", "group_id", "topic", "partition", "committed_offset")


def coordinator(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Group ids.")],
    *,
    log: Annotated[LogInput, Without({"load_buffer_bytes"})],
    json: Json = False,
) -> int:
    """Show the log partition of each group and the broker that leads it (FindCoordinator).

    The broker is the leader at the time of the snapshot; `-` if no snapshot recorded the leader.

    # which log partition holds these groups
    sexton groups coordinator my-group other-group --segments backup
    """
    from sexton.coordinator.api.errors import Error
    from sexton.coordinator.api.find_coordinator import FoundCoordinator, find_coordinator

    view = log.view()
    count = view.coordinator.partition_count
    if count is None:  # then a group's log partition is the one that has its records
        log_partition_of = view.coordinator.log_partition_of
        owners = [
            FoundCoordinator(group_id=group, error=Error.NONE, log_partition=log_partition_of(group))
            for group in dict.fromkeys(groups)
        ]
    else:
        leaders = view.recorded.leaders or None
        owners = [find_coordinator(group, partition_count=count, leaders=leaders) for group in groups]
    if json:
        found = [asdict(owner) | error_fields(owner.error) for owner in owners]
        return print_view_json(view, "FindCoordinator", {"partition_count": count, "groups": found})
    columns = ("GROUP", "LOG-PARTITION", "COORDINATOR (ID)", "ERROR")
    print_table(columns, ((o.group_id, o.log_partition, o.leader, o.error.name) for o in owners))
    return print_notes(view)


def unload(
    log_partition: Annotated[int, typer.Argument(metavar="LOG-PARTITION", min=0, help="The log partition.")],
    *,
    log: LogInput,
    json: Json = False,
) -> int:
    """Show what a broker drops from memory when it stops leading a log partition; changes nothing.

    Before 4.0, groups that were loaded from this log partition but hash to another one stay in memory.

    # what moves to another broker with log partition 3
    sexton groups unload 3 --archive archive
    """
    from sexton.coordinator.api.unloading import unload as unloaded

    view = log.view()
    if log_partition not in view.coordinator.shards:
        raise UsageError(f"log partition {log_partition} is not here", where=view.where)
    with working("Reading the log", is_quiet=json):
        gone = unloaded(view.coordinator, log_partition)
    view.check_read()
    groups, staying = ([group.group_id for group in some] for some in (gone.groups, gone.staying))
    leader = view.recorded.leaders.get(log_partition)
    if json:
        answer = {
            "log_partition": log_partition,
            "leader": leader,
            "groups": groups,
            "offsets": gone.offset_count,
            "pending": _pending_rows(gone.pending),
            "staying": staying,
        }
        return print_view_json(view, "unload", answer)
    led = "" if leader is None else f", which broker {leader} led when the snapshot was taken"
    print_line(
        f"{gone.offset_count} cached offsets and {len(groups)} cached groups go with log partition {log_partition}{led}"
    )
    print_table(("GROUP", "STAYS"), [*((name, "no") for name in groups), *((name, "yes") for name in staying)])
    columns = ("PRODUCER-ID", "GROUP", "TOPIC", "PARTITION", "PENDING-OFFSET")
    rows = ([*row.values()] for row in _pending_rows(gone.pending))
    print_section(columns, rows, "open transactions, which the next coordinator loads again:")
    return print_notes(view)


def _pending_rows(pending: "Mapping[int, Mapping[OffsetKey, StoredOffset]]") -> list[dict[str, Any]]:
    """Pending offsets of open transactions, by producer and key."""
    return [
        dict(zip(PENDING_FIELDS, (producer_id, *key, values[key].committed_offset), strict=True))
        for producer_id, values in sorted(pending.items())
        for key in sorted(values)
    ]
