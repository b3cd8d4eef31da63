"""The standing approval of `sexton keep`: what a person has allowed once, for every run until the approval ends.

    <archive>/<cluster_id>/approvals/<approval_id>/approval.json    written once
                                                  /revoked.json     written once, to end the approval

`approval_id` is the SHA-256 of approval.json. Whoever can write files can write another approval, but with another id,
and the id in force is not in the files: the user of the command line passes it, or Airflow stores it
(airflow/keep_tasks.py). Each step of a run checks again the file, when it ends, the policy and the revocation. The
intents of a run name the approval, so the ledgers show how much of its limits is used.

Not here: who may approve (airflow/consent.py).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from itertools import islice
from typing import Any, TypeVar

from pyarrow import fs as pafs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sexton.archive.create import create_whole
from sexton.archive.files import child_folders, is_file, read_file, sha256_folder
from sexton.archive.lineages import APPROVALS_FOLDER
from sexton.as_text import DAY_MS, HOUR_MS, instant
from sexton.coordinator.offsets import OffsetKey
from sexton.errors import Refused, UsageError
from sexton.ledger.entries import Intent, ItemId
from sexton.ledger.ledger import Ledger, ledgers_folder

FILE, REVOKED = "approval.json", "revoked.json"
MAX_DAYS = 90
PACED = "the standing approval allows no more in this hour"
IS_JOIN, APPROVAL_ID = "is_join", "approval_id"
"""Names in an intent's `checks`."""
_ASK_AGAIN = "trigger the DAG approve_keep to ask for another one"

