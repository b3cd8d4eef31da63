"""What a broker logs of a sweep, and of one whose append fails, by release."""

import pytest

from sexton.coordinator.api.sweep_log import failed_tombstones, removed_lines
from sexton.coordinator.profiles import of_broker

PLANNED = [("a", 1), ("a", 1), ("a", 2), ("b", 1)]
OFFSETS = [(group_id, record_type) for group_id, record_type in PLANNED if record_type == 1]
APPEND = (
    "ERROR Failed to append {} tombstones to __consumer_offsets-3 "
    "for expired/deleted offsets and/or metadata for group {}."
)
APPEND_0_10_1 = (
    "ERROR Failed to append {} tombstones to [__consumer_offsets,3] for expired offsets and/or metadata for group {}."
)
MARK = "ERROR Failed to mark {} offsets for deletion in [__consumer_offsets,3]."


@pytest.mark.parametrize(
    "release, planned, lines",
    [
        ("0.8.2", [("a", 0), ("b", 0)], [MARK.format("2 stale")]),
        ("0.9", OFFSETS, [MARK.format("3 expired")]),
        ("0.9", [], []),
        (
            "0.10.1.0",
            PLANNED,
            [
                MARK.format("2 expired"),
                "ERROR Failed to mark group a as deleted in [__consumer_offsets,3].",
                MARK.format("1 expired"),
            ],
        ),
        ("0.10.1", PLANNED, [APPEND_0_10_1.format(3, "a"), APPEND_0_10_1.format(1, "b")]),
        ("0.10.2", PLANNED, [APPEND.format(3, "a"), APPEND.format(1, "b")]),
        ("3.9", PLANNED, [APPEND.format(3, "a"), APPEND.format(1, "b")]),
    ],
)
def test_up_to_3_9_the_cache_has_lost_what_the_log_keeps(release, planned, lines):
    found = failed_tombstones(3, planned, of_broker(release))
    assert (list(found.lines), found.leaves_cache) == (lines, True)


@pytest.mark.parametrize(
    "release, says, timeout",
    [
        ("4.0.0", "Writing records to __consumer_offsets-3 failed due to: ...", "tp=__consumer_offsets-3, "),
        ("4.2.1", "Writing records to __consumer_offsets-3 failed due to: ...", "tp=__consumer_offsets-3, "),
        (
            "4.2.2",
            "Failed to write records to __consumer_offsets-3 due to an unexpected error: ...",
            "tp=__consumer_offsets-3, ",
        ),
        ("4.3.0", "Writing records to __consumer_offsets-3 failed due to: ...", ""),
        ("4.3", "Failed to write records to __consumer_offsets-3 due to an unexpected error: ...", ""),
        ("4.3.1", "Failed to write records to __consumer_offsets-3 due to an unexpected error: ...", ""),
    ],
)
def test_a_4_x_coordinator_keeps_it_and_tries_again(release, says, timeout):
    found = failed_tombstones(3, PLANNED, of_broker(release))
    assert not found.leaves_cache
    error, again = found.lines
    assert error == f"ERROR {says}"
    assert f"Timeout({timeout}key=expire-group-metadata)" in again
    assert again.startswith("INFO ")
    assert again.endswith("Rescheduling it.")


@pytest.mark.parametrize(
    "release, offsets, lines",
    [
        ("0.8.2", 0, ["DEBUG Removed 0 stale offsets in M milliseconds."]),
        ("0.9", 3, ["INFO Removed 3 expired offsets in M milliseconds."]),
        ("2.6.0", 0, ["INFO Removed 0 expired offsets in M milliseconds."]),
        ("2.7.0", 0, []),
        ("3.9", 3, ["INFO Removed 3 expired offsets in M milliseconds."]),
    ],
)
def test_one_line_for_all_log_partitions_of_a_broker(release, offsets, lines):
    assert removed_lines(offsets, {0: 4, 3: 0}, of_broker(release)) == lines


def test_a_line_for_each_log_partition_from_4_0_on():
    text = "INFO Generated {} tombstone records while cleaning up group metadata in M milliseconds."
    assert removed_lines(3, {3: 0, 0: 4}, of_broker("4.3.1")) == [text.format(4), text.format(0)]
