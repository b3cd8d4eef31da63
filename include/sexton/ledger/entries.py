"""The entries of a ledger, and their encoding.

An attempt is a claim, then for every step an intent before its call and an outcome after it, then a close. A file is
one line of canonical JSON. Its last field is the SHA-256 of the other fields, one of which is the SHA-256 of the
previous file.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sexton.coordinator.offsets import OffsetKey
from sexton.errors import Refused
from sexton.process_id import ProcessId, has_ended, host, process_id

FORMAT = 1
Kind = Literal["claim", "intent", "outcome", "close"]
Action = Literal["tombstone", "restore", "keep"]
Outcome = Literal["done", "gone", "changed_since", "raced", "refused", "not_done", "unknown"]
"""The outcome of an item: `gone` was removed by a sweep or another client, `changed_since` differs from the plan,
`raced` removed a newer commit as well, `refused` has the broker's error, `unknown` is not settled yet, `not_done` is
settled and may be tried again."""
FINAL = frozenset({"done", "gone", "changed_since", "raced"})
"""Outcomes after which an item is never touched again."""
WRITTEN = frozenset({"done", "raced"})
"""Outcomes of a call that took effect."""

NO_STEP = -1
EMPTY_SINCE = "empty_since_ms"
"""Name in an intent's `checks`: when its clients left a group Empty, before Sexton joins it to keep its offsets."""
_DIGEST = "sha256"

ItemId = tuple[int, int]
"""Log partition and position: unique within a plan."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Value(_Model):
    """A committed offset: everything needed to restore it, and its log position where that is known."""

    committed_offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    commit_timestamp_ms: int | None = None
    log_offset: int | None = None

    @property
    def as_committed(self) -> tuple[int, int | None, str]:
        """The fields that a client commits and fetches: two values with equal fields are the same to a client."""
        return self.committed_offset, self.leader_epoch, self.metadata


class _Placed(_Model):
    log_partition: int
    position: int

    @property
    def item_id(self) -> ItemId:
        return self.log_partition, self.position


class Result(_Placed):
    """The result of an item."""

    outcome: Outcome
    error: str | None = None
    written_log_offset: int | None = Field(default=None, description="of the tombstone, or of the value put back")
    written_timestamp_ms: int | None = Field(default=None, description="by the broker's clock")
    found: Value | None = Field(default=None, description="the newer value that was in the way, or that a race took")

    @classmethod
    def of(
        cls,
        item_id: ItemId,
        outcome: Outcome,
        error: str | None = None,
        *,
        written: tuple[int, int] | None = None,
        found: Value | None = None,
    ) -> "Result":
        """The result of an item; `written` is the log_offset and timestamp of the record that was written."""
        return cls(
            log_partition=item_id[0],
            position=item_id[1],
            outcome=outcome,
            error=error,
            written_log_offset=None if written is None else written[0],
            written_timestamp_ms=None if written is None else written[1],
            found=found,
        )


class Item(_Placed):
    """An item of a step: a row of the plan, or an offset beyond the plan's positions that a race removed as well."""

    record_type: int = 1
    group_id: str
    topic: str | None = None
    partition: int | None = None
    before: Value | None = Field(default=None, description="the value removed; of a restore what it replaces")
    after: Value | None = Field(default=None, description="of a restore: the value put there")

    @property
    def key(self) -> OffsetKey | None:
        """The offset; None for a record of the group itself."""
        if self.topic is None or self.partition is None:
            return None
        return self.group_id, self.topic, self.partition


class ClaimProcess(_Model):
    """A process on one host. `host` and `started` are from `sexton.process_id`, which no clock change affects.

    `token` distinguishes two objects of one process.
    """

    host: str
    pid: int
    started: str
    token: str

    @classmethod
    def this(cls) -> "ClaimProcess":
        me = process_id(os.getpid())
        return cls(host=host(), pid=me.pid, started=me.started, token=uuid4().hex)

    def has_ended(self) -> bool:
        """Whether the process has ended; False for a process of another host, which cannot be checked from here."""
        return self.host == host() and has_ended(ProcessId(pid=self.pid, started=self.started))


class Claim(_Model):
    """The start of an attempt: its process, what was approved by whom, and what it was checked against."""

    process: ClaimProcess
    approved_by: str
    sink: str
    plan_sha256: str
    about: dict[str, Any] = Field(default_factory=dict)


class Intent(_Model):
    """Written before the call of a step.

    `checks` has what was checked, by name; `log_offset` is where the log ended.
    """

    step: int
    action: Action
    items: list[Item]
    checks: dict[str, Any] = Field(default_factory=dict)


class StepOutcome(_Model):
    """Written after the call. `of_attempt` is the attempt of the intent, an earlier one if its open intent is settled.

    Results of items without a call have the step -1.
    """

    step: int
    of_attempt: int
    items: list[Result]
    window_ms: float | None = Field(default=None, description="from the last admin snapshot to the answer of the call")
    beyond: list[Item] = Field(
        default_factory=list,
        description="items with a result here that no intent names: no call was made for them, or the plan does not "
        "know them and a race took them along",
    )


class Close(_Model):
    """The end of an attempt, with the number of items by outcome."""

    counts: dict[str, int]


Body = Claim | Intent | StepOutcome | Close
_BODIES: Mapping[str, type[Claim] | type[Intent] | type[StepOutcome] | type[Close]] = {
    "claim": Claim,
    "intent": Intent,
    "outcome": StepOutcome,
    "close": Close,
}


class Entry(_Model):
    """One file of a ledger. `at_ms` is by the writer's clock."""

    format: int = FORMAT
    cluster_id: str
    plan_id: str
    attempt: int
    seq: int
    kind: Kind
    at_ms: int
    previous_sha256: str | None
    body: Body

    @property
    def name(self) -> str:
        return f"{self.attempt:04d}-{self.seq:06d}-{self.kind}.json"

    def to_bytes(self) -> bytes:
        fields = self.model_dump(mode="json")
        return _line({**fields, _DIGEST: _digest(fields)})

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> "Entry":
        """The entry in a file; Refused unless its bytes are exactly as they were written."""
        try:
            fields = json.loads(data)
            digest = fields.pop(_DIGEST)
            body = _BODIES[fields["kind"]].model_validate(fields["body"])
            entry = cls(**{**fields, "body": body})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
            raise Refused(f"not an entry of a ledger: {type(error).__name__}", where=where, fix=_TAMPERED) from None
        if entry.format != FORMAT or digest != _digest(fields) or entry.to_bytes() != data:
            raise Refused("an entry of the ledger was changed after it was written", where=where, fix=_TAMPERED)
        return entry


_TAMPERED = "restore the file from a copy of the archive: nothing is applied with a ledger that was changed"


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(_line(fields)).hexdigest()
