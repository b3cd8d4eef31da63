"""A restore as a plan: a row for each offset, its restore_id, and its file in the archive.

    <archive>/<cluster_id>/restores/<restore_id>/restore.jsonl

The first line has the cluster, the source and the options; each other line is an offset. `restore_id` is the SHA-256 of
the file's bytes, so exactly what was shown and approved is carried out. The same diff has the same id whenever and
wherever it was made. The file is written once.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import require_cluster
from sexton.archive.files import is_file, read_file, sha256_folder, write_whole
from sexton.archive.lineages import RESTORES_FOLDER
from sexton.coordinator.offsets import OffsetKey
from sexton.errors import Refused, UsageError
from sexton.plans.basis import BY_LOG, Basis, basis_of

FILE = "restore.jsonl"
FORMAT = 1
_HEAD = ("cluster_id", "source", "overwrites", "clamps", "occurrence", "warnings")


class What(StrEnum):
    """The action for an offset. Only the first six write: KEEP commits the same value again, JOIN lets a member join
    the group and leave it."""

    RESTORE = "restore"
    BELOW_LOG_START = "below_log_start"
    BEYOND_LOG_END = "beyond_log_end"
    CLAMPED = "clamped"
    KEEP = "keep"
    JOIN = "join"
    SAME = "same"
    NEWER_NOW = "newer_now"
    GROUP_HAS_MEMBERS = "group_has_members"
    SHARE_GROUP = "share_group"
    PENDING_TRANSACTION = "pending_transaction"
    TOPIC_GONE = "topic_gone"
    TOPIC_RECREATED = "topic_recreated"
    PARTITION_GONE = "partition_gone"
    METADATA_TOO_LARGE = "metadata_too_large"
    REFUSED = "refused"


KEPT = frozenset({What.KEEP, What.JOIN})
WRITTEN = frozenset({What.RESTORE, What.BELOW_LOG_START, What.BEYOND_LOG_END, What.CLAMPED}) | KEPT


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """The fields of an offset that a client can commit and fetch. `leader_epoch` is None where there is none."""

    committed_offset: int
    leader_epoch: int | None
    metadata: str

    @property
    def as_committed(self) -> tuple[int, int | None, str]:
        return self.committed_offset, self.leader_epoch, self.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Then:
    """An earlier value, its timestamps, which a commit cannot restore, and the topic for which it was committed.

    None means unknown, and prevents nothing. `empty_since_ms` is for an offset to be kept alive: when its classic group
    became Empty because of its clients, not because of a join by Sexton.
    """

    value: OffsetValue
    commit_timestamp_ms: int | None = None
    expire_timestamp_ms: int | None = None
    topic_id: str | None = None
    empty_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRow:
    """An offset of a restore: the earlier value, the current value, and the action.

    `put` is the value to commit, None where `what` does not write; `error` is Kafka's name for why not. If the value is
    outside of the partition's log, the row has the log's start and end.
    """

    group_id: str
    topic: str
    partition: int
    log_partition: int
    what: What
    then: Then
    now: OffsetValue | None
    put: OffsetValue | None = None
    error: str | None = None
    now_topic_id: str | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None

    @property
    def key(self) -> OffsetKey:
        return self.group_id, self.topic, self.partition

    @property
    def to_put(self) -> OffsetValue:
        """`put` of a row that would be written."""
        assert self.put is not None
        return self.put

    def to_row(self) -> dict[str, Any]:
        """The row as it is stored, hashed and printed by --json: flat except for the three values."""
        row = asdict(self)
        then = row.pop("then")
        if then["empty_since_ms"] is None:
            del then["empty_since_ms"]  # only offsets to be kept alive have it
        return {
            **row,
            "then": then.pop("value"),
            **{f"then_{name}": value for name, value in then.items()},
            "what": self.what.value,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "RestoreRow":
        """The inverse of `to_row`; KeyError, TypeError or ValueError for anything else."""
        fields = dict(row)
        value = OffsetValue(**fields.pop("then"))
        then = {name: fields.pop(f"then_{name}") for name in ("commit_timestamp_ms", "expire_timestamp_ms", "topic_id")}
        then["empty_since_ms"] = fields.pop("then_empty_since_ms", None)
        now, put = (None if (found := fields.pop(name)) is None else OffsetValue(**found) for name in ("now", "put"))
        what = What(fields.pop("what"))
        return cls(**fields, what=what, then=Then(value=value, **then), now=now, put=put)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The rows of a restore, in the order of `in_order`.

    `source` is the name of a sources.Source, `basis` its basis. The same deletion may be restored more than once:
    `occurrence` is the number of finished restores of the same rows, so that the next restore has another id. With
    `keeps` the plan keeps existing offsets alive, and puts back only swept offsets.
    """

    cluster_id: str
    source: str
    overwrites: bool = False
    clamps: bool = False
    keeps: bool = False
    occurrence: int = 0
    warnings: tuple[str, ...] = ()
    basis: Basis = BY_LOG
    rows: tuple[RestoreRow, ...] = field(default=(), repr=False)

    @property
    def restore_id(self) -> str:
        """SHA-256 of `to_bytes`: no clock, version or run is part of it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def items(self) -> list[RestoreRow]:
        """The items that would be committed, in order."""
        return [row for row in self.rows if row.put is not None]

    @property
    def left_alone(self) -> list[RestoreRow]:
        """Offsets that will expire and cannot be kept alive, without those that were committed again since."""
        return [row for row in self.rows if self.keeps and row.put is None and row.what is not What.NEWER_NOW]

    def counts(self) -> dict[str, int]:
        """The number of offsets of each `what`, in the order of What, without those that do not occur."""
        found = Counter(row.what for row in self.rows)
        return {what.value: found[what] for what in What if found[what]}

    def to_bytes(self) -> bytes:
        head = {
            "format": FORMAT,
            "kind": "restore",
            **{name: getattr(self, name) for name in _HEAD},
            **({"keeps": True} if self.keeps else {}),
            **self.basis.about,
        }
        return b"".join(map(_line, [head, *(row.to_row() for row in self.rows)]))

    @classmethod
    def from_bytes(cls, data: bytes) -> "RestorePlan":
        """The inverse of `to_bytes`; KeyError, TypeError or ValueError for anything else."""
        head, *rows = map(json.loads, data.splitlines())
        if (head["format"], head["kind"]) != (FORMAT, "restore"):
            raise ValueError(f"format {head['format']} of kind {head['kind']!r}")
        fields = {name: head[name] for name in _HEAD}
        fields["warnings"] = tuple(fields["warnings"])
        fields["basis"] = basis_of(head)
        fields["keeps"] = head.get("keeps", False)
        found = cls(**fields, rows=tuple(map(RestoreRow.from_row, rows)))
        if list(found.rows) != in_order(found.rows) or found.to_bytes() != data:
            raise ValueError("not in canonical form")
        return found


def restore_folder(root: str, cluster_id: str, restore_id: str) -> str:
    """The folder of a restore in the archive; UsageError when an id cannot name a folder."""
    return sha256_folder(root, cluster_id, RESTORES_FOLDER, restore_id, what="restore_id")


def keep_restore(fs: pafs.FileSystem, root: str, plan: RestorePlan) -> str:
    """Store a restore in the archive at `root` and return its restore_id. An intact file stays unchanged."""
    restore_id, data = plan.restore_id, plan.to_bytes()
    path = f"{restore_folder(root, plan.cluster_id, restore_id)}/{FILE}"
    if not is_file(fs, path) or read_file(fs, path) != data:
        write_whole(fs, path, data)
    return restore_id


def read_restore(fs: pafs.FileSystem, root: str, cluster_id: str | None, restore_id: str) -> RestorePlan:
    """A stored restore, checked against its id; `cluster_id` as in `archive.cluster_metadata.the_cluster`.

    UsageError when there is none with that id, Refused when its bytes do not match the id.
    """
    cluster = require_cluster(fs, root, cluster_id)
    path = f"{restore_folder(root, cluster, restore_id)}/{FILE}"
    if not is_file(fs, path):
        raise UsageError(f"no restore {restore_id}", where=path, fix="`sexton restore` without --id makes one")
    data = read_file(fs, path)
    if (found := hashlib.sha256(data).hexdigest()) != restore_id:
        raise Refused(f"its SHA-256 is {found}: it is not what was shown", where=path)
    try:
        plan = RestorePlan.from_bytes(data)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Refused(f"not a restore: {error}", where=path) from None
    if plan.cluster_id != cluster:
        raise Refused(f"this is a restore of cluster {plan.cluster_id}", where=path)
    return plan


def in_order(rows: Iterable[RestoreRow]) -> list[RestoreRow]:
    """By log partition, then group and topic by their UTF-8 bytes, then partition: the order of a plan."""
    return sorted(rows, key=lambda row: (row.log_partition, row.group_id.encode(), row.topic.encode(), row.partition))


def positions(items: Sequence[RestoreRow]) -> Iterator[tuple[int, RestoreRow]]:
    """Each item with its position in its log partition, as in a plan."""
    taken: dict[int, int] = {}
    for row in items:
        position = taken.get(row.log_partition, 0)
        taken[row.log_partition] = position + 1
        yield position, row


def _line(fields: Mapping[str, Any]) -> bytes:
    return (json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n").encode()
