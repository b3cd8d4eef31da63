"""Transactional ids: when the coordinator removes them, the effect of another expiration, and families of unique ids.

An id expires once it is Empty or Complete* and was last updated transactional.id.expiration.ms ago
(TransactionStateManager.shouldExpire). Coordinators check every hour from the time when they loaded.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sexton.as_text import DAY_MS
from sexton.transactions.states import ENDED, TransactionalId

EXPIRATION = "transactional.id.expiration.ms"
DEFAULT_EXPIRATION_MS = 7 * DAY_MS
HORIZON_DAYS = (1, 7, 30)
FLOOD = 1_000
"""Minimum number of ids in a reported family: each id costs the coordinator memory until it expires."""
_VARYING = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[0-9a-f]*\d)[0-9a-f]{8,}|\d+|([a-f]+)(?=[a-f]{8})",
    re.IGNORECASE,
)
"""The varying parts of generated ids: UUIDs, hexadecimal numbers, numbers.

Group 1 is not a varying part: it matches letters alone, up to where a UUID may begin. The match skips them in one step:
searching for a digit after each letter would take quadratic time.
"""


def recorded_expiration_ms(broker_settings: Mapping[str, str]) -> int:
    """The transactional.id.expiration.ms in these settings, else Kafka's default."""
    return int(broker_settings.get(EXPIRATION) or DEFAULT_EXPIRATION_MS)


def expires_at_ms(one: TransactionalId, *, expiration_ms: int) -> int | None:
    """When an id expires; None while its transaction is open."""
    return one.updated_at_ms + expiration_ms if one.state in ENDED else None


def family_of(transactional_id: str) -> str:
    """An id with its varying parts replaced by `*`."""
    return _VARYING.sub(lambda found: found[1] or "*", transactional_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Ids that differ only in numbers and UUIDs."""

    family: str
    ids: int


def floods(ids: Iterable[TransactionalId], *, at_least: int = FLOOD) -> list[Family]:
    """Families with at least `at_least` ids, the largest first."""
    counted = Counter(family_of(one.transactional_id) for one in ids)
    return [Family(family=name, ids=count) for name, count in counted.most_common() if count >= at_least]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdForecast:
    """Numbers of ids: all, those with an open transaction, those that are due to expire now, and, by number of days,
    those that will be due after so many days if they are not used again."""

    expiration_ms: int
    ids: int
    open: int
    due: int
    within_days: dict[int, int]


def forecast(ids: Iterable[TransactionalId], *, expiration_ms: int, now_ms: int) -> IdForecast:
    """The numbers of ids that expire with `expiration_ms` as transactional.id.expiration.ms."""
    due = [expires_at_ms(one, expiration_ms=expiration_ms) for one in ids]
    known = [at_ms for at_ms in due if at_ms is not None]
    return IdForecast(
        expiration_ms=expiration_ms,
        ids=len(due),
        open=len(due) - len(known),
        due=sum(at_ms <= now_ms for at_ms in known),
        within_days={days: sum(at_ms <= now_ms + days * DAY_MS for at_ms in known) for days in HORIZON_DAYS},
    )
