"""The load that never ends (KAFKA-7286): where it stays, in which releases, and what is answered meanwhile."""

from collections.abc import Iterable

import pytest

from sexton.coordinator.api.commit import Commit, CommitPartition, validate_commit
from sexton.coordinator.api.coordinator import Coordinator, shard_after_load
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import AskedPartition, fetch
from sexton.coordinator.api.listing import describe_group, list_groups
from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.endless_load import DEFAULT_BUFFER_BYTES, NEVER_ENDS, Endless, is_too_large
from sexton.coordinator.loading import load
from sexton.coordinator.profile import LOADED, Profile
from sexton.coordinator.profiles import profile_of
from sexton.kernels.endless_load import endless_of
from sexton.kernels.results import finish
from sexton.log.batch import Batch, read_batches
from sexton.log.codec import GZIP
from sexton.log.crc import as_u8
from sexton.log.message_set import encode_message_set
from tests.coordinator.golden import CAP_BYTES
from tests.kernels.compare import fold_bytes, slice_of
from tests.log_builder import BASE_MS, BatchSpec, Entry, commit, encode_log, offset_key, offset_value

BUFFER = 600
SMALL = BatchSpec(entries=(commit("g", 1, version=1),))
LARGE = BatchSpec(entries=tuple(commit("g", 2, "large", n, version=1) for n in range(20)))
LARGER = BatchSpec(entries=tuple(commit("h", 3, "larger", n, version=1) for n in range(40)))
BROKEN = BatchSpec(entries=((offset_key("g"), b"\0\x09"),))
LOG = encode_log([SMALL, LARGE, SMALL, LARGER])
FIRST_AT = 1


def sizes(data: bytes) -> list[int]:
    return [found.size_bytes for found in read_batches(data) if isinstance(found, Batch)]


def both(data: bytes, profile: Profile, *, buffer_bytes: int, as_of_ms: int | None = None) -> dict[str, object]:
    """What load_profile has of it by the plain rules, which the kernels' table equals."""
    plain = load([data], cap_bytes=CAP_BYTES, profile=profile, as_of_ms=as_of_ms, load_buffer_bytes=buffer_bytes)
    fold = fold_bytes(data, profile=profile, as_of_ms=as_of_ms)
    endless: Endless | None = None
    if is_too_large(fold.counters["largest_batch_bytes"], buffer_bytes=buffer_bytes, profile=fold.profile):
        endless = endless_of([(as_u8(data), slice_of(data))], buffer_bytes=buffer_bytes, cut=fold.end)
    (row,) = finish(fold, log_partition=0, partition_count=1, endless=endless)["load_profile"].to_pylist()
    told = {name: row[name] for name in ("load_would_fail", "load_failure", "load_outcome")}
    assert told == {name: getattr(plain, name) for name in told}
    return told


@pytest.mark.parametrize("release", ["group_metadata_manager:0.11", "group_metadata_manager:2.0.0"])
def test_a_batch_that_does_not_fit_keeps_the_load_from_ending(release: str) -> None:
    told = both(LOG, profile_of(release), buffer_bytes=BUFFER)
    assert told["load_outcome"] == NEVER_ENDS
    assert told["load_would_fail"]
    large, largest = sizes(LOG)[1], max(sizes(LOG))
    text = str(told["load_failure"])
    assert text.startswith(f"log_offset {FIRST_AT}: the load never ends, a batch of {large} bytes is larger than ")
    assert text.endswith(f"offsets.load.buffer.size ({BUFFER}; KAFKA-7286): raise it to at least {largest} and restart")
    assert both(LOG, profile_of(release), buffer_bytes=largest)["load_outcome"] == LOADED  # what the text says helps
    assert both(LOG, profile_of(release), buffer_bytes=largest - 1)["load_outcome"] == NEVER_ENDS


@pytest.mark.parametrize("release", ["group_metadata_manager:2.0.1", "group_metadata_manager", "group_coordinator"])
def test_from_2_0_1_on_the_buffer_grows(release: str) -> None:
    assert both(LOG, profile_of(release), buffer_bytes=BUFFER)["load_outcome"] == LOADED


def old_log(magic: int, *, codec: int = 0) -> bytes:
    """A small message, a large one (or wrapper), a small one."""
    note = [(offset_key("g"), offset_value(2, version=1, metadata="n" * 2 * BUFFER))]
    packed = [(offset_key("g", partition=n), offset_value(n, version=1, metadata=f"{n:0900}")) for n in range(9)]
    logs: Iterable[tuple[list[Entry], int, int]] = (
        ([commit("g", 1, version=1)], 0, 0),
        (note if not codec else packed, 1, codec),
        ([commit("g", 3, version=1)], 20, 0),
    )
    return b"".join(
        encode_message_set(entries, base_offset=at, magic=magic, codec=how, timestamp_ms=BASE_MS if magic else -1)
        for entries, at, how in logs
    )


