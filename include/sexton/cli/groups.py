"""`sexton groups`: groups as kafka-consumer-groups shows them, and the other questions about them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli import groups_coordinator as coordination
from sexton.cli import groups_dry_run as write_path
from sexton.cli.groups_live import list_live
from sexton.cli.input_options import (
    Archive,
    AsOf,
    Profile,
    RunDir,
    Segments,
    TopicsFile,
    error_fields,
    exit_code,
    tell_aside,
    tell_json,
    tell_line,
    tell_notes,
    tell_table,
    view_of,
)
from sexton.cli.options import BootstrapServers, ClientConfigFile, Debug, Json, LoadBuffer
from sexton.cli.progress import working
from sexton.errors import UsageError
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.coordinator.api.listing import DescribedGroup
    from sexton.views.coordinator_view import CoordinatorView

LIST_EXAMPLES = """\
[b]Examples[/b]

[dim]# every group on a broker's disk[/dim]
sexton groups list --segments /var/kafka-logs

[dim]# the empty classic groups of a run, for scripts[/dim]
sexton groups list --run audit --state Empty --type Classic --json | jq -r '.groups[].group_id'

[dim]# what the brokers list now[/dim]
sexton groups list --bootstrap-servers kafka-1:9092
"""
DESCRIBE_EXAMPLES = """\
[b]Examples[/b]

[dim]# offsets and lag[/dim]
sexton groups describe my-group --segments backup --topics topics.jsonl

