"""Makes the document of an incident from the story of a group and from everything else in the input.

It has lag, transactions and replicas if the input has evidence of them; `not_in_input` says which evidence is missing.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from sexton import __version__
from sexton.archive.cluster_metadata import METADATA_FOLDER, newest_metadata
from sexton.archive.files import cluster_folder
from sexton.archive.folder import filesystem
from sexton.history.events import Event, Story
from sexton.history.log_story import StoryReader
from sexton.incident.broker_logs import BrokerLogs
from sexton.incident.callers import who_did
from sexton.incident.document import (
    EvidenceRecord,
    Incident,
    LagRow,
    MadeFrom,
    ReplicaRow,
    Setting,
    causes_of,
)
from sexton.lag.measure_lag import COMMITTED, PARTITIONS, Instant, measure
from sexton.lake.audits import audit_rows, newest_audit
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun
from sexton.rehearsal.logs import decoded
from sexton.runs.source import METADATA_SLACK_MS, LogSource
from sexton.tables import TABLES
from sexton.views.coordinator_view import CoordinatorView

MAX_EVIDENCE = 1_000
"""Maximum number of records of evidence, of which the newest are kept: a group may have lost a million offsets."""
_REPLICAS = [field.name for field in fields(ReplicaRow) if field.name != "audited_at_ms"]
_LAGS = [field.name for field in fields(LagRow)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What is known of a group before anything else is read: its story, the logs of brokers, and the `files` that were
    used, as (description, path). `read_by` is as in Incident."""

    group_id: str
    cluster_id: str
    as_of_ms: int | None
    read_by: str
    story: Story
    logs: BrokerLogs | None
    files: Sequence[tuple[str, Path]]
    warnings: Sequence[str]
    now_ms: int


def from_log(facts: GroupFacts, view: CoordinatorView, source: LogSource, reader: StoryReader | None) -> Incident:
    """The incident from a log: a broker's disk or an archive."""
    fs, root = filesystem(source.uri)
    story, home, metadata = facts.story, facts.story.log_partition, None
    missing = {"replicas": "one broker's log has one replica: compare them with sexton replicas diff"}
    wanted = {log_offset for log_offset, _, _ in _places(story.events)}
    records = {} if reader is None else {one.log_offset: decoded(one) for one in reader.records_at(wanted)}
    segments = [] if home is None else source.segments.get(home, [])
    made_from = [_hashed(fs, "segment", one.path) for one in segments]
    config = [Setting(name="profile", value=facts.read_by, source="the rules that were followed")]
    if source.is_archive:
        at_ms = None if facts.as_of_ms is None else facts.as_of_ms + METADATA_SLACK_MS
        metadata = newest_metadata(fs, root, cluster_id=source.cluster_id, at_ms=at_ms)
    if metadata is None:
        missing["config"] = "a disk does not have the brokers' settings: an archive records them with each snapshot"
    else:
        folder = cluster_folder(root, source.cluster_id, METADATA_FOLDER)
        made_from.append(_hashed(fs, "cluster metadata", f"{folder}/{metadata.taken_at_ms}.json"))
        of_brokers = {"broker version": metadata.broker_version or "not recorded", **metadata.settings}
        for by, found in (("brokers", of_brokers), ("the offsets topic", metadata.topic_settings)):
            config += [Setting(name=name, value=value, source=by) for name, value in sorted(found.items())]
    lag = _lag(view, source, facts)
    if lag is None:
        missing["lag"] = "where the logs of topics end is not known: give --topics or an archive, or ask sexton lag"
    incident = _incident(facts, missing, records)
    return replace(incident, lag=lag or [], config=config, made_from=[*made_from, *incident.made_from])


def from_tables(facts: GroupFacts, lake: Lake, run: PublishedRun) -> Incident:
    """The incident from published tables and the newest audits of replicas and lag."""
    differences = [
        ReplicaRow(audited_at_ms=at_ms, **{name: row[name] for name in _REPLICAS})
        for at_ms, row in _audited(facts, lake, run, "replica_differences", _REPLICAS)
    ]
    lags = [LagRow(**{name: row[name] for name in _LAGS}) for _, row in _audited(facts, lake, run, "time_lag", _LAGS)]
    missing = {} if differences else {"replicas": "no audit of replicas found a difference here, or none was made"}
    if not lags:
        missing["lag"] = "no audit of lag has this group, or none was made"
    config = [
        Setting(name=name, value=str(run.row[name]), source="the run")
        for name in ("profile", "retention_ms", "coverage", "code_version")
    ]
    incident = _incident(facts, missing, {})
    made_from = [MadeFrom(what="published run", path=run.key.run_id, size_bytes=None, sha256=None), *incident.made_from]
    return replace(incident, lag=lags, replicas=differences, config=config, made_from=made_from)


def from_snapshots(facts: GroupFacts) -> Incident:
    """The incident from admin snapshots, where the log is hidden."""
    why = "admin snapshots do not have it: the log is hidden"
    return _incident(facts, dict.fromkeys(("evidence", "lag", "transactions", "replicas", "config"), why), {})


