"""Bits, batches and pages that are not what was written: each is told in a row, or provably changes nothing.

What nobody can see in a log is little, and is proved here case by case: the leader epoch, which is outside the CRC and
means nothing to a replay; a last batch whose size now runs past the end, which looks like one that was being written;
and a base offset, also outside the CRC, that still fits between its neighbours. Those the SHA-256 of the archive
tells (tests/archive/test_verify.py).
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random

import pytest

from sexton.coordinator.loading import Loaded
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.kernels.fold import PartialFold, merge_all
from sexton.log.batch import Batch, TornTail, read_batches
from tests.faults.logs import batches_in, clean_edge_cases, every_kind, recordings, window
from tests.kernels.compare import PROFILES, assert_equal, fold_bytes, fold_slices, loaded, tables_of

pytestmark = pytest.mark.thorough

FULL_COUNT = 50_000  # for each of the two seeds
CI_COUNT = 400
EVERY_BIT_OF = 80  # in CI one bit in so many of the exhaustive test
PAGE_BYTES = 4096
SILENT = ("harmless", "torn", "renumbered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A log as it was written, which `profile` reads without a complaint."""

    log: bytes
    batches: list[Batch]
    profile: Profile

    def cut_behind(self, count: int) -> dict[str, list[dict[str, object]]]:
        """The tables of its first batches."""
        last = self.batches[count - 1] if count else None
        return tables_of(fold_bytes(self.log[: last.position + last.size_bytes if last else 0], profile=self.profile))


@cache
def _written(log: bytes) -> list[Written]:
    """By the rules of every coordinator that can read it; the newest can read them all."""
    assert not loaded(log).undecodable
    batches = batches_in(log)
    readers = [NEWEST, *(profile for profile in PROFILES if not loaded(log, profile=profile).undecodable)]
    return [Written(log=log, batches=batches, profile=profile) for profile in readers]


@cache
def _logs(seed: int) -> list[bytes]:
    """Windows of every recording, the recorded edge cases, and a log with a batch of every kind."""
    random = Random(seed)
    windows = [window(log, random, size_bytes=random.choice([700, 2_000, 4_000])) for log in recordings().values()]
    wide = [window(recordings()[name], random, size_bytes=3 * PAGE_BYTES) for name in ("kafka-4.3.1-lz4/0",)]
    return [log for log in [*windows, *wide, *clean_edge_cases().values(), *[every_kind()] * 8] if log]


