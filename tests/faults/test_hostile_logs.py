"""Logs that cost more than they are long (hostile_logs.py): linear, within memory, and one answer.

The cost of each is counted in steps, at some size and four times that.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sexton.coordinator import decoding
from sexton.coordinator.profiles import profile_of
from sexton.kernels import growth
from sexton.kernels.fold import fold_task, merge_all
from sexton.log.batch import encode_batch
from sexton.log.entry import MAX_BAD_RECORDS
from sexton.log.segment import FoldTask
from sexton.records import MAX_ITEMS
from tests.fates import load
from tests.faults.hostile_logs import (
    LOGS,
    empty_batches,
    empty_protocols,
    lying_headers,
    lying_successors,
    nested_batch,
    of,
    open_producers,
    undecodable_batches,
    undecodable_flood,
)
from tests.faults.memory import ROOT, PeakMemory, needs_proc, run_alone
from tests.kernels.compare import assert_equal, fold_bytes, fold_slices, loaded, slice_of, tables_of
from tests.log_builder import BASE_MS, classic_fields, commit, group_entry

pytestmark = pytest.mark.thorough

MAX_GROWTH = 6
"""Times the work of a log that is four times as large."""
CAP_BYTES = 64 << 20
MAX_BYTES = 100 << 20


# --- cost


@pytest.mark.parametrize("profile", sorted({log.profile for log in LOGS.values()}))
def test_four_times_the_log_is_about_four_times_the_steps(profile: str, tmp_path: Path, tell) -> None:
    logs = {name: log for name, log in LOGS.items() if log.profile == profile}
    files = []
    for name, log in logs.items():
        for times in (1, 4):
            files.append(tmp_path / f"{name}-{times}.log")
            files[-1].write_bytes(log.make(times * log.few))
    command = [sys.executable, "-m", "tests.faults.steps", profile, *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    steps = iter(json.loads(done.stdout))
    growth = {}
    for name in logs:
        small, large = next(steps), next(steps)
        assert min(small["kernels"], small["rules"]) > logs[name].few
        growth |= {(name, reader): large[reader] / small[reader] for reader in ("kernels", "rules")}
    worst = max(growth, key=lambda case: growth[case])
    tell(f"{len(logs)} logs: at most {growth[worst]:.1f} times the steps ({', '.join(worst)})")
    assert {case: times for case, times in growth.items() if times > MAX_GROWTH} == {}


@needs_proc
@pytest.mark.parametrize("reader", ["kernels", "rules"])
def test_what_a_few_kilobytes_hold_is_not_held(reader: str) -> None:
    assert {name: size for name, size in run_alone(growth_of, reader).items() if size > MAX_BYTES} == {}


def growth_of(reader: str) -> dict[str, int | None]:
    logs = {"warm up": of([commit("g")], 0), "flood": undecodable_flood(400_000), "items": empty_protocols(1_500_000)}
    found = {}
    for name, log in logs.items():
        task = FoldTask(log_partition=0, index=0, slices=(slice_of(log),), is_last=True)
        with PeakMemory() as memory:
            if reader == "kernels":
                tables_of(fold_task([log], task=task, cap_bytes=CAP_BYTES, as_of_ms=None, taken_at_ms=None))
            else:
                load([log], cap_bytes=CAP_BYTES)
        found[name] = memory.growth_bytes
    return {name: size for name, size in found.items() if name != "warm up"}


# --- one answer


@pytest.mark.parametrize(
    "log", [nested_batch(), lying_headers(900), lying_successors(400)], ids=["nested", "headers", "successors"]
)
@pytest.mark.parametrize("fold_task_bytes", [512, 4096, 20_000])
def test_one_answer_whatever_the_chunks(log: bytes, fold_task_bytes: int) -> None:
    whole = tables_of(fold_bytes(log))
    slices = fold_slices(log, range(fold_task_bytes, len(log), fold_task_bytes))
    assert len(slices) > 1
    assert tables_of(merge_all(slices)) == whole
    assert_equal(fold_bytes(log), loaded(log))


def test_a_batch_within_a_value_is_none() -> None:
    groups = {row["group_id"] for row in tables_of(fold_bytes(nested_batch()))["groups"]}
    assert len(groups) == 208
    assert {"first", "second", "carrier", "swallowed-0", "swallowed-199", "after-4"} <= groups


def test_no_row_depends_on_the_key_of_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_producers(200) + empty_batches(3) + b"".join(of([commit(f"g{n}", n)], 200 + n) for n in range(300))
    found = []
    for keys in ([1, 1], [-3, 5], [0x1234567812345679, -(1 << 63) + 1]):
        monkeypatch.setattr(growth, "_HASH_KEYS", np.array(keys, np.int64))
        fold = fold_bytes(log)
        found.append((tables_of(fold), fold.to_bytes()))
    assert found[0] == found[1] == found[2]


def test_each_process_has_a_key_of_its_own() -> None:
    modules = "from sexton.kernels.growth import new_state; from sexton.kernels.layout import FIRST_HASH_KEY as at"
    script = f"{modules}; print(*new_state().counts[at:at + 2])"
    told = {subprocess.check_output([sys.executable, "-c", script], cwd=ROOT) for _ in range(2)}
    assert len(told) == 2


# --- what could not be decoded


@pytest.mark.parametrize("profile", ["group_coordinator", "group_metadata_manager:3.9", "offset_manager:0.9"])
def test_the_rest_of_a_batch_behind_bad_records_is_one_row(profile: str) -> None:
    rules = profile_of(profile)
    log = undecodable_flood(1_000) + of([commit("g", 7)], 1_000)
    fold = fold_bytes(log, profile=rules)
    assert_equal(fold, loaded(log, profile=rules))
    rows = [row for _, row in fold.undecodable]
    if rules.newest_format == 2:
        assert len(rows) == MAX_BAD_RECORDS + 1
        assert "(900 records by its header) is not decoded" in rows[-1].detail
        assert len(tables_of(fold)["committed_offsets"]) == 1


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(decoding, "MAX_UNDECODABLE", 150)
    return 150


def test_rows_of_a_log_partition_have_an_end_and_all_are_counted(few_rows: int) -> None:
    log = undecodable_batches(5)
    plain = loaded(log)
    for fold in (fold_bytes(log), merge_all(fold_slices(log, range(100, len(log), 100)))):
        assert_equal(fold, plain)
        found = tables_of(fold)
        (profile,) = found["load_profile"]
        assert len(found["undecodable_records"]) == few_rows
        assert profile["undecodable_records"] == 5 * (MAX_BAD_RECORDS + 1)
        assert profile["load_would_fail"]


def damaged(number: int) -> bytes:
    batch = of([commit(f"g{number}")], number)
    return batch[:17] + bytes([batch[17] ^ 0xFF]) + batch[18:]


def test_the_first_failure_is_kept_behind_the_last_row(few_rows: int) -> None:
    log = b"".join(map(damaged, range(few_rows + 20)))
    log += b"".join(of([(b"\0\1", None)], few_rows + 20 + number) for number in range(3))
    plain = loaded(log)
    for fold in (fold_bytes(log), merge_all(fold_slices(log, range(700, len(log), 700)))):
        assert_equal(fold, plain)
        found = tables_of(fold)
        (profile,) = found["load_profile"]
        assert profile["load_failure"].startswith(f"log_offset {few_rows + 20}: malformed_key")
        assert [row["reason"] for row in found["undecodable_records"]] == ["bad_crc"] * few_rows + ["malformed_key"]
        assert profile["undecodable_records"] == few_rows + 23


def test_group_records_that_cannot_be_decoded_are_counted_with_the_others(few_rows: int) -> None:
    bad = [(group_entry(2, "g", None)[0], b"\0\3"), (b"\0\1", None)]
    log = b"".join(of(bad, 2 * number) for number in range(few_rows))
    fold = merge_all(fold_slices(log, range(1_000, len(log), 1_000)))
    assert_equal(fold, loaded(log))
    assert tables_of(fold)["load_profile"][0]["undecodable_records"] == 2 * few_rows


def test_what_rows_hold_of_large_values_has_an_end() -> None:
    log = b"".join(of([(b"\0\1", bytes(100_000))], number) for number in range(20))
    fold = fold_bytes(log)
    assert_equal(fold, loaded(log))
    assert [len(row.value or b"") for _, row in fold.undecodable] == [100_000] * 16 + [4096] * 4


# --- items


def test_a_value_of_too_many_items_is_told_and_fails_no_load() -> None:
    log = empty_protocols(MAX_ITEMS + 1)
    task = FoldTask(log_partition=0, index=0, slices=(slice_of(log),), is_last=True)
    fold = fold_task([log], task=task, cap_bytes=CAP_BYTES, as_of_ms=None, taken_at_ms=None)
    plain = load([log], cap_bytes=CAP_BYTES)
    assert_equal(fold, plain)
    found = tables_of(fold)
    assert [row["reason"] for row in found["undecodable_records"]] == ["too_many_items"]
    assert not found["load_profile"][0]["load_would_fail"]
    assert [row["member_count"] for row in found["groups"]] == [0]


def test_as_many_items_as_are_decoded_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(empty_protocols(10_000)).undecodable == []


@pytest.mark.parametrize("release", ["4.3.1", "4.4"])
def test_so_is_a_subscription_whatever_the_release_makes_of_malformed_ones(release: str) -> None:
    topics = MAX_ITEMS + 1
    data = bytes(2) + topics.to_bytes(4) + bytes(2 * topics) + b"\xff\xff\xff\xff"
    log = of([group_entry(2, "g", classic_fields(("m", data)))], 0)
    plain = load([log], cap_bytes=CAP_BYTES, profile=profile_of(f"group_coordinator:{release}"))
    assert [(row.reason, row.fails_load) for row in plain.undecodable] == [("too_many_items", False)]


def test_an_assignment_of_too_many_partitions_is_not_shown() -> None:
    fields = classic_fields(("m", b"\0\0\0\0\0\0\xff\xff\xff\xff"))
    count = MAX_ITEMS + 1
    fields["members"][0]["assignment"] = (
        bytes(2) + (1).to_bytes(4) + (1).to_bytes(2) + b"t" + count.to_bytes(4) + bytes(4 * count)
    )
    log = encode_batch([group_entry(2, "g", fields)], base_offset=0, timestamp_ms=BASE_MS)
    (row,) = load([log], cap_bytes=CAP_BYTES).groups.by_id["g"].to_member_rows()
    assert row["assignment"] is None
