"""More questions of `sexton groups`: who has a group, what goes with a log partition, which commits are taken."""

from typing import Annotated

import typer

from sexton.cli.asking import (
    Archive,
    AsOf,
    Profile,
    RunDir,
    Segments,
    TopicsFile,
    desk_of,
    error_fields,
    exit_code,
    tell_json,
    tell_line,
    tell_notes,
    tell_table,
)
from sexton.cli.options import Debug, Json
from sexton.cli.progress import working
from sexton.errors import UsageError
from sexton.report.names import short

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
CHECK_COMMIT_EXAMPLES = """\
[b]Examples[/b]

[dim]# would the offsets tool get through, while the group has members?[/dim]
sexton groups check-commit my-group orders:0 orders:1 --segments backup

[dim]# a member, and a note of 5,000 characters[/dim]
sexton groups check-commit my-group orders:0 --member-id m-1 --generation 7 --metadata-length 5000 --run audit
"""
REGISTRATION_EXAMPLES = """\
[b]Examples[/b]

[dim]# the record of an empty group, as Kafka 2.8 writes it[/dim]
sexton groups registration my-group --segments backup --profile group_metadata_manager:2.8
"""
_QUESTION = "Question"


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
    """Say which log partition each group belongs to (FindCoordinator). Who leads it is not recorded: that is `-`."""
    from sexton.coordinator.questions.errors import Error
    from sexton.coordinator.questions.ownership import Owner, find_coordinator

    desk = desk_of(segments, archive, run, topics=topics, as_of=as_of, profile=profile)
    count = desk.coordinator.partition_count
    if count is None:  # then a group belongs where it is found
        places = {group: desk.coordinator.log_partition_of(group) for group in groups}
        owners = [Owner(group_id=group, error=Error.NONE, log_partition=place) for group, place in places.items()]
    else:
        owners = [find_coordinator(group, partition_count=count) for group in groups]
    if json:
        told = [
            {"group_id": owner.group_id, "log_partition": owner.log_partition, "leader": owner.leader,
             **error_fields(owner.error)}
            for owner in owners
        ]  # fmt: skip
        tell_json(desk, "FindCoordinator", {"partition_count": count, "groups": told})
        return exit_code(desk)
    tell_table(
        ("GROUP", "LOG-PARTITION", "COORDINATOR (ID)", "ERROR"),
        ((owner.group_id, owner.log_partition, owner.leader, owner.error.name) for owner in owners),
    )
    tell_notes(desk)
    return exit_code(desk)


