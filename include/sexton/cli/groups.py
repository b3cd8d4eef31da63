"""`sexton groups list` and `describe`: groups as kafka-consumer-groups shows them."""

from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.command import command, command_group
from sexton.cli.groups_live import list_live
from sexton.cli.input_options import LogInput
from sexton.cli.options import ClusterInput, Json, flag, option
from sexton.cli.output import (
    error_fields,
    print_aside,
    print_line,
    print_notes,
    print_table,
    print_view_json,
)
from sexton.cli.progress import working
from sexton.errors import UsageError
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.api.listing import DescribedGroup, ListedGroup
    from sexton.views.coordinator_view import CoordinatorView

app = command_group("List and describe groups; find, check and unload their coordinators.")
LIST_COLUMNS = ("GROUP", "TYPE", "STATE", "PROTOCOL", "LOG-PARTITION")
LIST_FIELDS = ("group.group_id", "group.group_type", "group.state", "group.protocol_type")
OFFSET_FIELDS = (
    *("group", "topic", "partition", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "host", "client_id"),
)
OFFSET_COLUMNS = tuple(name.upper().replace("_", "-") for name in OFFSET_FIELDS)
MEMBER_COLUMNS = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
MEMBER_FIELDS = ("group", "consumer_id", "group_instance_id", "host", "client_id", "partition_count")
STATE_COLUMNS = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "LOG-PARTITION")
STATE_FIELDS = ("group", "leader", "assignment_strategy", "state", "member_count", "log_partition")
_REBALANCING = ("Assigning", "Reconciling", "NotReady")


@command(app)
def list_(
    *,
    state: list[str] | None = option("--state", "Only groups in this state; may be repeated."),
    type_: list[str] | None = option("--type", "Only Classic, Consumer, Share or Streams groups."),
    log: LogInput,
    cluster: ClusterInput,
    json: Json = False,
) -> int:
    """List the groups of all log partitions as a broker that leads them would (ListGroups).

    With a cluster instead of a log, list what its brokers report now. If a broker fails, the others are still listed:
    its id and error are reported (--json: failed_brokers), and the exit code is 1.

    # every group on a broker's disk
    sexton groups list --segments /var/kafka-logs

    # the empty classic groups of a run, for scripts
    sexton groups list --run audit --state Empty --type Classic --json | jq -r '.groups[].group_id'

    # what the brokers list now
    sexton groups list --bootstrap-servers kafka-1:9092
    """
    if cluster.is_given:
        if log != LogInput():
            raise UsageError("give a cluster or a log, not both", where="--bootstrap-servers", fix="leave out the log")
        return list_live(cluster, states=state or (), types=type_ or (), json=json)

    from sexton.coordinator.api.listing import list_groups

    view = log.view()
    with working("Reading the log", is_quiet=json):
        answer = list_groups(view.coordinator, states=state or (), types=type_ or ())
    view.check_read()
    if json:
        groups = [
            {**asdict(item.group), "log_partition": item.log_partition, "is_misplaced": item.is_misplaced}
            for item in answer.groups
        ]
        return print_view_json(view, "ListGroups", {**error_fields(answer.error), "groups": groups})
    fields = attrgetter(*LIST_FIELDS)
    print_table(LIST_COLUMNS, ((*fields(one), _place_text(one)) for one in answer.groups))
    if answer.error:
        print_aside(f"! the broker answers {answer.error.name}: a log partition is loading")
    return print_notes(view)


def _place_text(listed: "ListedGroup") -> str:
    return f"{listed.log_partition}{' (misplaced)' if listed.is_misplaced else ''}"


@command(app)
def describe(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Group ids.")] = None,
    *,
    all_groups: bool = flag("--all-groups", "Every group that is listed."),
    offsets: bool = flag("--offsets", "Offsets and lag by partition (the default)."),
    members: bool = flag("--members", "Members instead of offsets."),
    state: bool = flag("--state", "One line for each group instead of offsets."),
    log: LogInput,
    json: Json = False,
) -> int:
    """Describe groups in the columns of kafka-consumer-groups (DescribeGroups, ConsumerGroupDescribe, OffsetFetch).

    LAG needs --topics, or an archive or a run that recorded the topics. A group that does not exist is reported on
    stderr; the exit code is 0, as for everything that a broker would answer.

    # offsets and lag
    sexton groups describe my-group --segments backup --topics topics.jsonl

    # members, and states in one line each
    sexton groups describe my-group --members --archive archive
    sexton groups describe --all-groups --state --archive archive
    """
    if bool(groups) == all_groups:
        raise UsageError("give the groups, or --all-groups", where="describe", fix="see `sexton groups list`")
    if members + state + offsets > 1:
        raise UsageError("one of --offsets, --members and --state", where="describe")

    from sexton.coordinator.api.console import member_rows, offset_rows, state_row
    from sexton.coordinator.api.listing import describe_groups, list_groups

    view = log.view()
    with working("Reading the log", is_quiet=json):
        wanted = groups or [item.group.group_id for item in list_groups(view.coordinator).groups]
        if all_groups:
            view.check_read()
        else:
            view.check_coverage(wanted)
    described = describe_groups(view.coordinator, dict.fromkeys(wanted))
    if json:
        return print_view_json(view, "DescribeGroups", {"groups": [_fields(view, group) for group in described]})
    for group in described:
        _print_state(group, is_quiet=all_groups or state)
    there = [group for group in described if group.group is not None]
    if there and members:
        print_table(MEMBER_COLUMNS, (attrgetter(*MEMBER_FIELDS)(row) for group in there for row in member_rows(group)))
    elif there and state:
        rows = (state_row(view.coordinator, group, view.recorded.leaders) for group in there)
        print_table(STATE_COLUMNS, map(attrgetter(*STATE_FIELDS), rows))
    elif there:
        offset_lines = (row for group in there for row in offset_rows(view.coordinator, group, view.topics))
        print_table(OFFSET_COLUMNS, map(attrgetter(*OFFSET_FIELDS), offset_lines))
    return print_notes(view)


def _print_state(described: "DescribedGroup", *, is_quiet: bool) -> None:
    """Print what kafka-consumer-groups says about a group's state in addition to its rows."""
    name = short(described.group_id)
    if described.group is None:
        if described.state == "Dead":
            print_aside(f"Consumer group '{name}' does not exist.")
        else:
            print_line(f"{name}: {described.error.name} ({described.error.value})")
            if described.failed_by is not None:
                print_aside(
                    f"The coordinator throws on group '{short(described.failed_by)}': it cannot be described, nor "
                    "anything in the same request."
                )
    elif is_quiet:
        return
    elif described.state == "Empty":
        print_aside(f"Consumer group '{name}' has no active members.")
    elif described.state in _REBALANCING:
        print_aside(f"Warning: Consumer group '{name}' is rebalancing.")


def _fields(view: "CoordinatorView", described: "DescribedGroup") -> dict[str, Any]:
    """A group with its members and offsets, for machines."""
    from sexton.coordinator.api.console import member_rows, offset_rows, state_row

    rows = offset_rows(view.coordinator, described, view.topics) if described.group is not None else []
    line = state_row(view.coordinator, described, view.recorded.leaders)
    group = {} if described.group is None else asdict(described.group)
    return {
        **group,
        "group_id": described.group_id,
        **error_fields(described.error),
        "state": described.state,
        "log_partition": line.log_partition,
        "coordinator": line.leader,
        "members": member_rows(described),
        "offsets": [{**asdict(row), "lag": row.lag} for row in rows],
    }
