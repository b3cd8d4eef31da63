"""A restore as it is kept: one file that is its own proof, so that what was shown and approved is what is done.

    <archive>/<cluster_id>/restores/<restore_id>/restore.jsonl

The first line says where, after which source and how; each other line is an offset. `restore_id` is the SHA-256 of the
file's bytes, so that it names every byte, and the same diff has the same id whenever and wherever it was made. The file
is written once and never again.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import the_cluster
from sexton.archive.files import safe_name, write_whole
from sexton.archive.lineages import RESTORES_FOLDER
from sexton.errors import Refused, UsageError
from sexton.execution.restore.rows import RestoreRow, What, in_order

FILE = "restore.jsonl"
FORMAT = 1
_RESTORE_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore would do, row by row, in the order of `in_order`.

    `source` is that of sources.Source. A deletion and its restore may come back exactly as they were: `occurrence`
    counts the restores of the same rows that are done, so that the next one is another.
    """

    cluster_id: str
    source: str
    overwrites: bool = False
    clamps: bool = False
    occurrence: int = 0
    warnings: tuple[str, ...] = ()
    rows: tuple[RestoreRow, ...] = field(default=(), repr=False)

    @property
    def restore_id(self) -> str:
        """SHA-256 of `to_bytes`: no clock, no version and no run is part of it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def items(self) -> list[RestoreRow]:
        """What would be committed, in order."""
        return [row for row in self.rows if row.put is not None]

    def counts(self) -> dict[str, int]:
        """How many offsets there are of each `what`, in the order of What; kinds without any are left out."""
        found = dict.fromkeys((what.value for what in What), 0)
        for row in self.rows:
            found[row.what] += 1
        return {what: count for what, count in found.items() if count}

    def to_bytes(self) -> bytes:
        head = {
            "format": FORMAT,
            "kind": "restore",
            "cluster_id": self.cluster_id,
            "source": self.source,
            "overwrites": self.overwrites,
            "clamps": self.clamps,
            "occurrence": self.occurrence,
            "warnings": list(self.warnings),
        }
        return b"".join(map(_line, [head, *(row.to_row() for row in self.rows)]))

    @classmethod
    def from_bytes(cls, data: bytes) -> "RestorePlan":
        """The inverse of `to_bytes`; KeyError, TypeError or ValueError for what is none."""
        head, *rows = map(json.loads, data.splitlines())
        if (head["format"], head["kind"]) != (FORMAT, "restore"):
            raise ValueError(f"format {head['format']} of kind {head['kind']!r}")
        found = cls(
            cluster_id=head["cluster_id"],
            source=head["source"],
            overwrites=head["overwrites"],
            clamps=head["clamps"],
            occurrence=head["occurrence"],
            warnings=tuple(head["warnings"]),
            rows=tuple(map(RestoreRow.from_row, rows)),
        )
        if list(found.rows) != in_order(found.rows) or found.to_bytes() != data:
            raise ValueError("not written as a restore is")
        return found


def restore_folder(root: str, cluster_id: str, restore_id: str) -> str:
    """Where the archive keeps a restore; UsageError when an id cannot name a folder."""
    if not _RESTORE_ID.fullmatch(restore_id):
        raise UsageError(f"no restore_id: {restore_id!r}", fix="it has 64 digits of 0-9 and a-f")
    return f"{_restores(root, cluster_id)}/{restore_id}"


def keep_restore(fs: pafs.FileSystem, root: str, plan: RestorePlan) -> str:
    """Keep a restore in the archive at `root`, where one that is there is left as it is; its restore_id."""
    restore_id = plan.restore_id
    path = f"{restore_folder(root, plan.cluster_id, restore_id)}/{FILE}"
    if _bytes_or_none(fs, path) != plan.to_bytes():
        write_whole(fs, path, plan.to_bytes())
    return restore_id


def read_restore(fs: pafs.FileSystem, root: str, cluster_id: str | None, restore_id: str) -> RestorePlan:
    """A kept restore, read without trust; `cluster_id` as in `archive.cluster_metadata.the_cluster`.

    UsageError when there is none by that id, Refused when its bytes are not those that the id names.
    """
    cluster = the_cluster(fs, root, cluster_id)
    if cluster is None:
        raise UsageError("the archive is empty", where=root)
    path = f"{restore_folder(root, cluster, restore_id)}/{FILE}"
    data = _bytes_or_none(fs, path)
    if data is None:
        raise UsageError(f"no restore {restore_id}", where=path, fix="`sexton restore` without --id makes one")
    if (found := hashlib.sha256(data).hexdigest()) != restore_id:
        raise Refused(f"its SHA-256 is {found}: it is not what was shown", where=path)
    try:
        plan = RestorePlan.from_bytes(data)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Refused(f"not a restore: {error}", where=path) from None
    if plan.cluster_id != cluster:
        raise Refused(f"this is a restore of cluster {plan.cluster_id}", where=path)
    return plan


def positions(items: Sequence[RestoreRow]) -> Iterator[tuple[int, RestoreRow]]:
    """Each item with its place among those of its log partition, as plans count them."""
    taken: dict[int, int] = {}
    for row in items:
        position = taken.get(row.log_partition, 0)
        taken[row.log_partition] = position + 1
        yield position, row


def _restores(root: str, cluster_id: str) -> str:
    return f"{root.rstrip('/')}/{safe_name(cluster_id, what='cluster id')}/{RESTORES_FOLDER}"


def _line(told: Mapping[str, Any]) -> bytes:
    return (json.dumps(told, sort_keys=True, separators=(",", ":")) + "\n").encode()


def _bytes_or_none(fs: pafs.FileSystem, path: str) -> bytes | None:
    if fs.get_file_info(path).type != pafs.FileType.File:
        return None
    with fs.open_input_stream(path) as file:
        data: bytes = file.read()
    return data