[dim]# members, and states in one line each[/dim]
sexton groups describe my-group --members --archive archive
sexton groups describe --all-groups --state --archive archive
"""
app = typer.Typer(
    help="List and describe groups; which coordinator has them, what it takes and what it drops.",
    epilog=LIST_EXAMPLES,
    rich_markup_mode="rich",
    add_completion=False,
)
LIST_COLUMNS = ("GROUP", "TYPE", "STATE", "PROTOCOL", "LOG-PARTITION")
OFFSET_COLUMNS = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
MEMBER_COLUMNS = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
STATE_COLUMNS = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "LOG-PARTITION")
_REBALANCING = ("Assigning", "Reconciling", "NotReady")


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


@app.command("list", epilog=LIST_EXAMPLES)
def list_(
    *,
    state: Annotated[list[str] | None, typer.Option(help="Only groups in this state; may be repeated.")] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only Classic, Consumer, Share or Streams groups.")
    ] = None,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    load_buffer_bytes: LoadBuffer = None,
    bootstrap_servers: BootstrapServers = None,
    client_config_file: ClientConfigFile = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """List the groups of all log partitions as a broker that leads them would (ListGroups).

    With a cluster instead of a log, what its brokers list now. One that fails does not end the list: its groups are
    missing, its id and error are reported (--json: failed_brokers), and the exit code is 1.
    """
    if bootstrap_servers is not None or client_config_file is not None:
        _refuse_log_options(segments, archive, run, topics, as_of, profile, load_buffer_bytes)
        return list_live(bootstrap_servers, client_config_file, states=state or (), types=type_ or (), json=json)

    from sexton.coordinator.api.listing import list_groups

    view = view_of(
        segments, archive, run, topics=topics, as_of=as_of, profile=profile, load_buffer_bytes=load_buffer_bytes
    )
    with working("Reading the log", is_quiet=json):
        answer = list_groups(view.coordinator, states=state or (), types=type_ or ())
    view.check_read()
    if json:
        groups = [{**asdict(item.group), "log_partition": item.log_partition} for item in answer.groups]
        tell_json(view, "ListGroups", {**error_fields(answer.error), "groups": groups})
        return exit_code(view)
    tell_table(
        LIST_COLUMNS,
        (
            (item.group.group_id, item.group.group_type, item.group.state, item.group.protocol_type,
             item.log_partition)
            for item in answer.groups
        ),
    )  # fmt: skip
    if answer.error:
        tell_aside(f"! the broker answers {answer.error.name}: a log partition is loading")
    tell_notes(view)
    return exit_code(view)


def _refuse_log_options(*options: object) -> None:
    if any(option is not None for option in options):
        raise UsageError("a cluster or a log, not both", where="--bootstrap-servers", fix="leave the log's options out")


@app.command("describe", epilog=DESCRIBE_EXAMPLES)
def describe(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Group ids.")] = None,
    *,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Every group that is listed.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Offsets and lag by partition: the default.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Members instead.")] = False,
    state: Annotated[bool, typer.Option("--state", help="A line for each group instead.")] = False,
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
    """Describe groups in the columns of kafka-consumer-groups (DescribeGroups, ConsumerGroupDescribe, OffsetFetch).

    LAG needs --topics, an archive or a run that recorded them. A group that is not there is told on stderr: exit code
    0, as everything that a broker would answer.
    """
    if bool(groups) == all_groups:
        raise UsageError("give the groups, or --all-groups", where="describe", fix="see `sexton groups list`")
    if members + state + offsets > 1:
        raise UsageError("one of --offsets, --members and --state", where="describe")

    from sexton.coordinator.api.listing import describe_groups, list_groups

    view = view_of(
        segments, archive, run, topics=topics, as_of=as_of, profile=profile, load_buffer_bytes=load_buffer_bytes
    )
    with working("Reading the log", is_quiet=json):
        wanted = groups or [item.group.group_id for item in list_groups(view.coordinator).groups]
        if all_groups:
            view.check_read()
        else:
            view.check_coverage(wanted)
    described = describe_groups(view.coordinator, dict.fromkeys(wanted))
    if json:
        tell_json(view, "DescribeGroups", {"groups": [_fields(view, group) for group in described]})
        return exit_code(view)
    for group in described:
        _tell_state(group, is_quiet=all_groups or state)
    there = [group for group in described if group.group is not None]
    if there:
        _tell(view, there, "members" if members else "state" if state else "offsets")
    tell_notes(view)
    return exit_code(view)


def _tell(view: "CoordinatorView", described: "list[DescribedGroup]", what: str) -> None:
    from sexton.coordinator.api.console import member_rows, offset_rows, state_row

    if what == "members":
        member_lines = [row for group in described for row in member_rows(group)]
        tell_table(
            MEMBER_COLUMNS,
            (
                (row.group, row.consumer_id, row.group_instance_id, row.host, row.client_id, row.partition_count)
                for row in member_lines
            ),
        )
    elif what == "state":
        lines = [state_row(view.coordinator, group, view.recorded.leaders) for group in described]
        tell_table(
            STATE_COLUMNS,
            (
                (row.group, row.leader, row.assignment_strategy, row.state, row.member_count, row.log_partition)
                for row in lines
            ),
        )
    else:
        rows = [row for group in described for row in offset_rows(view.coordinator, group, view.topics)]
        tell_table(
            OFFSET_COLUMNS,
            (
                (row.group, row.topic, row.partition, row.current_offset, row.log_end_offset, row.lag,
                 row.consumer_id, row.host, row.client_id)
                for row in rows
            ),
        )  # fmt: skip


def _tell_state(described: "DescribedGroup", *, is_quiet: bool) -> None:
    """What kafka-consumer-groups says of a group's state besides its rows."""
    name = short(described.group_id)
    if described.group is None:
        if described.state == "Dead":
            tell_aside(f"Consumer group '{name}' does not exist.")
        else:
            tell_line(f"{name}: {described.error.name} ({described.error.value})")
            if described.failed_by is not None:
                tell_aside(
                    f"The coordinator throws on group '{short(described.failed_by)}', which is Stable without a "
                    "protocol: neither it nor what is asked for together with it can be described."
                )
    elif is_quiet:
        return
    elif described.state == "Empty":
        tell_aside(f"Consumer group '{name}' has no active members.")
    elif described.state in _REBALANCING:
        tell_aside(f"Warning: Consumer group '{name}' is rebalancing.")


def _fields(view: "CoordinatorView", described: "DescribedGroup") -> dict[str, Any]:
    """All that is known of a group, for machines."""
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
        "members": [asdict(row) for row in member_rows(described)],
        "offsets": [{**asdict(row), "lag": row.lag} for row in rows],
    }


coordination.register(app)
write_path.register(app)
