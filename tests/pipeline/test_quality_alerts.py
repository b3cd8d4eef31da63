"""What the checks of a run tell people: counts by expectation, never a group. Checks that crash are no pass."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from sexton.errors import DataQualityFailure
from sexton.job_params import REQUESTS
from sexton.pipeline import job, validate_tables
from sexton.quality.expectation import ExpectationResult
from tests.pipeline.test_validate_publish import PLAN_A_KEPT_OFFSET, fill, load_job
from tests.quality import world

TWO_WARNINGS = {"unknown_types": 3, "future_batches": 1}


def end_of(name: str, folder: Path, *arguments: str, module: ModuleType | None = None) -> dict[str, object]:
    """What a job left as its outcome; its exit code is the one told there."""
    found = module or load_job(name)
    code = job.main(name, "", REQUESTS[name], found.run, ["--run-dir", str(folder), *arguments])
    outcome: dict[str, object] = json.loads((folder / "outcome" / f"{name}.json").read_text())
    assert outcome["exit_code"] == code
    return outcome


def names_a_group(text: object) -> bool:
    return any(group in str(text) for group in (world.DYING, world.SHARING, world.LIVING))


def test_failed_warnings_are_one_alert_with_counts(tmp_path: Path) -> None:
    fill(tmp_path, broken=world.change("load_profile", 0, **TWO_WARNINGS))
    outcome = end_of("validate_tables", tmp_path, "--no-lake")
    assert outcome["exit_code"] == 0
    assert outcome["alerts"] == [
        "2 warnings, which stop nothing: load_profile: every record is of a known type: 1; "
        "load_profile: no batch has a timestamp more than an hour after the snapshot: 1"
    ]


def result(number: int, *, success: bool = False) -> ExpectationResult:
    return ExpectationResult(
        table="groups", expectation=f"e{number}", severity="critical", success=success, observed="7", failing_rows=[]
    )


def test_a_run_that_passed_is_no_alert(tmp_path: Path) -> None:
    folder = fill(tmp_path)
    validate_tables.check_folder(folder)
    assert validate_tables.alerts_of(folder) == []


def test_a_critical_failure_tells_its_counts(tmp_path: Path) -> None:
    folder = fill(tmp_path)
    results = world.judged(world.tables_of(broken(PLAN_A_KEPT_OFFSET)))
    with pytest.raises(DataQualityFailure) as error:
        validate_tables._stop_on_failure(results, folder, validate_tables.key_of(folder.read_run()))
    assert "3 critical expectations failed, nothing is published: tombstones: " in str(error.value)
    assert "targets an offset whose verdict is expire: 1; tombstones: " in str(error.value)
    assert not names_a_group(error.value)


@pytest.mark.parametrize(("count", "told"), [(1, 1), (10, 10), (11, 10), (25, 10)])
def test_many_failures_are_told_in_part(tmp_path: Path, count: int, told: int) -> None:
    folder = fill(tmp_path)
    failed = [result(number) for number in range(count)]
    with pytest.raises(DataQualityFailure, match=f"{count} critical") as error:
        validate_tables._stop_on_failure(failed, folder, validate_tables.key_of(folder.read_run()))
    assert error.value.message.count(": 7") == told
    assert error.value.message.endswith(f"and {count - told} more") == (count > told)


def broken(change: Callable[[world.Rows], object]) -> world.Rows:
    rows = world.sound()
    change(rows)
    return rows