Row = TypeVar("Row")


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    def to_bytes(self) -> bytes:
        return json.dumps(self.model_dump(), sort_keys=True, ensure_ascii=True).encode() + b"\n"

    @property
    def sha256(self) -> str:
        """SHA-256 of `to_bytes`, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


class Terms(_Document):
    """What a standing approval allows: the holds of one policy, for groups whose whole id matches one of `patterns`."""

    cluster_id: str
    policy_sha256: str
    patterns: list[str] = Field(min_length=1)
    max_offsets_per_hour: int = Field(ge=0)
    max_joins_per_hour: int = Field(ge=0)
    days: int = Field(ge=1, le=MAX_DAYS)


class StandingApproval(_Document):
    """Terms, who approved them and when, and the DAG run and the SHA-256 of the request that was approved."""

    terms: Terms
    approved_by: str = Field(min_length=1)
    approved_at_ms: int
    dag_id: str
    run_id: str
    request_sha256: str

    @property
    def ends_at_ms(self) -> int:
        return self.approved_at_ms + self.terms.days * DAY_MS


def write_approval(fs: pafs.FileSystem, root: str, approval: StandingApproval) -> str:
    """Store an approval and return its approval_id. An existing file stays unchanged."""
    folder = _folder(root, approval.terms.cluster_id, approval.sha256)
    create_whole(fs, f"{folder}/{FILE}", approval.to_bytes(), mode=0o600)
    return approval.sha256


def revoke(fs: pafs.FileSystem, root: str, cluster_id: str, approval_id: str, *, at_ms: int) -> None:
    """End an approval; UsageError where there is none with that id. A second revocation changes nothing."""
    folder = _folder(root, cluster_id, approval_id)
    _require_file(fs, folder)
    create_whole(fs, f"{folder}/{REVOKED}", json.dumps({"revoked_at_ms": at_ms}).encode() + b"\n")


def approval_in_force(
    fs: pafs.FileSystem, root: str, cluster_id: str, approval_id: str, *, policy_sha256: str, now_ms: int
) -> StandingApproval:
    """The approval with that id. Refused unless the file has that SHA-256 and the approval is in force for this cluster
    and policy; UsageError where there is no such approval."""
    folder = _folder(root, cluster_id, approval_id)
    _require_file(fs, folder)
    data = read_file(fs, f"{folder}/{FILE}")
    if hashlib.sha256(data).hexdigest() != approval_id:
        raise _refused("the standing approval was changed after it was given", folder)
    try:
        found = StandingApproval.model_validate_json(data)
    except ValidationError:
        raise _refused("this is not a standing approval", folder) from None
    if found.terms.cluster_id != cluster_id:
        raise _refused(f"the standing approval is for cluster {found.terms.cluster_id}", folder)
    if found.terms.policy_sha256 != policy_sha256:
        raise _refused("the policy is not the one that was approved", folder)
    if is_file(fs, f"{folder}/{REVOKED}"):
        raise _refused("the standing approval was revoked", folder)
    if now_ms >= found.ends_at_ms:
        raise _refused(f"the standing approval has ended at {instant(found.ends_at_ms)}", folder)
    return found


@dataclass(slots=True, kw_only=True)
class Allowance:
    """What a standing approval still allows: its limits per hour, minus what steps have used in the last hour, in this
    run and in earlier runs.

    `due_ms` is when the broker expires each offset. If the limits do not suffice, the offsets that expire first are
    kept first.
    """

    fs: pafs.FileSystem
    root: str
    approval: StandingApproval
    due_ms: Mapping[OffsetKey, int]
    now_ms: InitVar[int]
    _offsets_left: int = field(init=False)
    _joins_left: int = field(init=False)

    def __post_init__(self, now_ms: int) -> None:
        terms, since_ms = self.approval.terms, now_ms - HOUR_MS
        offsets, joins = _used(self.fs, self.root, terms.cluster_id, self.approval_id, since_ms=since_ms)
        self._offsets_left = max(0, terms.max_offsets_per_hour - offsets)
        self._joins_left = max(0, terms.max_joins_per_hour - joins)

    @property
    def approval_id(self) -> str:
        return self.approval.sha256

    def check(self, *, now_ms: int) -> None:
        """Refused when the approval is no longer in force."""
        terms = self.approval.terms
        approval_in_force(
            self.fs, self.root, terms.cluster_id, self.approval_id, policy_sha256=terms.policy_sha256, now_ms=now_ms
        )

    def admit(self, rows: Mapping[ItemId, Row], *, is_join: bool) -> Mapping[ItemId, Row]:
        """Return the rows of a step that are within the limits, and count them as used. A join counts once for all its
        rows."""
        if is_join:
            admitted = rows if self._joins_left else {}
            self._joins_left -= bool(admitted)
        else:
            admitted = dict(islice(rows.items(), self._offsets_left))
            self._offsets_left -= len(admitted)
        return admitted


def _used(fs: pafs.FileSystem, root: str, cluster_id: str, approval_id: str, *, since_ms: int) -> tuple[int, int]:
    """The numbers of offsets and of joins, since `since_ms`, in the ledgers' intents that name the approval."""
    offsets = joins = 0
    for plan_id in child_folders(fs, ledgers_folder(root, cluster_id)):
        ledger = Ledger(fs, root, cluster_id, plan_id)
        for entry in () if ledger.is_over(before_ms=since_ms) else ledger.entries():
            body = entry.body
            if not isinstance(body, Intent) or entry.at_ms < since_ms or body.checks.get(APPROVAL_ID) != approval_id:
                continue
            if body.checks.get(IS_JOIN):
                joins += 1
            else:
                offsets += len(body.items)
    return offsets, joins


def _folder(root: str, cluster_id: str, approval_id: str) -> str:
    return sha256_folder(root, cluster_id, APPROVALS_FOLDER, approval_id, what="approval_id")


def _require_file(fs: pafs.FileSystem, folder: str) -> None:
    if not is_file(fs, f"{folder}/{FILE}"):
        raise UsageError("there is no such standing approval", where=folder, fix=_ASK_AGAIN)


def _refused(message: str, where: Any) -> Refused:
    return Refused(message, where=where, fix=_ASK_AGAIN)
