"""No run is published that a check failed, or that no check has read to its end: each critical expectation stops it.

That each expectation fails where its law is broken is shown in tests/quality; here is what follows from a failure.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.errors import DataQualityFailure, UsageError
from sexton.pipeline import publish_tables, validate_tables
from sexton.quality import duckdb_checks
from sexton.quality.expectation import ExpectationResult
from sexton.quality.suites import suites_of
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from tests.pipeline.test_validate_publish import fill
from tests.quality import world

ALL = [each for suite in suites_of(replace(world.RUN, has_changes=True)).values() for each in suite]
CRITICAL = [each for each in ALL if each.severity == "critical"]


class Ended(BaseException):
    """As a time-out of the task, or the end of the process: nothing catches it."""


def of_run(expectation: Any, *, success: bool) -> ExpectationResult:
    return ExpectationResult(
        table=expectation.table, expectation=expectation.sentence, severity=expectation.severity, success=success,
        observed="told", failing_rows=[],
    )  # fmt: skip


@pytest.fixture
def no_spark() -> Engine:
    """An engine whose session nobody may ask for: what is refused is refused before."""
    return Engine(iceberg=True, quiet=True)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return fill(tmp_path)


def check(folder: RunFolder, judge: Callable[..., list[ExpectationResult]]) -> None:
    """The checks of a run folder with another judge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb_checks, "check", judge)
        validate_tables.check_folder(folder)


def test_each_critical_expectation_alone_stops_a_run(no_spark: Engine, folder: RunFolder) -> None:
    for failing in CRITICAL:
        results = [of_run(e, success=e is not failing) for e in ALL]
        check(folder, lambda *_, **__: results)  # noqa: B023
        with pytest.raises(DataQualityFailure, match="1 critical expectations failed, nothing is published"):
            publish_tables.run(no_spark, folder)
        with pytest.raises(DataQualityFailure, match="nothing is published"):
            validate_tables._stop_on_failure(results, folder, validate_tables.key_of(folder.read_run()))
    assert len(CRITICAL) > 100


@pytest.mark.parametrize("ends", [RuntimeError, Ended], ids=["crash", "time-out"])
def test_a_check_that_does_not_end_is_no_pass(no_spark: Engine, folder: RunFolder, ends: type[BaseException]) -> None:
    def dying(*_: Any, **__: Any) -> list[ExpectationResult]:
        raise ends("no answer")

    with pytest.raises(ends):
        check(folder, dying)
    with pytest.raises(UsageError, match="not checked"):
        publish_tables.run(no_spark, folder)


@pytest.mark.parametrize("ends", [RuntimeError, Ended], ids=["crash", "time-out"])
def test_a_pass_of_an_earlier_attempt_does_not_count(no_spark, folder, ends):
    """The next attempt of a run has a run_id of its own, and finds the results of the attempt before in the folder."""

    def dying(*_: Any, **__: Any) -> list[ExpectationResult]:
        raise ends("no answer")

    validate_tables.check_folder(folder)
    folder.write_run(folder.read_run().model_copy(update={"run_id": "r1.2"}))
    with pytest.raises(ends):
        check(folder, dying)
    with pytest.raises(UsageError, match="another run"):
        publish_tables.run(no_spark, folder)


def test_nothing_checked_is_no_pass(no_spark: Engine, folder: RunFolder) -> None:
    check(folder, lambda *_, **__: [])
    with pytest.raises(UsageError):
        publish_tables.run(no_spark, folder)
