"""A checkpoint that somebody changed, with right hashes again, ends no process and changes no result in silence.

Each change of each column of each file is read by a process of its own, because a wrong index would end it.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexton.settings import environment

pytestmark = pytest.mark.thorough

VALUES = {
    "keys": {
        *("topic", "partition", "metadata", "committed_offset", "leader_epoch", "commit_timestamp_ms"),
        *("expire_timestamp_ms", "topic_id_high", "topic_id_low", "producer_id", "log_offset"),
        *("last_tombstone_log_offset", "values_since_tombstone", "reversed"),
    },
    "pending": {
        *("metadata", "committed_offset", "leader_epoch", "commit_timestamp_ms", "expire_timestamp_ms"),
        *("topic_id_high", "topic_id_low", "producer_epoch", "log_offset", "timestamp_ms", "value_count", "key"),
        *("shorter", "empty", "producer_id"),
    },
    "producers": {"producer_epoch", "first_log_offset", "last_log_offset", "first_timestamp_ms", "cancelled_count"},
    "groups": {"last_value_log_offset", "commits"},
    "group_records": {
        "log_offset", "base_offset", "last_value_log_offset", "value", "longer", "shorter", "reversed", "empty",
    },
    "undecodable": {
        *("place", "base_offset", "log_offset", "record_type", "reason", "detail", "key", "value"),
        *("shorter", "longer", "empty", "reversed"),
    },
    "counters": {"number"},
}  # fmt: skip
"""What nothing but the log itself can contradict: other values of the right kind, and rows more or less. A run takes
them as they are, and the full replay that `maintenance` does every week finds them."""


def told_by(folder: Path, *options: str) -> list[dict[str, Any]]:
    """What became of each change; fails where the process was ended, with the change that it was ended by."""
    command = [sys.executable, "-m", "tests.faults.spoiled_folds", str(folder), *options]
    done = subprocess.run(command, env=environment(), check=False, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"exit code {done.returncode} at {lines[-1:]}: {done.stderr[-2000:]}"
    return [line for line in lines if "became" in line]


def test_a_spoiled_checkpoint_is_passed_over(tmp_path: Path, full: bool, tell: Callable[[str], None]) -> None:
    options = ["--flips", "2000", "--runs"] if full else ["--flips", "40"]
    told = told_by(tmp_path, *options)
    for each in told:
        file, _, change = each["what"].partition(": ")
        stem = Path(file).stem
        if each["became"] == "differs":
            assert change.split()[0] in {*VALUES[stem], "flip"}, each
            assert each["is_proved"], each
        elif each["became"] == "passed over":
            assert f"passed over: {Path(file).parent}/" in each["warnings"][0], each
            assert each["findings"], each
    counts = Counter(each["became"] for each in told)
    assert counts["refused"] + counts["passed over"] > len(told) / 2
    tell(f"{len(told)} changed checkpoints: {dict(counts)}, no process ended")
