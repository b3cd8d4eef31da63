"""Every number that a type or a version can have, and values that are not whole: skipped and counted, or set aside.

A key of a type that nobody knows is what an aborted upgrade leaves, and is passed over. A value that cannot be read
would fail the load of a coordinator: it is a row, and nothing is planned for its log partition (replay_groups).
"""

from collections import Counter
from collections.abc import Iterable

import pytest

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST, profile_of
from sexton.log.batch import encode_batch
from sexton.log.message_set import encode_message_set
from tests.kernels.compare import assert_equal, fold_bytes, loaded
from tests.log_builder import BASE_MS, Entry, classic_fields, group_entry, offset_key, offset_value

pytestmark = pytest.mark.thorough

NUMBERS = range(-(1 << 15), 1 << 15)
NEAR_NUMBERS = sorted({*range(-40, 60), *range(-(1 << 15), 1 << 15, 331), (1 << 15) - 1})
OLDER = [profile_of(name) for name in ("group_coordinator:4.0.0", "group_metadata_manager:2.8", "offset_manager:0.8.2")]
RECORDS_OF_A_BATCH = 50
KEY_BEHIND_TYPE = b"\0\1g\0\1t\0\0\0\0"  # every known type can be read from it


def log_of(entries: Iterable[Entry], profile: Profile) -> bytes:
    """The entries as a broker of that release would have them in its log, and a good commit behind them."""
    record_type = profile.offset_key_type
    value = offset_value(1, version=min(profile.value_versions[record_type], 3), record_type=record_type)
    every = [*entries, (offset_key("good", record_type=record_type), value)]
    if profile.newest_format < 2:
        return encode_message_set(every, base_offset=0, magic=profile.newest_format)
    return b"".join(
        encode_batch(every[at : at + RECORDS_OF_A_BATCH], base_offset=at, timestamp_ms=BASE_MS)
        for at in range(0, len(every), RECORDS_OF_A_BATCH)
    )


def reasons(entries: Iterable[Entry], profile: Profile) -> Counter[str]:
    """Why some of them were set aside, by both readers; the good commit is always read."""
    log = log_of(entries, profile)
    fold, plain = fold_bytes(log, profile=profile), loaded(log, profile=profile)
    assert_equal(fold, plain)
    assert ("good", "t", 0) in plain.offsets
    assert plain.load_would_fail == bool(plain.undecodable)
    return Counter(row.reason for row in plain.undecodable)


def keys_of(types: Iterable[int]) -> list[Entry]:
    values = (None, b"", b"\0\0anything")
    return [(number.to_bytes(2, "big", signed=True) + KEY_BEHIND_TYPE, values[number % 3]) for number in types]


def test_keys_of_every_type() -> None:
    unknown = [number for number in NUMBERS if not NEWEST.reads(number)]
    assert len(unknown) == (1 << 16) - len(NEWEST.value_versions)
    assert reasons(keys_of(unknown), NEWEST) == Counter()
    assert fold_bytes(log_of(keys_of(unknown), NEWEST)).unknown_types == dict.fromkeys(unknown, 1)


@pytest.mark.parametrize("profile", OLDER, ids=lambda profile: profile.text)
def test_keys_of_every_type_in_older_releases(profile: Profile, full: bool) -> None:
    """Before KIP-915 an unknown type ends the load."""
    unknown = [number for number in (NUMBERS if full else NEAR_NUMBERS) if not profile.reads(number)]
    seen = reasons(keys_of(unknown), profile)
    assert seen.total() == (0 if profile.skips_unknown_types else len(unknown))


READ_TYPES = [(profile, number) for profile in (NEWEST, *OLDER) for number in sorted(profile.value_versions)]


@pytest.mark.parametrize("profile, number", READ_TYPES, ids=[f"{of.text}-{number}" for of, number in READ_TYPES])
def test_values_of_every_version(profile: Profile, number: int, full: bool) -> None:
    highest = profile.value_versions[number]
    versions = [version for version in (NUMBERS if full else NEAR_NUMBERS) if not 0 <= version <= highest]
    key = number.to_bytes(2, "big") + KEY_BEHIND_TYPE
    entries = [(key, version.to_bytes(2, "big", signed=True) + bytes(60)) for version in versions]
    assert reasons(entries, profile) == {"unknown_value_version": len(versions)}


KEY, VALUE = offset_key("g"), offset_value(5)
CLASSIC = group_entry(2, "g", classic_fields())
SET_ASIDE: dict[str, tuple[Entry, str | None]] = {
    "null key": ((None, VALUE), "null_key"),
    "empty key": ((b"", VALUE), "short_key"),
    "half a type": ((b"\0", VALUE), "short_key"),
    "type alone": ((b"\0\1", VALUE), "malformed_key"),
    "cut key": ((KEY[:-1], VALUE), "malformed_key"),
    "cut key of a tombstone": ((KEY[:-1], None), "malformed_key"),
    "negative length in a key": ((b"\0\1\xff\xff" + KEY[4:], VALUE), "malformed_key"),
    "bytes behind a key": ((KEY + b"x", VALUE), None),
    "empty value": ((KEY, b""), "malformed_value"),
    "half a version": ((KEY, b"\0"), "malformed_value"),
    "cut value": ((KEY, VALUE[:-1]), "malformed_value"),
    "bytes behind a value": ((KEY, VALUE + b"x"), None),
    "null metadata": ((KEY, VALUE[:14] + b"\xff\xff" + VALUE[16:]), "malformed_value"),
    "negative length": ((KEY, VALUE[:14] + b"\x80\0" + VALUE[16:]), "malformed_value"),
    "metadata beyond the end": ((KEY, VALUE[:14] + b"\x7f\xff" + VALUE[16:]), "malformed_value"),
    "null member list": ((CLASSIC[0], CLASSIC[1][:-4] + b"\xff" * 4), "malformed_value"),
    "negative member count": ((CLASSIC[0], CLASSIC[1][:-4] + b"\x80\0\0\0"), "malformed_value"),
    "members beyond the end": ((CLASSIC[0], CLASSIC[1][:-4] + b"\x7f\xff\xff\xff"), "malformed_value"),
    "null topic list": ((b"\0\7\0\1g\0\1m", b"\0\0\0\0"), "malformed_value"),
    "bad subscription": (group_entry(2, "g", classic_fields(("m", b"\0\0\0\0\0\1"))), "malformed_subscription"),
}


@pytest.mark.parametrize("case", SET_ASIDE)
def test_what_is_not_whole(case: str) -> None:
    entry, reason = SET_ASIDE[case]
    assert reasons([entry], NEWEST) == ({} if reason is None else {reason: 1})
    for profile in OLDER:
        reasons([entry], profile)
