"""What a ledger says, entry by entry, and how an entry becomes bytes.

An attempt is a claim, then for every step an intent before its call and an outcome after it, then a close. A file is
one line of canonical JSON that ends in the SHA-256 of all before it, and names that of the file before it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sexton.coordinator.offsets import OffsetKey
from sexton.errors import Refused

FORMAT = 1
Kind = Literal["claim", "intent", "outcome", "close"]
Action = Literal["tombstone", "restore"]
Outcome = Literal["done", "gone", "changed_since", "raced", "refused", "not_done", "unknown"]
"""What came of an item: `gone` was not there any more, `changed_since` is no longer what the plan saw, `raced` took a
newer commit along, `refused` has the broker's error, `unknown` is not settled yet, `not_done` is settled and may be
tried again."""
FINAL = frozenset({"done", "gone", "changed_since", "raced"})
"""Outcomes after which an item is never touched again."""
WRITTEN = frozenset({"done", "raced"})
"""Outcomes of a call that took effect."""

NO_STEP = -1
_DIGEST = "sha256"


class _Told(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Value(_Told):
    """A committed offset: enough to put it back, and where in the log it was where that is known."""

    committed_offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    commit_timestamp_ms: int | None = None
    log_offset: int | None = None


class Item(_Told):
    """What a step is about: a row of the plan, or, beyond the plan's positions, an offset that a race took along."""

    log_partition: int
    position: int
    record_type: int = 1
    group_id: str
    topic: str | None = None
    partition: int | None = None
    before: Value | None = Field(default=None, description="the value removed; of a restore what it replaces")
    after: Value | None = Field(default=None, description="of a restore: the value put there")

    @property
    def place(self) -> tuple[int, int]:
        """What no two items of a plan share."""
        return self.log_partition, self.position

    @property
    def key(self) -> OffsetKey | None:
        """The offset that it is about; None for a record of the group itself."""
        if self.topic is None or self.partition is None:
            return None
        return self.group_id, self.topic, self.partition


class Result(_Told):
    """What came of an item."""

    log_partition: int
    position: int
    outcome: Outcome
    error: str | None = None
    written_log_offset: int | None = Field(default=None, description="of the tombstone, or of the value put back")
    written_timestamp_ms: int | None = Field(default=None, description="by the broker's clock")
    found: Value | None = Field(default=None, description="the newer value that was in the way, or that a race took")

    @property
    def place(self) -> tuple[int, int]:
        return self.log_partition, self.position


class Owner(_Told):
    """A process: which one of which host, so that another on the same host can see that it has ended.

    `host` and `started` are those of `sexton.process_id`, which no clock moves.
    """

    host: str
    pid: int
    started: str
    token: str


class Claim(_Told):
    """The begin of an attempt: whose it is, who approved what, and by what it was checked."""

    owner: Owner
    approved_by: str
    sink: str
    plan_sha256: str
    about: dict[str, Any] = Field(default_factory=dict)


class Intent(_Told):
    """Written before the call of a step; `checks` are what was looked at, by name."""

    step: int
    action: Action
    items: list[Item]
    checks: dict[str, Any] = Field(default_factory=dict)


class StepOutcome(_Told):
    """Written after it; `of_attempt` is an earlier attempt where this one settles what that left open.

    Items that no call was made for are told as step -1 of their attempt.
    """

    step: int
    of_attempt: int
    items: list[Result]
    window_ms: float | None = Field(default=None, description="between the last look and the answer of the call")
    beyond: list[Item] = Field(
        default_factory=list,
        description="items with a result here that no intent names: those that no call was made for, and offsets that "
        "the plan does not know and a race took along",
    )


class Close(_Told):
    """The end of an attempt, with the results by outcome."""

    counts: dict[str, int]


Body = Claim | Intent | StepOutcome | Close
_BODIES: Mapping[str, type[Claim] | type[Intent] | type[StepOutcome] | type[Close]] = {
    "claim": Claim,
    "intent": Intent,
    "outcome": StepOutcome,
    "close": Close,
}


class Entry(_Told):
    """One file of a ledger. `at_ms` is by the clock of who wrote it."""

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
        told = self.model_dump(mode="json")
        return _line({**told, _DIGEST: _digest(told)})

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> "Entry":
        """The entry in a file; Refused when it is not, byte for byte, what was written."""
        try:
            told = json.loads(data)
            sealed = told.pop(_DIGEST)
            body = _BODIES[told["kind"]].model_validate(told["body"])
            entry = cls(**{**told, "body": body})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
            raise Refused(f"not an entry of a ledger: {type(error).__name__}", where=where, fix=_TAMPERED) from None
        if entry.format != FORMAT or sealed != _digest(told) or entry.to_bytes() != data:
            raise Refused("an entry of the ledger was changed after it was written", where=where, fix=_TAMPERED)
        return entry


_TAMPERED = "restore the file from a copy of the archive: nothing is applied over a ledger that cannot be trusted"


def _line(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(_line(told)).hexdigest()
