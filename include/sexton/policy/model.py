"""The model of a policy: holds, rules and limits (limits.py), and their validation.

Field descriptions are the fixes in diagnostics, so each says what is allowed. decision.py matches and decides.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from sexton.policy.diagnostics import shown, wrong
from sexton.policy.field_types import (
    A_DURATION,
    AN_INSTANT,
    FOREVER_MS,
    Alternatives,
    DurationMs,
    InstantMs,
    KeepMs,
    Model,
    Text,
)
from sexton.policy.limits import Limits
from sexton.policy.patterns import MAX_PATTERN_CHARS, MAX_PROGRAM, PatternError, check_pattern
from sexton.policy.testing_schema import PolicyTest
from sexton.vocabulary import GROUP_STATES, GROUP_TYPES, ORPHANS

MAX_PATTERNS = 256
"""Maximum number of regular expressions in one policy: each may use a mebibyte of cache."""
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
_EVERY_GROUP = "to match every group, write regex: '.*'"


class Match(Model):
    """Conditions on a group. Every given key must match; a list matches if one of its items does."""

    group: Alternatives | None = Field(default=None, description="a group id, or a list of them")
    prefix: Alternatives | None = Field(default=None, description="what a group id begins with, or a list of that")
    regex: Alternatives | None = Field(default=None, description="an RE2 pattern for the whole group id, or a list")
    type: Alternatives | None = Field(default=None, description=f"one or more of {', '.join(GROUP_TYPES)}")
    state: Alternatives | None = Field(default=None, description=f"one or more of {', '.join(GROUP_STATES)}")
    idle_ms: DurationMs | None = Field(default=None, alias="idle", description=A_DURATION)
    orphan: Alternatives | None = Field(default=None, description=f"one or more of {', '.join(ORPHANS)}")

    @field_validator("prefix")
    @classmethod
    def _no_empty_prefix(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value and "" in value:
            raise wrong("an empty prefix matches every group", _EVERY_GROUP)
        return value

    @field_validator("regex")
    @classmethod
    def _are_patterns(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for pattern in value or ():
            if not pattern:
                raise wrong("an empty pattern matches only the group without a name", "write group: ''")
            try:
                check_pattern(pattern)
            except PatternError as error:
                limits = f"at most {MAX_PATTERN_CHARS} characters and {MAX_PROGRAM} instructions"
                raise wrong(
                    f"{shown(pattern)} {error}", f"https://github.com/google/re2/wiki/Syntax; {limits}"
                ) from None
        return value

    @field_validator("type", "state", "orphan")
    @classmethod
    def _are_known(cls, value: tuple[str, ...] | None, info: Any) -> tuple[str, ...] | None:
        known = {"type": GROUP_TYPES, "state": GROUP_STATES, "orphan": ORPHANS}[info.field_name]
        for word in value or ():
            if word not in known:
                raise wrong(f"no {info.field_name} is called {shown(word)}", f"one or more of {', '.join(known)}")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise wrong("an empty `match`", _EVERY_GROUP)
        return self


class _Entry(Model):
    """The fields that holds and rules share."""

    name: Name = Field(description="lower-case letters, digits, dots, dashes and underscores, at most 63")
    match: Match = Field(description="a mapping of group, prefix, regex, type, state, idle, orphan")
    owner: Text = Field(description="the team or person who answers for it")
    reason: Text = Field(description="why, in a sentence that an auditor understands")
    ticket: Text | None = Field(default=None, description="where it was agreed, such as OPS-17")

    @field_validator("owner", "reason", "ticket")
    @classmethod
    def _is_one_line(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise wrong(f"{shown(value)} has characters that cannot be seen", "one line of plain text")
        return value


class Rule(_Entry):
    """The retention of the offsets of some groups."""

    retention_ms: DurationMs = Field(alias="retention", description=A_DURATION)


class Hold(_Entry):
    """Groups from which nothing may be deleted, until an instant or without an end."""

    kind: Literal["legal", "operational"] = Field(description="legal or operational")
    until_ms: InstantMs | None = Field(
        default=None, alias="until", description=f"{AN_INSTANT}; without it the hold has no end"
    )

    keep_ms: KeepMs | None = Field(
        default=None,
        alias="keep",
        description="true, or for how long after the last commit, such as 30d; `sexton keep` then keeps them alive",
    )
    restore: bool | None = Field(
        default=None, description="true, with `keep`: what the broker has expired all the same is put back"
    )

    @field_validator("match")
    @classmethod
    def _lasts(cls, value: Match) -> Match:
        for key, field in (("state", "state"), ("idle", "idle_ms"), ("orphan", "orphan")):
            if getattr(value, field) is not None:
                raise wrong(
                    f"a hold cannot match by {key}: it would end when that changes",
                    "hold groups by group, prefix, regex or type",
                    at=(key,),
                )
        return value

    @model_validator(mode="after")
    def _can_restore(self) -> Self:
        if self.restore and self.keep_ms is None:
            raise wrong("`restore` without `keep`", "write `keep: true` as well", at=("restore",))
        if self.restore and self.match.type is not None:
            raise wrong(
                "a hold that restores cannot match by type: a group that is gone has none",
                "hold groups by group, prefix or regex",
                at=("match", "type"),
            )
        return self

    def keeps_until_ms(self, commit_timestamp_ms: int) -> int | None:
        """Until when an offset is kept alive at the broker (epoch ms); None for a hold that only stops Sexton."""
        if self.keep_ms is None:
            return None
        return FOREVER_MS if self.keep_ms == FOREVER_MS else commit_timestamp_ms + self.keep_ms

    def is_on(self, now_ms: int) -> bool:
        """Return whether the hold is in force."""
        return self.until_ms is None or now_ms < self.until_ms


class Policy(Model):
    """A policy. `tests` are not part of its hash."""

    version: int = Field(description="write `version: 1`")
    limits: Limits = Field(default_factory=Limits, description="a mapping of limits")
    holds: tuple[Hold, ...] = Field(default=(), description="a list of holds")
    rules: tuple[Rule, ...] = Field(default=(), description="a list of rules, the most specific first")
    tests: tuple[PolicyTest, ...] = Field(default=(), description="a list of expectations")

    @field_validator("version")
    @classmethod
    def _is_read(cls, value: int) -> int:
        if value != 1:
            raise wrong(f"this Sexton does not read version {value}", "write `version: 1`")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        seen: set[str] = set()
        for loc, entry in self._entries():
            if entry.name in seen:
                raise wrong(f"two are called {shown(entry.name)}", "names are what reports point at", at=(*loc, "name"))
            seen.add(entry.name)
        if sum(len(entry.match.regex or ()) for _, entry in self._entries()) > MAX_PATTERNS:
            raise wrong(f"more than {MAX_PATTERNS} regular expressions", "prefixes cost nothing")
        return self

    def _entries(self) -> Iterator[tuple[tuple[str, int], Hold | Rule]]:
        yield from ((("holds", number), hold) for number, hold in enumerate(self.holds))
        yield from ((("rules", number), rule) for number, rule in enumerate(self.rules))

    @property
    def canonical(self) -> str:
        """The policy as canonical JSON, independent of comments, order of keys and spelling of durations."""
        values = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"tests"})
        return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def sha256(self) -> str:
        """SHA-256 of `canonical`, in hex."""
        return hashlib.sha256(self.canonical.encode("ascii")).hexdigest()

    @classmethod
    def from_canonical(cls, text: str) -> "Policy":
        """Return the policy of a `canonical` text. It has no tests."""
        return cls.model_validate_json(text)