@pytest.mark.parametrize("release, magic", [("offset_manager:0.9", 0), ("group_metadata_manager:0.10.2", 1)])
def test_in_old_formats_a_message_is_what_has_to_fit(release: str, magic: int) -> None:
    profile = profile_of(release)
    log = old_log(magic)
    assert str(both(log, profile, buffer_bytes=BUFFER)["load_failure"]).startswith("log_offset 1: the load never ends")
    assert both(log, profile, buffer_bytes=max(sizes(log)))["load_outcome"] == LOADED
    wrapped = old_log(magic, codec=GZIP)
    largest = max(sizes(wrapped))
    assert both(wrapped, profile, buffer_bytes=largest - 1)["load_outcome"] == NEVER_ENDS
    assert both(wrapped, profile, buffer_bytes=largest)["load_outcome"] == LOADED


def test_a_load_that_has_failed_before_has_ended() -> None:
    profile = profile_of("group_metadata_manager:2.0.0")
    before = both(encode_log([BROKEN, LARGE]), profile, buffer_bytes=BUFFER)
    assert (before["load_outcome"], "unknown_value_version" in str(before["load_failure"])) == ("empty_cache", True)
    after = both(encode_log([LARGE, BROKEN]), profile, buffer_bytes=BUFFER)
    assert after["load_outcome"] == NEVER_ENDS
    inside = BatchSpec(entries=(*LARGE.entries, *BROKEN.entries))
    assert both(encode_log([inside]), profile, buffer_bytes=BUFFER)["load_outcome"] == NEVER_ENDS


def test_what_comes_behind_the_cut_does_not_count() -> None:
    late = BatchSpec(entries=LARGE.entries, timestamp_ms=BASE_MS + 10)
    log, profile = encode_log([SMALL, late]), profile_of("group_metadata_manager:2.0.0")
    assert both(log, profile, buffer_bytes=BUFFER, as_of_ms=BASE_MS + 10)["load_outcome"] == LOADED
    assert both(log, profile, buffer_bytes=BUFFER, as_of_ms=BASE_MS + 11)["load_outcome"] == NEVER_ENDS


@pytest.mark.parametrize("release", ["offset_manager:0.8.2", "offset_manager:0.9", "group_metadata_manager:2.0.0"])
def test_every_question_is_answered_that_the_load_goes_on(release: str) -> None:
    """GroupCoordinator.validateGroupStatus, handleListGroups; only 0.8.2 appends commits without a look at the load."""
    profile = profile_of(release)
    loaded = load([LOG], cap_bytes=CAP_BYTES, profile=profile, load_buffer_bytes=BUFFER)
    shard = shard_after_load(PlainView(loaded), NEVER_ENDS, profile=profile)
    coordinator = Coordinator(profile=profile, partition_count=1, shards={0: shard})
    loading = Error.COORDINATOR_LOAD_IN_PROGRESS
    answer = fetch(coordinator, "g", partitions=[AskedPartition(topic="t", partition=0)])
    told = [answer.error] if profile.has_group_errors else [one.error for one in answer.offsets]
    assert (told, fetch(coordinator, "g").offsets) == ([loading], ())
    assert (list_groups(coordinator).error, list_groups(coordinator).groups) == (loading, ())
    assert describe_group(coordinator, "g").error == loading
    asked = Commit(group_id="g", partitions=(CommitPartition(topic="t", partition=0),), api_version=2)
    taken = release == "offset_manager:0.8.2"
    assert validate_commit(coordinator, asked) == {("t", 0): Error.NONE if taken else loading}


def test_kafka_s_default() -> None:
    assert DEFAULT_BUFFER_BYTES == 5_242_880


@pytest.mark.parametrize(
    "release, outcome, answer, held",
    [
        ("offset_manager:0.8.2", "leadership_lost", Error.NOT_COORDINATOR, 1),
        ("offset_manager:0.9", "leadership_lost", Error.NONE, 1),
        ("group_metadata_manager:3.9", "leadership_lost", Error.NONE, 1),
        ("group_coordinator:4.3.1", "not_coordinator", Error.NOT_COORDINATOR, 0),
    ],
)
def test_a_load_that_loses_the_leadership_halfway(release: str, outcome: str, answer: Error, held: int) -> None:
    """The first of two commits is read; what is held is there for the broker once it leads again."""
    profile = profile_of(release)
    of_type = {"record_type": profile.offset_key_type}
    entries = [(offset_key("g", partition=n, **of_type), offset_value(n, version=0, **of_type)) for n in range(2)]
    log = b"".join(encode_message_set([entry], base_offset=n, magic=0) for n, entry in enumerate(entries))
    loaded = load([log], cap_bytes=CAP_BYTES, profile=profile, leads_until=1)
    shard = shard_after_load(PlainView(loaded), loaded.load_outcome, profile=profile)
    coordinator = Coordinator(profile=profile, partition_count=1, shards={0: shard})
    assert (loaded.load_outcome, coordinator.error_of("g"), len(shard.view.offsets("g"))) == (outcome, answer, held)
