"""The sweep over whole tables equals the plain rules, verdict for verdict and tombstone for tombstone."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.coordinator import expiry
from sexton.coordinator.loading import Loaded, load
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import of_broker
from sexton.coordinator.tombstones import Tombstone, group_tombstones
from sexton.kernels.sweep import held_offsets, judge, plan
from sexton.tables import TABLES
from tests.kernels.compare import PROFILES
from tests.oracle import oracle_tables
from tests.strategies import BASE_MS, BatchSpec, commit, encode_log, group_entry, histories

CAP_BYTES = 1 << 20
INSTANTS = st.integers(BASE_MS - 5_000, BASE_MS + 200_000)
RETENTIONS = st.sampled_from([1, 1_000, 60_000, 100_000])


def tables_of(loaded: Loaded, *, log_partition: int, partition_count: int | None) -> dict[str, pa.Table]:
    rows = oracle_tables(loaded, log_partition, partition_count)
    tables = {
        name: pa.Table.from_pylist(rows[name], schema=TABLES[name].arrow_schema(with_run=False))
        for name in ("committed_offsets", "unreachable_offsets", "pending_offsets", "groups")
    }
    own = [
        {
            "group_id": group_id,
            "ordinal": ordinal,
            "record_type": item.record_type,
            "member_id": item.member_id,
            "regular_expression": item.regular_expression,
        }
        for group_id, group in loaded.groups.by_id.items()
        if group.group_type != "Classic"
        for ordinal, item in enumerate(group_tombstones(group))
    ]
    schema = pa.schema(
        [
            ("group_id", pa.string()),
            ("ordinal", pa.int32()),
            ("record_type", pa.int32()),
            ("member_id", pa.string()),
            ("regular_expression", pa.string()),
        ]
    )
    return {**tables, "group_tombstones": pa.Table.from_pylist(own, schema=schema)}


def compare(loaded: Loaded, *, retention_ms: int, now_ms: int, partition_count: int | None = None) -> None:
    tables = tables_of(loaded, log_partition=0, partition_count=partition_count)
    offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
    profile = loaded.profile
    verdicts = judge(
        offsets,
        tables["groups"],
        tables["pending_offsets"],
        retention_ms=retention_ms,
        now_ms=now_ms,
        profile=profile,
    )
    pending = loaded.state.pending_keys()
    for row in verdicts.to_pylist():
        key = (row["group_id"], row["topic"], row["partition"])
        expected = expiry.verdict(
            loaded.offsets[key],
            key[1],
            loaded.groups.by_id[key[0]],
            is_pending=key in pending,
            retention_ms=retention_ms,
            now_ms=now_ms,
            profile=profile,
        )
        assert (
            row["broker_verdict"],
            row["broker_reason"],
            row["broker_expires_at_ms"],
            row["base_timestamp_ms"],
        ) == (expected.decision, expected.reason, expected.expires_at_ms, expected.base_timestamp_ms), key
    assert {(r["group_id"], r["topic"], r["partition"]) for r in verdicts.to_pylist()} == {
        key for key in loaded.offsets if key[0] in loaded.groups.by_id
    }
    expires = pc.equal(verdicts["broker_verdict"], "expire")
    planned = plan(offsets, expires, tables["groups"], tables["group_tombstones"], profile=profile).to_pylist()
    assert [Tombstone(**row) for row in planned] == expiry.sweep(loaded, retention_ms=retention_ms, now_ms=now_ms)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@settings(max_examples=60, deadline=None)
@given(histories(max_size=10), RETENTIONS, INSTANTS, st.sampled_from([None, 1, 4]))
def test_sweep_equals_the_plain_rules(
    profile: Profile, history: list[BatchSpec], retention_ms: int, now_ms: int, partition_count: int | None
) -> None:
    loaded = load([encode_log(history)], cap_bytes=CAP_BYTES, profile=profile)
    compare(loaded, retention_ms=retention_ms, now_ms=now_ms, partition_count=partition_count)


@pytest.mark.parametrize("commit_timestamp_ms", [0, -1, -(1 << 63), (1 << 63) - 1, BASE_MS])
def test_timestamps_at_the_ends_of_64_bits(commit_timestamp_ms: int) -> None:
    entries: Any = (commit("a", commit_timestamp_ms=commit_timestamp_ms),)
    loaded = load([encode_log([BatchSpec(entries=entries)])], cap_bytes=CAP_BYTES)
    for now_ms in (0, BASE_MS, (1 << 63) - 1):
        compare(loaded, retention_ms=60_000, now_ms=now_ms)


@pytest.mark.parametrize("late_ms, verdict", [(-1, "keep"), (0, "expire"), (1, "expire")])
def test_an_offset_expires_at_the_very_millisecond(late_ms: int, verdict: str) -> None:
    for fields in ({}, {"version": 1, "expire_timestamp_ms": BASE_MS + 60_000}):
        entries = (commit("a", commit_timestamp_ms=BASE_MS, **fields),)
        loaded = load([encode_log([BatchSpec(entries=entries)])], cap_bytes=CAP_BYTES)
        now_ms = BASE_MS + 60_000 + late_ms
        compare(loaded, retention_ms=60_000, now_ms=now_ms)
        tables = tables_of(loaded, log_partition=0, partition_count=None)
        judged = judge(
            tables["committed_offsets"], tables["groups"], tables["pending_offsets"], retention_ms=60_000, now_ms=now_ms
        )
        assert judged["broker_verdict"].to_pylist() == [verdict]


@pytest.mark.parametrize("release, types", [("4.0.2", [12, 9, 11]), ("4.1.0", [])])
def test_only_4_0_deletes_share_groups(release: str, types: list[int]) -> None:
    share_group = group_entry(11, "g", {"epoch": 1, "metadata_hash": 0})
    loaded = load([encode_log([BatchSpec(entries=(share_group,))])], cap_bytes=CAP_BYTES, profile=of_broker(release))
    assert [item.record_type for item in expiry.sweep(loaded, retention_ms=1, now_ms=BASE_MS)] == types
    compare(loaded, retention_ms=1, now_ms=BASE_MS)