def judge(written: Written, damaged: bytes, *, slices: bool = False) -> str:
    """How the damage shows, after holding both readers against each other; raises when it neither shows nor is proved
    harmless."""
    plain = loaded(damaged, profile=written.profile)
    fold = fold_bytes(damaged, profile=written.profile)
    _lead_with_the_same_failure(plain, fold)
    assert_equal(fold, plain)
    if slices and written.profile is NEWEST:
        assert_equal(merge_all(fold_slices(damaged, [len(damaged) // 3, 2 * len(damaged) // 3])), plain)
    if plain.undecodable:
        return min(row.reason for row in plain.undecodable)
    found = list(read_batches(damaged))
    is_torn = bool(found) and isinstance(found[-1], TornTail)
    kept = [entry for entry in found if isinstance(entry, Batch)]
    assert len(kept) == len(found) - is_torn, "a row should tell of it"
    assert is_torn or len(kept) == len(written.batches), "batches are missing"
    lost = written.batches[len(kept) :]
    assert not any(damaged[lot.position : lot.position + lot.size_bytes] == lot.data for lot in lost), "taken along"
    for ours, theirs in zip(kept, written.batches, strict=False):
        assert covered(ours) == covered(theirs), "what the CRC covers has changed"
    assert all(low.last_offset < high.base_offset for low, high in pairwise(kept))
    before, after = written.cut_behind(len(kept)), tables_of(fold)
    is_same = before == after
    assert is_same or without_log_offsets(before) == without_log_offsets(after)
    return ("torn" if is_torn else "harmless") if is_same else "renumbered"


def _lead_with_the_same_failure(plain: Loaded, fold: PartialFold) -> None:
    """Of several failures either may be told as the first: a batch with a bad CRC can claim offsets it does not have,
    and findings that have none of their own are placed by those of the batch before them."""
    if len(plain.failures) > 1:
        told = tables_of(fold)["load_profile"][0]["load_failure"]
        plain.failures.sort(key=lambda failure: failure != told)


def covered(batch: Batch) -> bytes:
    """What the CRC of a batch covers, and its format, which decides what that is."""
    return bytes(batch.data[16:17]) + bytes(batch.data[21 if batch.magic == 2 else 16 :])


def without_log_offsets(tables: dict[str, list[dict[str, object]]]) -> dict[str, list[dict[str, object]]]:
    return {
        name: [{column: _plain(value) for column, value in row.items() if "log_offset" not in column} for row in rows]
        for name, rows in tables.items()
    }


def _plain(value: object) -> object:
    """The text of a load failure begins with its place."""
    return re.sub(r"log_offset \d+", "log_offset", value) if isinstance(value, str) else value


# --- what can happen to bytes


def one_bit(log: bytes, random: Random) -> bytes:
    return with_bits(log, [random.randrange(8 * len(log))])


def bits_nearby(log: bytes, random: Random) -> bytes:
    start, span = random.randrange(8 * len(log)), random.choice([8, 32, 256])
    return with_bits(log, {min(start + random.randrange(span), 8 * len(log) - 1) for _ in range(random.randint(2, 9))})


def bits_anywhere(log: bytes, random: Random) -> bytes:
    return with_bits(log, {random.randrange(8 * len(log)) for _ in range(random.randint(2, 12))})


def bits_of_headers(log: bytes, random: Random) -> bytes:
    batches = batches_in(log)
    places = {8 * random.choice(batches).position + random.randrange(8 * 61) for _ in range(random.randint(1, 3))}
    return with_bits(log, {min(place, 8 * len(log) - 1) for place in places})


def with_bits(log: bytes, bits: set[int] | list[int]) -> bytes:
    out = bytearray(log)
    for bit in bits:
        out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def bytes_overwritten(log: bytes, random: Random) -> bytes:
    at = random.randrange(len(log))
    size = min(random.choice([1, 2, 4, 30, 512]), len(log) - at)
    return log[:at] + random.choice([b"\0", b"\xff", random.randbytes(1)]) * size + log[at + size :]


def page_zeroed(log: bytes, random: Random) -> bytes:
    size = random.choice([512, PAGE_BYTES])
    at = random.randrange(len(log)) // size * size
    return log[:at] + bytes(min(size, len(log) - at)) + log[at + size :]


def batches_swapped(log: bytes, random: Random) -> bytes:
    parts = _parts(log)
    first, second = random.randrange(len(parts)), random.randrange(len(parts))
    parts[first], parts[second] = parts[second], parts[first]
    return b"".join(parts)


def neighbours_swapped(log: bytes, random: Random) -> bytes:
    parts = _parts(log)
    first = random.randrange(max(len(parts) - 1, 1))
    parts[first : first + 2] = reversed(parts[first : first + 2])
    return b"".join(parts)


def batch_doubled(log: bytes, random: Random) -> bytes:
    parts = _parts(log)
    first = random.randrange(len(parts))
    parts.insert(random.choice([first + 1, random.randrange(first + 1, len(parts) + 1)]), parts[first])
    return b"".join(parts)


def _parts(log: bytes) -> list[bytes]:
    return [bytes(batch.data) for batch in batches_in(log)]


Damage = Callable[[bytes, Random], bytes]
DAMAGES: list[Damage] = [one_bit] * 6 + [bits_nearby, bits_anywhere, bits_of_headers] * 3
DAMAGES += [bytes_overwritten, page_zeroed, batches_swapped, neighbours_swapped, batch_doubled]


def test_damage_is_told_or_harmless(full: bool, seed: int, tell) -> None:
    random, logs = Random(seed), _logs(seed)
    seen: Counter[str] = Counter()
    for number in range(FULL_COUNT if full else CI_COUNT):
        log, damage = random.choice(logs), random.choice(DAMAGES)
        damaged, written = damage(log, random), random.choice([_written(log)[0], *_written(log)])
        if damaged == log:
            continue
        try:
            seen[judge(written, damaged, slices=number % 4 == 0)] += 1
        except AssertionError as error:
            raise AssertionError(
                f"seed {seed}, case {number}, {damage.__name__}, {written.profile.text}: {damaged.hex()}"
            ) from error
    tell(f"{seen.total():,} damaged logs: {dict(seen.most_common())}")
    assert sum(seen[silent] for silent in SILENT) < 0.15 * seen.total()


def test_every_bit_of_every_kind_of_batch(full: bool, tell) -> None:
    log, seen = every_kind(), Counter[str]()
    for bit in range(0, 8 * len(log), 1 if full else EVERY_BIT_OF - 1):  # of every bit of a byte, in turn
        damaged = with_bits(log, [bit])
        try:
            seen[judge(_written(log)[0], damaged)] += 1
        except AssertionError as error:
            raise AssertionError(f"bit {bit}") from error
    tell(f"{seen.total():,} bits: {dict(seen.most_common())}")
