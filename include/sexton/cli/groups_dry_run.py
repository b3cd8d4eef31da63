"""`sexton groups check-commit`, `check-join`, `metadata-record`: answers, and the batches that would be appended."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton import as_text
from sexton.as_text import MINUTE_MS, now_ms
from sexton.cli.input_options import LogInput
from sexton.cli.options import GroupId, Json, codec_number, option, parse_exact_partition, shared
from sexton.cli.output import error_fields, print_line, print_notes, print_section, print_table, print_view_json
from sexton.errors import UsageError
from sexton.log.entry import CODECS
from sexton.report.names import short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sexton.coordinator.api.append_settings import AppendSettings
    from sexton.coordinator.api.commit import Commit
    from sexton.coordinator.api.dry_run import CommitDryRun
    from sexton.coordinator.api.errors import Error
    from sexton.coordinator.batches import LogEnd
    from sexton.views.coordinator_view import CoordinatorView

MEMBER_COLUMNS = ("MEMBER", "SYNCGROUP", "SESSION-ENDS")
_request = partial(option, panel="Request")
_setting = partial(option, panel="Settings of the broker and of the offsets topic")

_RECORDED = "Default: as recorded, else Kafka's"
_CLIENT = ("member_id", "group_instance_id", "api_version")
_PRODUCER = ("generation", "producer_id", "producer_epoch", "retention_ms")
"""Options that are also fields of the request, under the same name."""
Out = Annotated[Path | None, shared("--out DIR", "Also write the batch here, as a segment that kafka-dump-log reads.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInput:
    """Settings of the broker and of the offsets topic, for both dry runs that write a batch."""

    codec: str | None = _setting(f"--codec {'|'.join(CODECS)}", f"offsets.topic.compression.codec. {_RECORDED}, none.")
    message_format: int | None = _setting(
        "--message-format 0|1|2",
        "Record format (magic) of message.format.version. Default: as recorded, else the newest of the release.",
        min=0,
        max=2,
    )
    max_message_bytes: int | None = _setting(
        "--max-message-bytes N", f"max.message.bytes of the offsets topic. {_RECORDED}, 1048588.", min=1
    )
    required_acks: int | None = _setting(
        "--required-acks N",
        f"offsets.commit.required.acks, up to 3.9. {_RECORDED}, -1: all in-sync replicas.",
        min=-1,
        max=32_767,
    )
    leader_epoch: int = _setting("--leader-epoch N", "Leader epoch of the log partition.", default=0, min=0)

    def settings(self, view: "CoordinatorView") -> "AppendSettings":
        """The recorded settings of the broker, overridden by the options."""
        from sexton.coordinator.api.append_settings import ACKS, append_settings, impossible_codec

        recorded, profile = view.recorded, view.coordinator.profile
        codec = codec_number(self.codec)
        if self.max_message_bytes is not None:
            recorded = replace(recorded, max_message_bytes=self.max_message_bytes)
        if self.required_acks is not None:
            if profile.is_java:
                what, fix = "Kafka 4.x has no offsets.commit.required.acks", "leave it out (KIP-1041)"
                raise UsageError(what, where="--required-acks", fix=fix)
            recorded = replace(recorded, broker_settings={**recorded.broker_settings, ACKS: str(self.required_acks)})
        settings = append_settings(recorded, profile=profile)
        if codec is None:
            view.warnings.extend(settings.warnings)
        asked = {"codec": codec, "message_format": self.message_format}
        topic = replace(settings.topic, **{name: value for name, value in asked.items() if value is not None})
        if refused := impossible_codec(topic.codec, topic.magic(profile), profile):
            fix = "leave them out, or choose another --profile"
            raise UsageError(refused, where="--codec, --message-format", fix=fix)
        return replace(settings, topic=topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBrokerInput(BrokerInput):
    """The settings of BrokerInput, and those that only a commit needs."""

    max_metadata_length: int | None = _setting(
        "--max-metadata-length N", f"offset.metadata.max.bytes. {_RECORDED}, 4096.", min=0
    )
    retention_minutes: int | None = _setting(
        "--retention-minutes N",
        f"offsets.retention.minutes: up to 2.0 each record has an expiry. {_RECORDED} of that release.",
        min=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInput:
    """The client that sends the request, for both dry runs of a request."""

    member_id: str = _request("--member-id", "The member that sends the request; none: a new client.", default="")
    group_instance_id: str | None = _request("--group-instance-id ID", "group.instance.id of a static member.")
    api_version: int = _request("--api-version N", "Version of the request.", default=9, min=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInput(ClientInput):
    """The options of a commit request."""

    generation: int = _request("--generation N", "Generation or member epoch; -1: no member.", default=-1)
    transactional: bool = _request("--transactional", "In a transaction (TxnOffsetCommit).", default=False)
    producer_id: int = _request("--producer-id N", "Producer id of the transaction.", default=0, min=0)
    producer_epoch: int = _request("--producer-epoch N", "Producer epoch of the transaction.", default=0, min=0)
    committed_offset: int = _request("--committed-offset N", "The offset, for every partition.", default=0)
    metadata_length: int = _request("--metadata-length N", "Length of the metadata, in UTF-16 units.", default=0, min=0)
    retention_ms: int | None = _request("--retention-ms N", "retention_time_ms of versions 2 to 4.", min=0)
    timestamp_ms: int = _request(
        "--timestamp-ms N", "Commit timestamp of version 1, for every partition; -1: now.", default=-1
    )

    def commit(self, group: str, places: "Sequence[tuple[str, int]]", topic_ids: "Mapping[str, str]") -> "Commit":
        """The request that commits the partitions `places`; `topic_ids` are by topic."""
        from sexton.coordinator.api.commit import Commit, CommitPartition

        return Commit(
            group_id=group,
            partitions=tuple(
                CommitPartition(
                    topic=topic,
                    partition=number,
                    committed_offset=self.committed_offset,
                    metadata="x" * self.metadata_length,
                    topic_id=topic_ids.get(topic),
                    timestamp_ms=self.timestamp_ms,
                )
                for topic, number in places
            ),
            is_transactional=self.transactional,
            **{name: getattr(self, name) for name in (*_CLIENT, *_PRODUCER)},
        )


def check_commit(
    group: GroupId,
    partitions: Annotated[list[str], typer.Argument(metavar="TOPIC:PARTITION...", help="The partitions to commit.")],
    *,
    request: CommitInput,
    options: CommitBrokerInput,
    out: Out = None,
    log: LogInput,
    json: Json = False,
) -> int:
    """Dry run of a commit: validation, the batch that would be appended, and the answer for each append error.

    Follows OffsetCommit and TxnOffsetCommit; commits nothing. If the topics are known, partitions that do not exist are
    refused as the broker refuses them.

    # would an offset reset succeed while the group has members?
    sexton groups check-commit my-group orders:0 orders:1 --segments backup

    # a member, and metadata of 5,000 characters
    sexton groups check-commit my-group orders:0 --member-id m-1 --generation 7 --metadata-length 5000 --run audit

    # the batch of a transaction's commit, for kafka-dump-log
    sexton groups check-commit my-group orders:0 --transactional --producer-id 4000 --segments backup --out batch
    """
    places = [parse_exact_partition(text) for text in partitions]

    from sexton.coordinator.api.commit import group_made
    from sexton.coordinator.api.dry_run import commit_offsets

    codec_number(options.codec)  # refused before the log is read
    view = log.view_of([group], is_quiet=json)
    broker = options.settings(view)
    ids = {topic: topic_id for topic_id, topic in view.topics.ids.items()}
    end = _log_end(view, group, options.leader_epoch)
    coordinator, commit = replace(view.coordinator, profile=broker.profile), request.commit(group, places, ids)
    minutes = (
        options.retention_minutes
        or int(view.recorded.broker_settings.get("offsets.retention.minutes") or 0)
        or view.coordinator.profile.default_retention_minutes
    )
    limit = options.max_metadata_length
    dry_run = commit_offsets(
        coordinator,
        commit,
        now_ms=now_ms() if view.as_of_ms is None else view.as_of_ms,
        retention_ms=minutes * MINUTE_MS,
        topic=broker.topic,
        end=end,
        max_metadata_length=broker.max_metadata_length if limit is None else limit,
        partition_counts=view.topics.partition_counts,
        required_acks=broker.required_acks,
    )
    made = group_made(coordinator, commit, dry_run.outcome)
    if out is not None:
        _write(out, end, dry_run.batch)
    if json:
        operation = "TxnOffsetCommit" if request.transactional else "OffsetCommit"
        fields = {**_commit_json(group, places, dry_run, end), "makes_group": made is not None, **_waits(broker)}
        return print_view_json(view, operation, fields)
    print_table(("TOPIC", "PARTITION", "ERROR"), ((*place, dry_run.outcome[place].name) for place in places))
    if made is not None:
        print_line(f"makes the group {short(group)}: {made.state}, generation {made.generation}, without a record")
    _print_append(dry_run.batch, len(dry_run.records), end=end, broker=broker, view=view)
    _print_failed_appends({error: answers[places[0]] for error, answers in dry_run.after_failed_append.items()})
    return print_notes(view)


def metadata_record(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="A classic group.")],
    *,
    options: BrokerInput,
    out: Out = None,
    log: LogInput,
    json: Json = False,
) -> int:
    """Dry run of storing a classic group (storeGroup): its record, the batch, and the answer for each append error.

    The record has the group as it is, with its members. For a group that does not exist, it is the record of a new
    group, which 4.x coordinators write at the first JoinGroup. Nothing is written to a log.

    # the record of a group, as Kafka 2.8 writes it
    sexton groups metadata-record my-group --segments backup --profile group_metadata_manager:2.8

    # the record of a group that does not exist yet
    sexton groups metadata-record new-group --segments backup --topics topics.jsonl
    """
    from sexton.coordinator.api.dry_run import store_group
    from sexton.coordinator.api.errors import Error
    from sexton.coordinator.api.group_metadata_record import GroupMetadataRecord, value_version
    from sexton.coordinator.api.listing import describe_group

    codec_number(options.codec)  # refused before the log is read
    view = log.view_of([group], is_quiet=json)
    broker = options.settings(view)
    settings, rules, described = broker.topic, broker.profile, describe_group(view.coordinator, group)
    made_ms = now_ms() if view.as_of_ms is None else view.as_of_ms
    if described.group is None and described.error not in (Error.NONE, Error.GROUP_ID_NOT_FOUND):
        if json:
            fields = {"group_id": group, "state": described.state, **error_fields(described.error)}
            return print_view_json(view, "storeGroup", fields)
        print_line(f"{short(group)}: {described.error.name}")
        return print_notes(view)
    end = _log_end(view, group, options.leader_epoch)
    try:
        version = value_version(rules)
        if described.group is None:
            stored = GroupMetadataRecord.of_new_group(group, now_ms=made_ms, profile=rules)
        else:
            stored = GroupMetadataRecord.of_group(described.group, described.members, profile=rules)
        dry_run = store_group(
            replace(view.coordinator, profile=rules),
            stored,
            now_ms=made_ms,
            topic=settings,
            end=end,
            required_acks=broker.required_acks,
        )
    except ValueError as refused:
        raise UsageError(str(refused), where=view.where, fix="only classic groups, from 0.9 on") from None
    if out is not None:
        _write(out, end, dry_run.batch)
    key, value = dry_run.record
    if json:
        record = {"is_new": described.group is None, "version": version, "key": key.hex(), "value": value.hex()}
        after = {error.name: error_fields(answer) for error, answer in dry_run.after_failed_append.items()}
        batch = {"base_offset": end.log_offset, "batch": dry_run.batch.hex() or None, "after_failed_append": after}
        fields = {"group_id": group, **error_fields(dry_run.error), **record, **batch, **_waits(broker)}
        return print_view_json(view, "storeGroup", fields)
    if described.group is None:
        when = "the first JoinGroup writes it" if rules.is_java else "in memory until its first generation"
        print_line(f"{short(group)}: not there yet; {when}")
    print_line(f"{short(group)}: type 2, version {version}, as Kafka {'.'.join(map(str, rules.release))} writes it")
    print_line(f"key    {key.hex()}")
    print_line(f"value  {value.hex()}")
    if dry_run.error:
        print_line(f"larger than max.message.bytes: the members receive {dry_run.error.name}")
    _print_append(dry_run.batch, 1, end=end, broker=broker, view=view)
    _print_failed_appends(dry_run.after_failed_append)
    return print_notes(view)


def check_join(
    group: GroupId,
    *,
    client: ClientInput,
    protocol_type: str = _request("--protocol-type", "The group's protocol type.", default="consumer"),
    protocol: list[str] | None = _request(
        "--protocol", "An assignor that the member supports (range); may be repeated."
    ),
    syncing: list[str] | None = _request(
        "--syncing MEMBER",
        "Assume that the group rebalances, and that this member waits in SyncGroup: shows the answer to it; may "
        "be repeated.",
    ),
    log: LogInput,
    json: Json = False,
) -> int:
    """Dry run of JoinGroup: the answer to a classic member, and the group afterwards.

    Without a member id, a group that does not exist is created. The group is shown as the request leaves it, before
    other members react and before timers expire.

    # would a new member be accepted, and what becomes of the group?
    sexton groups check-join my-group --segments backup

    # a member that the group may not know, with another assignor
    sexton groups check-join my-group --member-id m-1 --protocol roundrobin --segments backup

    # while the group rebalances and a member waits in SyncGroup
    sexton groups check-join classic-1 --syncing inst-1-0a11d07e-2baa-4d38-961b-d38ea7f1ce91 --segments sexton-demo/log
    """
    from sexton.coordinator.api.join import Join, join_group

    view = log.view_of([group], is_quiet=json)
    join = Join(
        group_id=group,
        protocol_type=protocol_type,
        protocols=tuple(protocol or ("range",)),
        **{name: getattr(client, name) for name in _CLIENT},
    )
    at_ms = now_ms() if view.as_of_ms is None else view.as_of_ms
    try:
        answer = join_group(view.coordinator, join, syncing=syncing or (), at_ms=at_ms)
    except ValueError as refused:
        fix = "see `sexton groups describe --members`"
        raise UsageError(str(refused), where="--syncing", fix=fix) from None
    sessions = [(one, None if one.is_kept_alive else one.session_ends_at_ms) for one in answer.members]
    state, generation = (None, None) if answer.group is None else (answer.group.state, answer.group.generation)
    if json:
        after = {"state": state, "generation": generation, "makes_group": answer.is_new}
        members = [
            {name: getattr(one, name) for name in ("member_id", "awaits_sync", "sync_error")}
            | {"session_ends_at_ms": ends_ms}
            for one, ends_ms in sessions
        ]
        record = {"writes_record": answer.writes_record, **({"members": members} if members else {})}
        return print_view_json(view, "JoinGroup", {"group_id": group, **error_fields(answer.error), **after, **record})
    columns = ("GROUP", "ERROR", "STATE", "GENERATION", "NEW-GROUP")
    print_table(columns, [(short(group), answer.error.name, state, generation, "yes" if answer.is_new else "no")])
    if answer.writes_record:
        print_line("the record of the new group is appended: see `sexton groups metadata-record`")
    rows = (
        (one.member_id, "waits" if one.awaits_sync else one.sync_error, as_text.instant(ends_ms))
        for one, ends_ms in sessions
    )
    print_section(MEMBER_COLUMNS, rows)
    return print_notes(view)


def _commit_json(group: str, places: list[tuple[str, int]], dry_run: "CommitDryRun", end: "LogEnd") -> dict[str, Any]:
    def errors(answers: "Mapping[tuple[str, int], Error]") -> list[dict[str, Any]]:
        return [{"topic": place[0], "partition": place[1], **error_fields(answers[place])} for place in places]

    return {
        "group_id": group,
        "partitions": errors(dry_run.outcome),
        "records": [{"key": key.hex(), "value": value.hex()} for key, value in dry_run.records],
        "base_offset": end.log_offset,
        "batch": dry_run.batch.hex() or None,
        "after_failed_append": {error.name: errors(found) for error, found in dry_run.after_failed_append.items()},
    }


def _print_append(
    batch: bytes, record_count: int, *, end: "LogEnd", broker: "AppendSettings", view: "CoordinatorView"
) -> None:
    if not batch:
        print_line("nothing would be appended")
        return
    magic, codec = broker.topic.magic(view.coordinator.profile), CODECS[broker.topic.codec]
    print_line(
        f"would be appended at log_offset {end.log_offset}: {record_count} records, {len(batch)} bytes, "
        f"record format {magic}, codec {codec}"
    )
    print_line(f"bytes  {batch.hex()}")
    acks = broker.required_acks
    who = "all in-sync replicas have it" if acks < 0 else f"{acks} replicas have it"
    when = "at once" if acks in (0, 1) else f"once {who}, or after {broker.commit_timeout_ms} ms"
    print_line(f"answered {when}")


def _waits(broker: "AppendSettings") -> dict[str, int]:
    return {"required_acks": broker.required_acks, "commit_timeout_ms": broker.commit_timeout_ms}


def _print_failed_appends(answers: "Mapping[Error, Error]") -> None:
    rows = ((error.name, answer.name) for error, answer in answers.items())
    print_section(("IF THE APPEND FAILS WITH", "THE CLIENT RECEIVES"), rows)


def _log_end(view: "CoordinatorView", group: str, leader_epoch: int) -> "LogEnd":
    from sexton.coordinator.batches import LogEnd

    log_partition = view.coordinator.log_partition_of(group)
    part = None if log_partition is None else view.read.get(log_partition)
    return LogEnd(log_offset=0 if part is None else part.next_log_offset, leader_epoch=leader_epoch)


def _write(folder: Path, end: "LogEnd", batch: bytes) -> None:
    if batch:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{end.log_offset:020d}.log").write_bytes(batch)
