"""The sweep over whole tables equals the plain rules, verdict for verdict and tombstone for tombstone."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.coordinator import expiry
from sexton.coordinator.expiry import SweepBlock
from sexton.coordinator.loading import Loaded
from sexton.coordinator.profiles import of_broker
from sexton.tables import TABLES
from tests.campaign.checks import check_sweep
from tests.campaign.histories import histories
from tests.fates import load
from tests.kernels.compare import PROFILES
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log, group_entry
from tests.oracle import oracle_tables
from tests.plain_sweep import group_tombstones, sweep
from tests.record_fields import encode_value

CAP_BYTES = 1 << 20
INSTANTS = st.integers(BASE_MS - 5_000, BASE_MS + 200_000)
RETENTIONS = st.sampled_from([1, 1_000, 60_000, 100_000])


def tables_of(loaded: Loaded, *, log_partition: int, partition_count: int | None) -> dict[str, pa.Table]:
    rows = oracle_tables(loaded, log_partition, partition_count)
    tables = {
        name: pa.Table.from_pylist(rows[name], schema=TABLES[name].arrow_schema(with_run=False))
        for name in ("committed_offsets", "unreachable_offsets", "pending_offsets", "groups")
    }
    text, number = pa.string(), pa.int32()
    kinds = {"group_id": text, "ordinal": number, "record_type": number, "member_id": text, "regular_expression": text}
    own = [
        {"group_id": group_id, "ordinal": ordinal, **{name: getattr(item, name) for name in [*kinds][2:]}}
        for group_id, group in loaded.groups.by_id.items()
        if group.group_type != "Classic"
        for ordinal, item in enumerate(group_tombstones(group))
    ]
    load_profile = pa.Table.from_pylist([{"load_outcome": loaded.load_outcome}])
    group_tombstones_of = pa.Table.from_pylist(own, schema=pa.schema(kinds))
    return {**tables, "group_tombstones": group_tombstones_of, "load_profile": load_profile}


def compare(loaded: Loaded, *, retention_ms: int, now_ms: int, partition_count: int | None = None) -> None:
    tables = tables_of(loaded, log_partition=0, partition_count=partition_count)
    check_sweep(tables, loaded, retention_ms=retention_ms, now_ms=now_ms)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@settings(max_examples=25)
@given(histories(max_size=10), RETENTIONS, INSTANTS, st.sampled_from([None, 1, 4]))
def test_sweep_equals_the_plain_rules(profile, history, retention_ms, now_ms, partition_count):
    loaded = load([encode_log(history)], cap_bytes=CAP_BYTES, profile=profile)
    compare(loaded, retention_ms=retention_ms, now_ms=now_ms, partition_count=partition_count)


@pytest.mark.parametrize("release", ["2.0.1", "2.1.0", "4.3.1"])
def test_there_is_no_instant_where_a_sum_overflows(release: str) -> None:
    """Even where the difference overflows as well, so that both answer alike."""
    end = (1 << 63) - 1
    entries = [commit("g", 1, "t", commit_timestamp_ms=end - 5)]
    loaded = load([encode_log([BatchSpec(entries=entries)])], cap_bytes=CAP_BYTES, profile=of_broker(release))
    compare(loaded, retention_ms=10, now_ms=-end + 10)


EPOCH = group_entry(3, "left", {"epoch": 1, "metadata_hash": 0})
TARGET = group_entry(7, "left", {"topic_partitions": []}, member_id="gone")
DAY_MS = 86_400_000


def _blocked_from(*entries: Any, release: str = "4.3.1", now_ms: int = BASE_MS) -> SweepBlock | None:
    """What makes the sweep fail, with a retention of a second; rules and kernels agree on it at all these instants."""
    loaded = load([encode_log([BatchSpec(entries=entries)])], cap_bytes=CAP_BYTES, profile=of_broker(release))
    assert not loaded.failures
    for at_ms in (BASE_MS - 1, BASE_MS, BASE_MS + 999, BASE_MS + 1_000, BASE_MS + DAY_MS, now_ms):
        compare(loaded, retention_ms=1_000, now_ms=at_ms)
    return expiry.sweep_block(loaded, retention_ms=1_000, now_ms=now_ms)


def at(group_id: str, ms: int = 0, topic: str = "t") -> Any:
    return commit(group_id, 1, topic, commit_timestamp_ms=BASE_MS + ms)


@pytest.mark.parametrize("release", ["4.0.0", "4.1.2", "4.2.2", "4.3.1", "4.4.0"])
def test_a_target_that_is_left_blocks_the_sweep_once_its_group_keeps_no_offset(release: str) -> None:
    """GroupMetadataManager.replay throws on the target's tombstone, CoordinatorRuntime.append fails the batch."""
    assert _blocked_from(EPOCH, TARGET, at("a"), release=release) == SweepBlock(group_id="left", from_ms=None)
    last = (at("left", 5), at("left", 9, "u"), EPOCH, TARGET, at("a"))
    assert _blocked_from(*last, release=release) == SweepBlock(group_id="left", from_ms=BASE_MS + 1_009)
    assert _blocked_from(EPOCH, at("a"), release=release) is None