def _incident(facts: GroupFacts, missing: dict[str, str], records: Mapping[int, dict[str, Any]]) -> Incident:
    """The incident with the sections that do not depend on the input, from the story and the logs of brokers."""
    story, local = facts.story, pafs.LocalFileSystem()
    story_fields = story.fields()
    evidence = [
        EvidenceRecord(log_offset=log_offset, timestamp_ms=at_ms, shows=shows, record=records.get(log_offset))
        for log_offset, at_ms, shows in sorted(_places(story.events), key=lambda place: place[0])
    ]
    logs = [] if facts.logs is None else facts.logs.files
    return Incident(
        group_id=facts.group_id,
        cluster_id=facts.cluster_id,
        log_partition=story.log_partition,
        as_of_ms=facts.as_of_ms,
        made_at_ms=facts.now_ms,
        made_by=__version__,
        read_by=facts.read_by,
        state=story_fields["state"],
        is_held=story.is_held,
        block=story_fields["sweep_blocked"],
        causes=causes_of(story.events),
        events=story.events,
        who=who_did(story.events, facts.group_id, facts.logs),
        evidence=evidence[-MAX_EVIDENCE:],
        next=story.next_verdicts,
        transactions=story.transactions,
        made_from=[
            *(_hashed(local, what, str(path)) for what, path in facts.files),
            *(MadeFrom(what="broker log", path=one.path, size_bytes=one.size_bytes, sha256=one.sha256) for one in logs),
        ],
        not_in_input=missing,
        warnings=[*facts.warnings, *story.notes],
    )


def _places(events: Iterable[Event]) -> Iterable[tuple[int, int | None, str]]:
    """(log_offset, timestamp, what it shows) of the records that events rest on."""
    for event in events:
        for row in event.offsets:
            key = f"{row['topic']}-{row['partition']}"
            if isinstance(row.get("old_log_offset"), int):
                at_ms = row.get("old_commit_timestamp_ms")
                yield int(str(row["old_log_offset"])), at_ms if isinstance(at_ms, int) else None, f"{key}: value before"
            if isinstance(row["log_offset"], int):
                yield row["log_offset"], event.timestamp_ms, f"{key}: {event.what}"
        if not event.offsets and event.log_offset >= 0:
            yield event.log_offset, event.timestamp_ms, event.what


def _lag(view: CoordinatorView, source: LogSource, facts: GroupFacts) -> list[LagRow] | None:
    """The lag of the group's committed offsets, at the instant at which the ends of logs are known; None if no ends are
    known."""
    home, group_id = facts.story.log_partition, facts.group_id
    if source.topics is None or home is None or home not in view.coordinator.shards:
        return None
    held = view.coordinator.shards[home].view
    pending: dict[tuple[str, int], list[int]] = {}
    for producer_id, offsets in sorted(held.transactions().items()):
        for group, topic, partition in offsets:
            if group == group_id:
                pending.setdefault((topic, partition), []).append(producer_id)
    rows = [
        (group_id, *key, one.committed_offset, one.topic_id, one.leader_epoch, pending.get(key, []))
        for key, one in sorted(held.offsets(group_id).items())
    ]
    ends = [
        (row["topic"], row["id"], number, start, end)
        for row in source.topics
        for number, (start, end) in enumerate(row["partitions"])
    ]
    as_of_ms = facts.as_of_ms or source.topics_at_ms or source.taken_at_ms
    instant = Instant(
        archive=source.uri,
        cluster_id=source.cluster_id,
        as_of_ms=view.read[home].max_timestamp_ms + 1 if as_of_ms is None else as_of_ms,
        committed=_table("committed_offsets", COMMITTED, rows, pa.field("pending_producer_ids", pa.list_(pa.int64()))),
        partitions=_table("topic_partitions", PARTITIONS, ends),
        sees_all_topics=bool(source.sees_all_topics),
    )
    return [LagRow(**{name: row[name] for name in _LAGS}) for row in measure(instant).to_pylist()]


def _table(name: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]], *more: pa.Field) -> pa.Table:
    """`rows` as a table with the given columns of the declared table `name`, and the fields `more`."""
    schema = pa.schema([*(TABLES[name].column(column).field for column in columns), *more])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def _audited(
    facts: GroupFacts, lake: Lake, run: PublishedRun, table: str, columns: Sequence[str]
) -> list[tuple[int, dict[str, Any]]]:
    """The group's rows of the newest audit, each as (instant of the audit, row)."""
    at_ms = newest_audit(lake, [table], run.key.cluster_id, until_ms=facts.as_of_ms)
    if at_ms is None:
        return []
    rows = audit_rows(lake, table, run.key.cluster_id, at_ms, [*columns, "group_id"])
    return [(at_ms, row) for row in rows if row["group_id"] == facts.group_id]


def _hashed(fs: pafs.FileSystem, what: str, path: str) -> MadeFrom:
    digest, size = hashlib.sha256(), 0
    with fs.open_input_stream(path) as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return MadeFrom(what=what, path=path, size_bytes=size, sha256=digest.hexdigest())
