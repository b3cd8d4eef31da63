"""Stored admin snapshots: the coordinators' answers, for clusters whose offsets log cannot be read.

    <archive>/<cluster_id>/admin_snapshots/<taken_at_ms>/groups.parquet, members.parquet, offsets.parquet
                                      /<taken_at_ms>.json     its manifest, written after them

An admin snapshot without a manifest does not exist. Files are never overwritten: of two admin snapshots at the same
instant, the second gets the next free millisecond as its name. A killed admin snapshot is not resumed: the next one
starts from the beginning.

All instants are from the clock of the client that took the snapshot. Every group has the instants of its request and
its response: the response describes some moment in between. Not here: the requests to the cluster
(kafka.admin_snapshot), and bounds from several admin snapshots (admin_intervals).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata
from sexton.archive.create import create_whole
from sexton.archive.files import cluster_folder, numbered_files, read_hashed, read_record, record_json
from sexton.archive.lineages import ADMIN_SNAPSHOTS_FOLDER
from sexton.errors import UsageError
from sexton.tables import TABLES

COVERED_MS = 600_000
"""An admin snapshot answers for instants up to this long before it began: the same limit as for a log snapshot on time
(coverage.ON_TIME_MS)."""
ROWS_A_PIECE = 65_536
"""Rows that are buffered before they are compressed into a row group."""
GROUPS = pa.schema(
    [
        pa.field("group_id", pa.string(), nullable=False),
        pa.field("group_type", pa.string()),
        pa.field("state", pa.string()),
        pa.field("protocol_type", pa.string()),
        pa.field("protocol", pa.string()),
        pa.field("group_epoch", pa.int32()),
        pa.field("member_count", pa.int32()),
        pa.field("subscribed_topics", pa.list_(pa.string())),
        pa.field("subscription_known", pa.bool_()),
        pa.field("coordinator", pa.int32()),
        pa.field("error", pa.string()),
        pa.field("asked_ms", pa.int64()),
        pa.field("answered_ms", pa.int64()),
        pa.field("offsets_error", pa.string()),
        pa.field("offsets_asked_ms", pa.int64()),
        pa.field("offsets_answered_ms", pa.int64()),
    ]
)
"""A listed group. `error` is why its description is missing, `offsets_error` why its offsets are missing: Kafka's error
name, or the reason why the broker did not answer. The columns of the missing response are NULL."""


def _columns(table: str, names: str, *, required: str) -> pa.Schema:
    """Columns of a table, as declared; the `required` ones are never NULL."""
    declared = (TABLES[table].column(name).field for name in names.split())
    return pa.schema([column.with_nullable(column.name not in required.split()) for column in declared])


# Listed here, although the tables are declared elsewhere: files of this format must stay readable.
MEMBERS = _columns(
    "members",
    "group_id member_id group_instance_id client_id client_host rack_id member_epoch subscribed_topics assignment "
    "member_metadata member_assignment",
    required="group_id member_id",
)
OFFSETS = _columns(
    "committed_offsets",
    "group_id topic partition committed_offset leader_epoch metadata is_unstable",
    required="group_id topic partition committed_offset metadata",
)
"""A committed offset. `is_unstable`: an open transaction may still change it; NULL where the broker did not say."""
SCHEMAS: Mapping[str, pa.Schema] = {"groups": GROUPS, "members": MEMBERS, "offsets": OFFSETS}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSnapshot:
    """The manifest of an admin snapshot. `taken_at_ms` is when it began. `reason`: why the log was not read instead.

    `metadata` has topics and settings as a log snapshot records them, with a `partition_count` of 0 where it is
    unknown. `failed_brokers` are errors by broker id: the groups of these brokers are missing. A missing group is known
    not to have existed only if `is_whole`.
    """

    cluster_id: str
    taken_at_ms: int
    finished_at_ms: int
    reason: str
    metadata: ClusterMetadata
    sees_all_groups: bool
    failed_brokers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    """Groups with an error in any of their answers."""
    sha256: dict[str, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether a missing group proves that it did not exist."""
        return self.sees_all_groups and not self.failed_brokers


