"""Random histories: what producers, coordinators, transaction coordinators and bad luck leave in a log.

A history is told by a seed and an index, and has its own groups and producer ids, so that many fit into one log without
touching one another. Few keys and few producers each: records meet.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from tests.campaign.records import (
    ALIKE,
    CREATING,
    FAMILIES,
    SHARE,
    Entry,
    OffsetKey,
    group_entry,
    group_value_entry,
    odd_entry,
    removal_entries,
    tombstone_entry,
    value_entry,
)
from tests.log_builder import ABORT, BASE_MS, COMMIT, GROUP_IDS, MEMBER_IDS, NO_PRODUCER, BatchSpec

PRODUCERS_EACH = 4
PACK = 250
"""Histories from one multiple of this to the next are of one kind: their log is read by the same coordinators."""
_OLD_EVERY = 20
_UNKNOWN_CONTROL = 5
_USUAL = (*FAMILIES[:1] * 3, *FAMILIES)
"""The record types that a group gets; mostly it is a classic one."""
_MAX_BLOCKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(BatchSpec):
    """A batch of records that say what they are."""

    entries: tuple[Entry, ...] = ()

    def __str__(self) -> str:
        producer = "" if self.producer_id == NO_PRODUCER else f" of {self.producer_id}"
        if self.control is not None:
            return f"markers {self.control}{producer}"
        producer += " without the bit" if producer and not self.transactional else ""
        return f"batch{producer}: {'; '.join(entry.text for entry in self.entries)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """`is_clean` says that it has only what brokers and clients write: the log cleaner may be let loose on it."""

    index: int
    blocks: tuple[Block, ...]
    is_clean: bool


def is_old(index: int) -> bool:
    """Whether the history is of a broker before 0.11, without producer ids."""
    return index // PACK % _OLD_EVERY == _OLD_EVERY - 1


def history(seed: int, index: int, *, prefix: Callable[[str], str] = lambda _: "") -> History:
    """The history of that seed and index; `prefix` is put before each name of a group."""
    rng = Random(f"{seed}/{index}")

    def name_of(name: str) -> str:
        own = f"{index}/{name}"
        return prefix(own) + own

    maker = _Maker(rng, index, name_of)
    count = min(1 + int(rng.expovariate(1 / 9)), _MAX_BLOCKS)
    return History(index=index, blocks=tuple(maker.block() for _ in range(count)), is_clean=maker.is_clean)


def histories(*, max_size: int = 12, odd: bool = True) -> st.SearchStrategy[list[Block]]:
    """Histories of up to `max_size` blocks of record format 2, with plain names of groups, for Hypothesis, which makes
    those that fail smaller; without `odd` everything is as brokers and clients write it."""

    def drawn(rng: Random, count: int) -> list[Block]:
        maker = _Maker(rng, 0, str, is_clean=None if odd else True)
        maker.old_blocks = 0
        return [maker.block() for _ in range(count)]

    return st.builds(drawn, st.randoms(use_true_random=False), st.integers(0, max_size))


class _Maker:
    """Draws the blocks of one history; the first few may be from before an upgrade to record format 2."""

    def __init__(self, rng: Random, index: int, name_of: Callable[[str], str], *, is_clean: bool | None = None) -> None:
        self.rng, self.old = rng, is_old(index)
        self.is_clean = rng.random() < 0.5 if is_clean is None else is_clean
        self.has_groups = rng.random() < 0.5
        self.created = set[str]()
        self.magic = rng.randrange(2)
        self.old_blocks = _MAX_BLOCKS if self.old else rng.choice((1, 3)) if rng.random() < 0.05 else 0
        read = [name_of(name) for name in rng.sample(GROUP_IDS, rng.choice((1, 1, 2, 3)))]
        names = [(name.encode(), name) for name in read]
        if not self.is_clean and rng.random() < 0.1:
            alike = name_of("�")
            names += [(alike[:-1].encode() + end, alike) for end in ALIKE]
        self.groups = [(*name, rng.choice(_USUAL if not self.old else FAMILIES[:1])) for name in names]
        if self.is_clean and self.groups[0][2] is SHARE:
            self.groups[0] = (*names[0], FAMILIES[0])
        self.keys: list[tuple[bytes, OffsetKey]] = [
            (raw, (name, rng.choice("ttu"), rng.choice((0, 0, 1))))
            for raw, name, family in self.groups
            if not (self.is_clean and family is SHARE)  # nobody commits offsets to a share group
            for _ in range(rng.choice((1, 1, 2, 3)))
        ]
        self.producers = range(index * PRODUCERS_EACH, index * PRODUCERS_EACH + rng.randint(1, PRODUCERS_EACH))
        self.marker_share = rng.choice((0.15, 0.3, 0.45))
        self.highest_version = 1 if self.old else rng.choice((1, 3, 3, 4))
        self.plain_share = rng.choice((0.2, 0.5, 0.8))

    def block(self) -> Block:
        rng = self.rng
        chance = rng.random()
        timestamp_ms, gap = BASE_MS + rng.randrange(20) * 1000, rng.choice((0, 0, 0, 0, 1, 40))
        if self.old_blocks:
            self.old_blocks -= 1
            codec = rng.choice((0, 0, 0, 1, 2)) if rng.random() < 0.2 else 0
            return Block(entries=self._entries(), timestamp_ms=timestamp_ms, gap=gap, magic=self.magic, codec=codec)
        if chance < self.marker_share:
            return self._control(timestamp_ms, gap)
        producer_id = NO_PRODUCER if rng.random() < self.plain_share else rng.choice(self.producers)
        is_odd = not self.is_clean and rng.random() < 0.15
        entries = () if rng.random() < 0.03 else self._entries(in_transaction=producer_id != NO_PRODUCER)
        return Block(
            entries=entries,
            producer_id=producer_id,
            transactional=producer_id != NO_PRODUCER and not (is_odd and rng.random() < 0.8),
            timestamp_ms=timestamp_ms,
            holes=tuple(rng.choice((0, 0, 2)) for _ in entries) if rng.random() < 0.1 else (),
            gap=gap,
            codec=rng.choice((1, 2, 3, 4)) if rng.random() < 0.03 else 0,
            crc_ok=not (is_odd and rng.random() < 0.1),
            is_append_time=rng.random() < 0.02,
            delete_horizon_ms=BASE_MS + rng.randrange(-20, 20) * 1000 if entries and rng.random() < 0.02 else None,
        )

    def _control(self, timestamp_ms: int, gap: int) -> Block:
        rng = self.rng
        kind = rng.choice((COMMIT, COMMIT, ABORT))
        control: tuple[int | None, ...] = (kind,)
        if not self.is_clean and rng.random() < 0.1:
            control = rng.choice(
                ((), (), (_UNKNOWN_CONTROL,), (_UNKNOWN_CONTROL, kind), (ABORT, COMMIT), (None,), (None, kind))
            )
        return Block(
            control=control, producer_id=rng.choice(self.producers), timestamp_ms=timestamp_ms, gap=gap,
        )  # fmt: skip

    def _entries(self, *, in_transaction: bool = False) -> tuple[Entry, ...]:
        found: list[Entry] = []
        while not found or self.rng.random() < 0.3:
            found += self._some(in_transaction)
        return tuple(found)

    def _some(self, in_transaction: bool) -> Iterator[Entry]:
        rng = self.rng
        chance = rng.random()
        if self.has_groups and not in_transaction and chance < 0.35:
            yield from self._of_group()
            return
        raw, offset_key = rng.choice(self.keys)
        record_type = 1 if self.is_clean or rng.random() < 0.85 else 0
        if rng.random() < 0.7 or (self.is_clean and in_transaction):
            entry = value_entry(rng, record_type, raw, offset_key, highest_version=self.highest_version)
        else:
            entry = tombstone_entry(record_type, raw, offset_key)
        yield odd_entry(rng, entry) if self._is_odd() else entry

    def _is_odd(self) -> bool:
        return not self.is_clean and self.rng.random() < 0.04

    def _of_group(self) -> Iterator[Entry]:
        rng = self.rng
        _, group_id, family = rng.choice(self.groups)
        if self.is_clean:
            yield from self._as_coordinators_do(family, group_id)
            return
        if rng.random() < 0.1:
            family = rng.choice(FAMILIES[:1] if self.old else FAMILIES)
        if rng.random() < 0.15:
            yield from removal_entries(family, group_id)
            return
        entry = group_entry(rng, rng.choice(family), group_id, old=self.old)
        yield odd_entry(rng, entry) if self._is_odd() else entry

    def _as_coordinators_do(self, family: tuple[int, ...], group_id: str) -> Iterator[Entry]:
        """A record of a group, the first of which makes it; the removal of a member; or of the group with its offsets.

        Of such records the cleaner may take what it takes, and what is loaded stays the same.
        """
        rng = self.rng
        if group_id not in self.created:
            self.created.add(group_id)
            (record_type,) = CREATING.intersection(family)
            yield group_value_entry(rng, record_type, group_id, old=self.old)
            return
        chance = rng.random()
        if chance < 0.7:
            yield group_value_entry(rng, rng.choice(family), group_id, old=self.old)
            return
        if chance < 0.85 and (removal := removal_entries(family, group_id, member_id=rng.choice(MEMBER_IDS))):
            yield from removal
            return
        self.created.remove(group_id)
        yield from (tombstone_entry(1, raw, key) for raw, key in self.keys if key[0] == group_id)
        yield from removal_entries(family, group_id)