def test_a_streams_group_blocks_the_sweep_too() -> None:
    tasks = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    target = group_entry(21, "left", tasks, member_id="gone")
    epoch = group_entry(17, "left", {"epoch": 1, "metadata_hash": 0, "validated_topology_epoch": 0})
    assert _blocked_from(epoch, target) == SweepBlock(group_id="left", from_ms=None)


def test_what_keeps_the_group_lets_the_sweep_work() -> None:
    fields = {"member_epoch": 1, "previous_member_epoch": 0, "state": 0}
    fields |= {"assigned_partitions": [], "partitions_pending_revocation": []}
    member = group_entry(8, "left", fields, member_id="m")
    assert _blocked_from(EPOCH, TARGET, member, at("a")) is None
    held = BatchSpec(entries=(at("left"),), producer_id=1, transactional=True)
    log = encode_log([BatchSpec(entries=(EPOCH, TARGET)), held])
    loaded = load([log], cap_bytes=CAP_BYTES, profile=of_broker("4.3.1"))
    compare(loaded, retention_ms=1, now_ms=BASE_MS + DAY_MS)
    assert expiry.sweep_block(loaded, retention_ms=1, now_ms=BASE_MS + DAY_MS) is None


def test_under_a_block_what_is_due_stays_and_what_was_due_before_it_goes() -> None:
    log = encode_log([BatchSpec(entries=(at("left", 50), EPOCH, TARGET, at("a", 0), at("b", 50), at("c", 90)))])
    loaded = load([log], cap_bytes=CAP_BYTES, profile=of_broker("4.3.1"))
    group = loaded.groups.by_id["a"]

    def told(group_id: str, now_ms: int) -> tuple[str, str, int | None]:
        at = {"retention_ms": 1_000, "now_ms": now_ms}
        block = expiry.sweep_block(loaded, **at)
        found = expiry.verdict(loaded.offsets[group_id, "t", 0], "t", group, is_pending=False, **at, block=block)
        return found.decision, found.reason, found.expires_at_ms

    before, since = BASE_MS + 1_049, BASE_MS + 1_050
    assert told("a", before) == ("expire", "expired", BASE_MS + 1_000)
    assert told("c", before) == told("c", since) == ("keep", "sweep_blocked", None)
    assert told("b", before) == told("a", since) == ("keep", "sweep_blocked", None)
    assert [item.group_id for item in sweep(loaded, retention_ms=1_000, now_ms=before)] == ["a", "a"]
    assert sweep(loaded, retention_ms=1_000, now_ms=since) == []


@pytest.mark.parametrize(
    "release, is_blocked",
    [("4.0.0", True), ("4.0.2", True), ("4.1.2", False), ("4.2.2", False), ("4.3.1", False), ("4.4.0", True)],
)
def test_a_share_group_with_offsets_blocks_every_sweep_that_asks_it(release: str, is_blocked: bool) -> None:
    """Seen on a broker of 4.0.0; GroupCoordinatorShard.cleanupGroupMetadata asks before 4.1, and from 4.4 on."""
    share_group = group_entry(11, "left", {"epoch": 1, "metadata_hash": 0})
    if release.startswith("4.0"):
        share_group = (share_group[0], encode_value(11, 0, {"epoch": 1}, release=(4, 0)))
    gone = group_entry(2, "left", None)
    found = _blocked_from(at("left", DAY_MS), gone, share_group, at("a"), release=release)
    assert found == (SweepBlock(group_id="left", from_ms=None) if is_blocked else None)