class AdminSnapshotWriter:
    """Collects the rows of an admin snapshot in compressed slices, and writes its files when it is complete."""

    def __init__(self) -> None:
        self._tables = {name: _Pieces(schema) for name, schema in SCHEMAS.items()}

    def add(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows of a table of SCHEMAS, values in the schema's order."""
        self._tables[table].add(rows)

    def write(self, fs: pafs.FileSystem, root: str, snapshot: AdminSnapshot) -> AdminSnapshot:
        """Write the files of the admin snapshot; returns its manifest."""
        data = {name: pieces.finish() for name, pieces in self._tables.items()}
        while not create_whole(fs, _file(root, snapshot, "groups"), data["groups"], what="admin_snapshot"):
            snapshot = replace(snapshot, taken_at_ms=snapshot.taken_at_ms + 1)  # another admin snapshot has that name
        for name in ("members", "offsets"):
            create_whole(fs, _file(root, snapshot, name), data[name], what="admin_snapshot")
        snapshot = replace(
            snapshot,
            metadata=replace(snapshot.metadata, taken_at_ms=snapshot.taken_at_ms),
            rows={name: pieces.rows for name, pieces in self._tables.items()},
            sha256={name: hashlib.sha256(each).hexdigest() for name, each in data.items()},
        )
        path = admin_snapshot_manifest(root, snapshot.cluster_id, snapshot.taken_at_ms)
        create_whole(fs, path, record_json(snapshot), what="admin_snapshot_manifest")
        return snapshot


class _Pieces:
    """One Parquet file in memory, with at least ROWS_A_PIECE rows in each row group but the last."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = 0
        self._waiting: list[Sequence[Any]] = []
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")
        self._schema = schema

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        self.rows += len(rows)
        self._waiting += rows
        if len(self._waiting) >= ROWS_A_PIECE:
            self._flush()

    def finish(self) -> bytes:
        self._flush()
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return data

    def _flush(self) -> None:
        if self._waiting:
            columns = list(zip(*self._waiting, strict=True))
            arrays = [pa.array(values, each.type) for values, each in zip(columns, self._schema, strict=True)]
            self._writer.write_table(pa.table(arrays, schema=self._schema))
            self._waiting = []


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRows:
    """An admin snapshot with its rows of GROUPS and OFFSETS."""

    snapshot: AdminSnapshot
    groups: pa.Table
    offsets: pa.Table


class SnapshotSeries(ABC):
    """A series of admin snapshots of one cluster, the evidence where the log cannot be read.

    Any other source of group states can implement this class (runs.admin_tables.KINDS), if it has the instants of
    request and response. `coverage` names the source in tables and plans, `source` in sentences. A damaged admin
    snapshot is skipped as if it had not been taken; `damaged` has the reason.
    """

    coverage: str
    source: str

    def __init__(self, fs: pafs.FileSystem, root: str, cluster_id: str) -> None:
        self.fs, self.root, self.cluster_id = fs, root, cluster_id
        self.damaged: dict[int, str] = {}
        self._group_ids: pa.Array | None = None
        self._read: dict[int, SnapshotRows] = {}

    @property
    @abstractmethod
    def instants(self) -> list[int]:
        """When the admin snapshots began, in order."""

    @abstractmethod
    def manifest(self, taken_at_ms: int) -> AdminSnapshot:
        """The manifest of an admin snapshot; UsageError when it is damaged."""

    @abstractmethod
    def read_table(self, snapshot: AdminSnapshot, name: str) -> pa.Table:
        """A table of SCHEMAS of an admin snapshot; UsageError when it is damaged."""

    def of_groups(self, group_ids: Iterable[str]) -> Self:
        """A copy of this series that has only the rows of these groups, and reads each admin snapshot once."""
        own = copy(self)
        own.damaged, own._group_ids, own._read = {}, pa.array(group_ids, pa.string()), {}
        return own

    def at(self, as_of_ms: int | None) -> AdminSnapshot | None:
        """The admin snapshot that answers for an instant: the first one that began at or after it, at most COVERED_MS
        later.

        For None it is the newest. The result is None if there is no such admin snapshot.
        """
        if as_of_ms is None:
            found = max(self.instants, default=None)
        else:
            found = min((at for at in self.instants if as_of_ms <= at <= as_of_ms + COVERED_MS), default=None)
        return None if found is None else self.manifest(found)

    def rows(self, snapshot: AdminSnapshot) -> SnapshotRows:
        """The rows of one admin snapshot; UsageError when it is damaged."""
        if snapshot.taken_at_ms in self._read:
            return self._read[snapshot.taken_at_ms]
        rows = SnapshotRows(
            snapshot=snapshot, groups=self.table(snapshot, "groups"), offsets=self.table(snapshot, "offsets")
        )
        if self._group_ids is not None:
            self._read[snapshot.taken_at_ms] = rows
        return rows

    def table(self, snapshot: AdminSnapshot, name: str) -> pa.Table:
        """A table of one admin snapshot; UsageError when it is damaged."""
        rows = self.read_table(snapshot, name)
        return rows if self._group_ids is None else rows.filter(pc.is_in(rows["group_id"], value_set=self._group_ids))

    def before(self, taken_at_ms: int, *, after_ms: int = -1) -> Iterator[SnapshotRows]:
        """The admin snapshots that began before `taken_at_ms` and after `after_ms`, newest first, without damaged
        ones."""
        for at_ms in reversed([at for at in self.instants if after_ms < at < taken_at_ms]):
            if at_ms in self.damaged:
                continue
            try:
                rows = self._read.get(at_ms) or self.rows(self.manifest(at_ms))
            except UsageError as error:
                self.damaged[at_ms] = str(error)
                continue
            yield rows


class AdminSnapshots(SnapshotSeries):
    """The admin snapshots in an archive."""

    coverage, source = "admin", "by Admin API"

    @cached_property
    def instants(self) -> list[int]:
        return admin_snapshot_instants(self.fs, self.root, self.cluster_id)

    def manifest(self, taken_at_ms: int) -> AdminSnapshot:
        path = admin_snapshot_manifest(self.root, self.cluster_id, taken_at_ms)
        snapshot = read_record(self.fs, path, AdminSnapshot, what="a manifest of an admin snapshot")
        return replace(snapshot, taken_at_ms=taken_at_ms, cluster_id=self.cluster_id)

    def read_table(self, snapshot: AdminSnapshot, name: str) -> pa.Table:
        path = _file(self.root, snapshot, name)
        data = read_hashed(self.fs, path, snapshot.sha256.get(name))
        try:
            found = pq.read_table(pa.BufferReader(data))
            found.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UsageError(f"it cannot be read as Parquet: {error}", where=path) from None
        if not found.schema.equals(SCHEMAS[name]) or found.num_rows != snapshot.rows.get(name):
            raise UsageError("it does not have the columns or the row count of this file", where=path)
        return found


def admin_snapshot_manifest(root: str, cluster_id: str, taken_at_ms: int) -> str:
    """Path of the manifest of an admin snapshot."""
    return f"{cluster_folder(root, cluster_id, ADMIN_SNAPSHOTS_FOLDER)}/{taken_at_ms}.json"


def admin_snapshot_instants(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[int]:
    """When the finished admin snapshots of a cluster began, in order."""
    return numbered_files(fs, cluster_folder(root, cluster_id, ADMIN_SNAPSHOTS_FOLDER))


def read_admin_snapshot(fs: pafs.FileSystem, root: str, cluster_id: str, taken_at_ms: int) -> None:
    """Read all files of an admin snapshot; UsageError when one is damaged."""
    series = AdminSnapshots(fs, root, cluster_id)
    snapshot = series.manifest(taken_at_ms)
    for name in SCHEMAS:
        series.read_table(snapshot, name)


def _file(root: str, snapshot: AdminSnapshot, table: str) -> str:
    return f"{cluster_folder(root, snapshot.cluster_id, ADMIN_SNAPSHOTS_FOLDER)}/{snapshot.taken_at_ms}/{table}.parquet"