def unload(
    log_partition: Annotated[int, typer.Argument(metavar="LOG-PARTITION", min=0, help="The log partition.")],
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
    """Say what a broker drops from memory when it stops leading a log partition; nothing is changed.

    Groups that stay are of other log partitions: only coordinators before 4.0 load those and keep them.
    """
    from sexton.coordinator.questions.unloading import unload as unloaded

    desk = desk_of(segments, archive, run, topics=topics, as_of=as_of, profile=profile)
    if log_partition not in desk.coordinator.shards:
        raise UsageError(f"log partition {log_partition} is not here", place=desk.place)
    with working("Reading the log", is_quiet=json):
        gone = unloaded(desk.coordinator, log_partition)
    desk.check_read()
    groups, staying = ([group.group_id for group in some] for some in (gone.groups, gone.staying))
    if json:
        answer = {"log_partition": log_partition, "groups": groups, "offsets": gone.offset_count, "staying": staying}
        tell_json(desk, "unload", answer)
        return exit_code(desk)
    tell_line(
        f"{gone.offset_count} cached offsets and {len(groups)} cached groups go with log partition {log_partition}"
    )
    tell_table(("GROUP", "STAYS"), [*((name, "no") for name in groups), *((name, "yes") for name in staying)])
    tell_notes(desk)
    return exit_code(desk)


def check_commit(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group id.")],
    partitions: Annotated[list[str], typer.Argument(metavar="TOPIC:PARTITION...", help="What would be committed.")],
    *,
    member_id: Annotated[str, typer.Option(rich_help_panel=_QUESTION, help="Of the member that commits.")] = "",
    group_instance_id: Annotated[
        str | None, typer.Option(metavar="ID", rich_help_panel=_QUESTION, help="group.instance.id of a static member.")
    ] = None,
    generation: Annotated[
        int, typer.Option(metavar="N", rich_help_panel=_QUESTION, help="Generation, or member epoch; -1: no member.")
    ] = -1,
    transactional: Annotated[
        bool, typer.Option("--transactional", rich_help_panel=_QUESTION, help="In a transaction (TxnOffsetCommit).")
    ] = False,
    api_version: Annotated[
        int, typer.Option(metavar="N", min=0, rich_help_panel=_QUESTION, help="Version of the request.")
    ] = 9,
    metadata_length: Annotated[
        int, typer.Option(metavar="N", min=0, rich_help_panel=_QUESTION, help="Length of the note, in UTF-16 units.")
    ] = 0,
    max_metadata_length: Annotated[
        int, typer.Option(metavar="N", min=0, rich_help_panel=_QUESTION, help="The broker's offset.metadata.max.bytes.")
    ] = 4096,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Say what a coordinator would answer to a commit, partition by partition (OffsetCommit, TxnOffsetCommit).

    Nothing is committed. With known topics, partitions that do not exist are refused as the broker refuses them.
    """
    places = [_partition(text) for text in partitions]

    from sexton.coordinator.questions.commit import Commit, CommitPartition, validate_commit

    desk = desk_of(segments, archive, run, topics=topics, as_of=as_of, profile=profile)
    with working("Reading the log", is_quiet=json):
        desk.check_coverage([group])
    ids = {topic: topic_id for topic_id, topic in desk.topics.ids.items()}
    commit = Commit(
        group_id=group,
        partitions=tuple(
            CommitPartition(topic=topic, partition=number, metadata="x" * metadata_length, topic_id=ids.get(topic))
            for topic, number in places
        ),
        member_id=member_id,
        group_instance_id=group_instance_id,
        generation=generation,
        is_transactional=transactional,
        api_version=api_version,
    )
    outcome = validate_commit(
        desk.coordinator,
        commit,
        max_metadata_length=max_metadata_length,
        partition_counts=desk.topics.partition_counts,
    )
    if json:
        told = [
            {"topic": topic, "partition": number, **error_fields(outcome[topic, number])} for topic, number in places
        ]
        operation = "TxnOffsetCommit" if transactional else "OffsetCommit"
        tell_json(desk, operation, {"group_id": group, "partitions": told})
        return exit_code(desk)
    tell_table(
        ("TOPIC", "PARTITION", "ERROR"), ((topic, number, outcome[topic, number].name) for topic, number in places)
    )
    tell_notes(desk)
    return exit_code(desk)


def registration(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="An empty classic group.")],
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
    """Show the record that a coordinator writes of an empty classic group, key and value in hex (storeGroup)."""
    from sexton.coordinator.questions.errors import Error
    from sexton.coordinator.questions.registration import Registration, value_version

    desk = desk_of(segments, archive, run, topics=topics, as_of=as_of, profile=profile)
    with working("Reading the log", is_quiet=json):
        desk.check_coverage([group])
    rules, error = desk.coordinator.profile, desk.coordinator.error_of(group)
    found = desk.coordinator.held_of(group).group(group) if error is Error.NONE else None
    if found is None:
        raise UsageError(f"no group {group!r}: {error.name}", place=desk.place, fix="see `sexton groups list`")
    try:
        key, value = Registration.of_group(found).encode(rules)
        version = value_version(rules)
    except ValueError as refused:
        raise UsageError(str(refused), place=desk.place, fix="only empty classic groups, from 0.9 on") from None
    if json:
        record = {"group_id": group, "version": version, "key": key.hex(), "value": value.hex()}
        tell_json(desk, "storeGroup", record)
        return exit_code(desk)
    tell_line(f"{short(group)}: type 2, version {version}, as Kafka {'.'.join(map(str, rules.release))} writes it")
    tell_line(f"key    {key.hex()}")
    tell_line(f"value  {value.hex()}")
    tell_notes(desk)
    return exit_code(desk)


def _partition(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition(":")
    if not topic or not (partition.isascii() and partition.isdigit()):
        raise UsageError(f"not TOPIC:PARTITION: {text!r}", fix="such as orders:0")
    return topic, int(partition)


def register(app: typer.Typer) -> None:
    """Add the commands to `sexton groups`."""
    app.command("coordinator", epilog=COORDINATOR_EXAMPLES)(coordinator)
    app.command("unload", epilog=UNLOAD_EXAMPLES)(unload)
    app.command("check-commit", epilog=CHECK_COMMIT_EXAMPLES)(check_commit)
    app.command("registration", epilog=REGISTRATION_EXAMPLES)(registration)
