"""The forecast is what the coordinator's own sweep would take on that day, had nothing else happened."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.analysis.forecast import forecast_of
from sexton.as_text import DAY_MS
from sexton.coordinator import expiry
from sexton.coordinator.loading import Loaded
from sexton.coordinator.profiles import profile_of
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.tables.expiry_forecast import HORIZON_DAYS
from tests.campaign.histories import histories
from tests.fates import load
from tests.kernels.compare import PROFILES
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log
from tests.pipeline.policy_verdicts import judged
from tests.plain_sweep import Tombstone, sweep
from tests.plans.plan_runs import archive_of_commits, planned
from tests.verdicts.test_expiry import CAP_BYTES

GOLDEN = Path(__file__).parents[1] / "golden"
SCALA, OLD, EMPTY = "group_metadata_manager:2.8.2", "offset_manager:0.9.0.1", "group_metadata_manager:1.1.1"
RETENTIONS = st.sampled_from([1, 60_000, DAY_MS - 60_000, 7 * DAY_MS, 29 * DAY_MS, 40 * DAY_MS])


def forecast(loaded: Loaded, *, retention_ms: int, as_of_ms: int) -> list[dict[str, object]]:
    tables = judged(loaded, None, retention_ms=retention_ms, now_ms=as_of_ms)
    rows = forecast_of(tables["verdicts"], tables["held"], tables["groups"], as_of_ms=as_of_ms, profile=loaded.profile)
    return rows.to_pylist()


def lost_in(swept: list[Tombstone]) -> Counter[str]:
    return Counter(item.group_id for item in swept if item.topic is not None)


def goes(loaded: Loaded, group_id: str) -> bool:
    group = loaded.groups.by_id[group_id]
    return group.state == "Empty" and group_id not in loaded.state.open_groups()


@pytest.mark.parametrize("name, profile", [("2.8.2-plain", SCALA), ("1.1.1", EMPTY), ("0.9.0.1", OLD)])
def test_whole_groups_are_those_that_the_broker_lost(name: str, profile: str) -> None:
    """Before 4.0 a group without a generation leaves without a tombstone."""
    lost, total = 0, -len((GOLDEN / f"kafka-{name}" / "swept.jsonl").read_text().splitlines())
    for file in sorted((GOLDEN / f"kafka-{name}" / "before").glob("*/*.log")):
        loaded = load([file.read_bytes()], cap_bytes=CAP_BYTES, profile=profile_of(profile))
        total += len(loaded.groups.by_id)
        rows = forecast(loaded, retention_ms=60_000, as_of_ms=BASE_MS + 3_650 * DAY_MS)
        lost += sum(bool(row["is_whole_group"]) for row in rows if row["horizon_days"] == 1)
    assert lost == total > 20


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@settings(max_examples=20)
@given(histories(max_size=10), RETENTIONS, st.integers(BASE_MS - 5_000, BASE_MS + 200_000))
def test_equals_a_sweep_on_that_day(profile, history, retention_ms, as_of_ms):
    loaded = load([encode_log(history)], cap_bytes=CAP_BYTES, profile=profile)
    told = {
        (row["group_id"], row["horizon_days"]): row
        for row in forecast(loaded, retention_ms=retention_ms, as_of_ms=as_of_ms)
    }
    # What is due before a group makes all later sweeps fail goes in the sweeps until then.
    block = expiry.sweep_block(loaded, retention_ms=retention_ms, now_ms=as_of_ms)
    is_ahead = block is not None and block.from_ms is not None and block.from_ms > as_of_ms
    last_ms = block.from_ms - 1 if is_ahead else as_of_ms + HORIZON_DAYS[-1] * DAY_MS
    expected = {}
    for days in HORIZON_DAYS:
        swept = sweep(loaded, retention_ms=retention_ms, now_ms=min(as_of_ms + days * DAY_MS, last_ms))
        lost = lost_in(swept)
        whole = {item.group_id for item in swept if item.topic is None}
        if not profile.is_java:  # groups also go without a tombstone
            held = Counter(group_id for group_id, _, _ in loaded.offsets)
            whole |= {name for name in lost_in(swept) if lost_in(swept)[name] == held[name] and goes(loaded, name)}
        expected |= {(group_id, days): (count, group_id in whole) for group_id, count in lost.items()}
    assert {key: (row["offset_count"], row["is_whole_group"]) for key, row in told.items()} == expected
    for (_, days), row in told.items():
        assert row["by"] == "broker"
        assert row["first_expires_at_ms"] <= row["last_expires_at_ms"] <= as_of_ms + days * DAY_MS


def test_instants_and_horizons() -> None:
    """One offset is due already, one tomorrow, one in ten days: the group goes with the last of them."""
    stamps = [BASE_MS - DAY_MS, BASE_MS, BASE_MS + 9 * DAY_MS]
    entries = tuple(commit("g", 1, partition=number, commit_timestamp_ms=at) for number, at in enumerate(stamps))
    loaded = load([encode_log([BatchSpec(entries=entries)])], cap_bytes=CAP_BYTES)
    rows = forecast(loaded, retention_ms=DAY_MS, as_of_ms=BASE_MS)
    assert [
        (r["horizon_days"], r["offset_count"], r["is_whole_group"], r["first_expires_at_ms"], r["last_expires_at_ms"])
        for r in rows
    ] == [
        (1, 2, False, BASE_MS, BASE_MS + DAY_MS),
        (7, 2, False, BASE_MS, BASE_MS + DAY_MS),
        (30, 3, True, BASE_MS, BASE_MS + 10 * DAY_MS),
    ]


def test_the_stage_writes_it(small: Engine, tmp_path: Path) -> None:
    record = planned(small, tmp_path / "run", archive_of_commits(tmp_path / "archive"))
    folder = RunFolder(tmp_path / "run")
    rows = pa.concat_tables(folder.read_table("expiry_forecast", part) for part in record.log_partitions)
    assert record.counts["expiry_forecast"] == rows.num_rows == 9
    soon = rows.filter(pc.equal(rows["horizon_days"], 1)).to_pylist()
    assert {(r["group_id"], r["offset_count"], r["is_whole_group"], r["log_partition"]) for r in soon} == {
        ("a", 2, True, 1),
        ("c", 2, True, 0),
        ("f", 2, True, 0),
    }
