"""Checks that a plan that was read is consistent: everything derived is computed again and compared.

People approve a plan's rows, but its keys and batches are what is written, so rows, keys and batches have to agree. Not
here: hashes and names of files (read_plan), and whether the plan still fits the cluster (execution.delete).
"""

from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise, zip_longest
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profiles import profile_of
from sexton.coordinator.tombstones import plan_id, tombstones_sha256
from sexton.errors import Refused, UsageError
from sexton.kernels.encode_batches import encode_tombstone_batches
from sexton.kernels.encode_keys import encode_keys
from sexton.log import codec as codecs
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.log.entry import CODECS
from sexton.plans.plan import MANIFEST, TOMBSTONES_FOLDER, UNDO_FOLDER, Plan, PlanRecord
from sexton.runs.folder import RunRecord
from sexton.verdicts.expiry import is_of_offset

_HEADER = tuple(one.name for one in fields(Batch) if one.name not in ("position", "size_bytes", "data"))
"""The batch header fields that must agree for the same records; sizes and CRCs may differ."""
_MAX_BYTES = 1 << 31
_RECORD_BYTES = 64
"""Upper bound of a record's bytes in addition to its key, in any format."""
_TARGETS = {
    "group_id": "group_id",
    "topic": "topic",
    "partition": "partition",
    "target_committed_offset": "committed_offset",
    "target_log_partition": "log_partition",
    "target_log_offset": "log_offset",
}


def check_content(plan: Plan, files: Mapping[str, bytes]) -> None:
    """Refused unless rows, keys, plan_id, undo, batches and counts belong to one plan."""
    tombstones = f"{plan.folder}/{TOMBSTONES_FOLDER}"
    _check_order(plan, tombstones)
    try:
        keys = encode_keys(plan.tombstones)
    except ValueError as error:
        raise Refused(f"a row that has no valid key: {error}", where=tombstones) from None
    if not plan.tombstones["key"].equals(keys):
        raise Refused("a key is not that of its row", where=tombstones)
    if (found := plan_id_of(plan)) != plan.record.plan_id:
        raise Refused(f"its rows are those of plan {found}", where=tombstones)
    _check_coverage(plan)
    _check_undo(plan)
    _check_batches(plan, files)
    counted = {"tombstones": plan.tombstones.num_rows, "offsets": plan.undo.num_rows}
    if any(plan.record.counts.get(name) != count for name, count in counted.items()):
        raise Refused(f"it counts {plan.record.counts}, there are {counted}", where=f"{plan.folder}/{MANIFEST}")


def plan_id_of(plan: Plan) -> str:
    """The plan_id that follows from the rows of a plan."""
    record, rows = plan.record, plan.tombstones
    parts = np.asarray(rows["log_partition"])
    firsts = np.flatnonzero(np.diff(parts, prepend=-1))
    some = [rows.slice(first, end - first) for first, end in pairwise([*firsts.tolist(), len(parts)])]
    hashes = [tombstones_sha256([each]) for each in some]
    return plan_id_by(record, dict(zip(parts[firsts].tolist(), hashes, strict=True)))


def plan_id_by(record: RunRecord | PlanRecord, tombstones: Mapping[int, str]) -> str:
    """The plan_id of a run or plan; `tombstones` is log partition -> SHA-256 of its planned rows."""
    return plan_id(
        cluster_id=record.cluster_id,
        topic_id=record.topic_id,
        as_of_ms=record.as_of_ms,
        cuts=record.cuts,
        profile=record.profile,
        retention_ms=record.retention_ms,
        policy_sha256=record.policy_sha256,
        tombstones=tombstones,
    )


def offset_rows(tombstones: pa.Table) -> pa.Table:
    """The tombstones that remove a committed offset."""
    return tombstones.filter(is_of_offset(tombstones))


def _check_order(plan: Plan, where: str) -> None:
    rows = plan.tombstones
    if any(rows[name].null_count for name in ("log_partition", "position", "record_type", "key", "cause")):
        raise Refused("a plan row has no log position, key or cause", where=where)
    parts, positions = np.asarray(rows["log_partition"]), np.asarray(rows["position"])
    firsts = np.flatnonzero(np.diff(parts, prepend=-1))
    expected = np.arange(len(parts)) - np.repeat(firsts, np.diff(firsts, append=len(parts)))
    if (np.diff(parts) < 0).any() or not np.array_equal(positions, expected):
        raise Refused("its rows are not sorted by log partition and position", where=where)
    if strange := set(parts.tolist()) - plan.record.cuts.keys():
        raise Refused(f"log partitions without a cut: {sorted(strange)}", where=where)


def _check_coverage(plan: Plan) -> None:
    """Refused unless an admin snapshot plan references its snapshot and only removes committed offsets."""
    manifest = f"{plan.folder}/{MANIFEST}"
    if (plan.record.admin_snapshot is None) != plan.record.basis.needs_log:
        raise Refused(f"coverage {plan.record.coverage} and the admin snapshot do not agree", where=manifest)
    if not plan.record.basis.needs_log and offset_rows(plan.tombstones).num_rows != plan.tombstones.num_rows:
        raise Refused("it was made from admin snapshots, and removes more than committed offsets", where=manifest)


def _check_undo(plan: Plan) -> None:
    planned = offset_rows(plan.tombstones).select(list(_TARGETS)).rename_columns(list(_TARGETS.values()))
    if not planned.equals(plan.undo.select(list(_TARGETS.values()))):
        raise Refused("the undo file does not match the planned tombstones", where=f"{plan.folder}/{UNDO_FOLDER}")


def _check_batches(plan: Plan, files: Mapping[str, bytes]) -> None:
    try:
        profile = profile_of(plan.record.profile)
    except UsageError as error:
        raise Refused(str(error), where=f"{plan.folder}/{MANIFEST}") from None
    there = {int(PurePosixPath(name).stem) for name in files if name.startswith("batches/")}
    rows = plan.tombstones
    if there != set(rows["log_partition"].unique().to_pylist()):
        raise Refused(f"batches of log partitions {sorted(there)}, rows of others", where=f"{plan.folder}/{MANIFEST}")
    for part in sorted(there):
        own = rows.filter(pc.equal(rows["log_partition"], part))
        expected = encode_tombstone_batches(
            own["group_id"],
            own["key"],
            base_offset=plan.record.cuts[part],
            as_of_ms=plan.record.as_of_ms,
            profile=profile,
            codec=CODECS.index(plan.record.codec),
            magic=plan.record.record_format,
        )
        if not _same_batches(files[f"batches/{part}.log"], expected.data):
            raise Refused("not the batches of the plan's rows", where=f"{plan.folder}/batches/{part}.log")


def _same_batches(found: bytes, expected: bytes) -> bool:
    """Whether two logs have the same records; compressed bytes may differ between releases of a compressor."""
    if found == expected:
        return True
    pairs = zip_longest(read_batches(found), read_batches(expected))
    return all(
        isinstance(one, Batch) and isinstance(other, Batch) and other.codec != codecs.NONE and _is_same(one, other)
        for one, other in pairs
    )


def _is_same(found: Batch, expected: Batch) -> bool:
    """Whether header and records are equal. `found` may not inflate to more bytes than `expected`."""
    if not found.crc_ok or any(getattr(found, name) != getattr(expected, name) for name in _HEADER):
        return False
    wanted = list(read_records(expected, cap_bytes=_MAX_BYTES))
    cap_bytes = sum(len(one.key or b"") + _RECORD_BYTES for one in wanted if isinstance(one, Record))
    return list(read_records(found, cap_bytes=cap_bytes)) == wanted
