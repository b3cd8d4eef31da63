"""Histories as the log partitions of a broker: each in the one that all its groups hash to, its instants near now."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random
from uuid import UUID

import numpy as np

from sexton.coordinator import expiry
from sexton.coordinator.groups.consumer import ConsumerGroup
from sexton.coordinator.loading import Loaded, load
from sexton.coordinator.partitioner import java_hash, partition_of
from sexton.coordinator.profile import Profile
from tests.campaign.histories import Block, History, history
from tests.campaign.packs import Pack, pack
from tests.kernels.compare import CAP_BYTES
from tests.log_builder import BASE_MS, TOPIC_IDS, TOPICS

RETENTION_MS = 60_000
"""A minute: the least that a broker takes."""
_WINDOW_MS = 20_000
"""How far the instants of a history are from its first."""
_FAR_MS = 1 << 50
_SALT_LETTERS = 7
_SALTS_EACH = 32
"""So many names out of two of which one is enough: it has to have the right sign."""
_UNREVOKED = 1
_NEVER_DESCRIBED_MS = -1
_NEAR = re.compile(re.escape(BASE_MS.to_bytes(8)[:5]) + b".{3}", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Where histories go: the number of log partitions of the broker, and what it calls topics and now.

    `partition_count` is a power of two. `base_ms` is the first instant of every history; a second of a history becomes
    `step_ms`, so that whenever the broker sweeps some offsets are due and some are not.
    """

    partition_count: int
    topic_ids: Mapping[str, UUID]
    base_ms: int
    step_ms: int


@dataclass
class Logs:
    """Histories by log partition, those that were left out, by reason, and the indices of those that found no place.

    Those whose load fails, or whose sweep does, by Sexton's rules are alone in a log partition.
    """

    place: Place
    packs: dict[int, Pack] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    unplaced: list[int] = field(default_factory=list)

    @property
    def history_count(self) -> int:
        return sum(len(one.by_history()) for one in self.packs.values())

    def group_ids(self) -> dict[str, int]:
        """The log partition of every group that a record names."""
        return {
            entry.group_id: number
            for number, one in self.packs.items()
            for batch in one.placed
            for entry in batch.block.entries
            if entry.group_id is not None
        }


def lay_out(
    seed: int, indices: Iterable[int], place: Place, profile: Profile, *, shared: int, only_clean: bool = False
) -> Logs:
    """The histories in log partitions, in the first `shared` of them several.

    With `only_clean` those are left out that the log cleaner may not be let loose on.
    """
    logs, homes = Logs(place), {number: list[History]() for number in range(shared)}
    apart = list(range(shared, place.partition_count))
    for index in indices:
        drawn = moved(seed, index, place, index % shared)
        alone = load([pack([drawn], Random(0)).log], cap_bytes=CAP_BYTES, profile=profile)
        reason = "not what brokers and clients write" if only_clean and not drawn.is_clean else left_out_for(alone)
        if reason is not None:
            logs.left_out[reason] += 1
        elif alone.load_would_fail or _block(alone) is not None:
            if apart:
                number = apart.pop()
                logs.packs[number] = pack([moved(seed, index, place, number)], Random(0))
            else:
                logs.unplaced.append(index)
        else:
            homes[index % shared].append(drawn)
    for number, owners in homes.items():
        if owners:
            logs.packs[number] = pack(owners, Random(f"{seed}/{number}"))
    return logs


def left_out_for(loaded: Loaded) -> str | None:
    """Why the answers of a broker that has loaded it would not be those of the load; None where they are."""
    for group in loaded.groups.by_id.values():
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                if member.state == _UNREVOKED and member.rebalance_timeout_ms == _NEVER_DESCRIBED_MS:
                    return "a consumer member with partitions to give up that was never described: fenced at once"
    return None


def _block(loaded: Loaded) -> expiry.SweepBlock | None:
    return expiry.sweep_block(loaded, retention_ms=RETENTION_MS, now_ms=_FAR_MS)


def moved(seed: int, index: int, place: Place, log_partition: int) -> History:
    """The history with groups of that log partition, topics of that broker, and instants after `place.base_ms`."""
    named = history(seed, index, prefix=partial(_salt, partition_count=place.partition_count, home=log_partition))
    return replace(named, blocks=tuple(_moved_block(block, place) for block in named.blocks))


def _salt(name: str, *, partition_count: int, home: int) -> str:
    """The letters before a name of a group that make it hash to the log partition `home`.

    The hash of letters and name is that of the letters times a power of 31, plus that of the name. Modulo a power of
    two, of which 31 is no divisor, that is solved for the letters' hash; Kafka takes the absolute value of the sum.
    """
    weight, own = pow(31, len(name.encode("utf-16-be")) // 2, partition_count), java_hash(name)
    inverse, salts = pow(weight, -1, partition_count), _salts(partition_count)
    for wanted in (home, -home):
        for salt in salts[(wanted - own) * inverse % partition_count]:
            if partition_of(salt + name, partition_count) == home:
                return salt
    raise ValueError(f"no name like {name} is in log partition {home} of {partition_count}")


@cache
def _salts(partition_count: int) -> Sequence[Sequence[str]]:
    """Some letters each, by their hash modulo `partition_count`."""
    assert partition_count.bit_count() == 1, f"{partition_count} is no power of two"
    letters = np.random.default_rng(0).integers(
        ord("a"), ord("z") + 1, (_SALTS_EACH * partition_count, _SALT_LETTERS), np.int64
    )
    found: list[list[str]] = [[] for _ in range(partition_count)]
    hashes = letters @ (31 ** np.arange(_SALT_LETTERS)[::-1])
    for row, number in zip(letters.astype(np.uint8), (hashes % partition_count).tolist(), strict=True):
        found[number].append(row.tobytes().decode())
    return found


def _moved_block(block: Block, place: Place) -> Block:
    ids = [(TOPIC_IDS[number].bytes, place.topic_ids[topic].bytes) for number, topic in enumerate(TOPICS, start=1)]

    def moved_value(value: bytes) -> bytes:
        for old, new in ids:
            value = value.replace(old, new)
        return _NEAR.sub(lambda found: _moved_ms(int.from_bytes(found[0]), place).to_bytes(8), value)

    return replace(
        block,
        entries=tuple(
            entry if entry.value is None else replace(entry, value=moved_value(entry.value)) for entry in block.entries
        ),
        timestamp_ms=_moved_ms(block.timestamp_ms, place),
    )


def _moved_ms(instant_ms: int, place: Place) -> int:
    since_ms = instant_ms - BASE_MS
    return place.base_ms + since_ms * place.step_ms // 1_000 if 0 <= since_ms <= _WINDOW_MS else instant_ms
