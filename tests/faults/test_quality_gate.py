"""No run is published that a check failed, or that no check has read to its end: each critical expectation stops it.

That each expectation fails where its law is broken is shown in tests/quality; here is what follows from a failure.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexton.errors import DataQualityFailure, UsageError
from sexton.pipeline import publish_tables, validate_tables
from sexton.quality import Measures, Result
from sexton.quality.validation import EXPECTATIONS, INTERVAL_EXPECTATIONS, validate
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from tests.pipeline.test_validate_publish import fill

ALL = [e for suites in (EXPECTATIONS, INTERVAL_EXPECTATIONS) for some in suites.values() for e in some]
OF_INTERVALS = [e for some in INTERVAL_EXPECTATIONS.values() for e in some if e.severity == "critical"]
CRITICAL = [e for e in ALL if e.severity == "critical"]


class Ended(BaseException):
    """As a time-out of the task, or the end of the process: nothing catches it."""


def of_run(expectation: Any, *, success: bool) -> Result:
    return Result(
        table=expectation.table,
        expectation=expectation.sentence,
        severity=expectation.severity,
        success=success,
        observed="told",
    )


@pytest.fixture
def no_spark() -> Engine:
    """An engine whose session nobody may ask for: what is refused is refused before."""
    return Engine("tests", iceberg=True, quiet=True)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return fill(tmp_path)


def check(engine: Engine, folder: RunFolder, judge: Callable[..., list[Result]]) -> None:
    """The checks of a run as the pipeline makes them, but for the lake."""
    validate_tables.run(engine, folder, lake=False, validate=judge)


def test_each_critical_expectation_alone_stops_a_run(no_spark: Engine, folder: RunFolder) -> None:
    for failing in CRITICAL:
        results = [of_run(e, success=e is not failing) for e in ALL]
        check(no_spark, folder, lambda *_, **__: results)  # noqa: B023
        with pytest.raises(DataQualityFailure, match="1 critical expectations failed, nothing is published"):
            publish_tables.run(no_spark, folder)
        with pytest.raises(DataQualityFailure, match="nothing is published"):
            validate_tables._stop_on_failure(results, folder, validate_tables.key_of(folder.read_run()))
    assert len(CRITICAL) > 100


@pytest.mark.parametrize("ends", [RuntimeError, Ended], ids=["crash", "time-out"])
def test_a_check_that_does_not_end_is_no_pass(no_spark: Engine, folder: RunFolder, ends: type[BaseException]) -> None:
    def dying(*_: Any, **__: Any) -> list[Result]:
        raise ends("Great Expectations")

    with pytest.raises(ends):
        check(no_spark, folder, dying)
    with pytest.raises(UsageError, match="not checked"):
        publish_tables.run(no_spark, folder)


@pytest.mark.parametrize("ends", [RuntimeError, Ended], ids=["crash", "time-out"])
def test_a_pass_of_an_earlier_attempt_does_not_count(
    no_spark: Engine, folder: RunFolder, ends: type[BaseException]
) -> None:
    """The next attempt of a run has a run_id of its own, and finds the results of the attempt before in the folder."""

    def dying(*_: Any, **__: Any) -> list[Result]:
        raise ends("Great Expectations")

    check(no_spark, folder, validate)
    folder.write_run(folder.read_run().model_copy(update={"run_id": "r1.2"}))
    with pytest.raises(ends):
        check(no_spark, folder, dying)
    with pytest.raises(UsageError, match="another run"):
        publish_tables.run(no_spark, folder)


def test_nothing_checked_is_no_pass(no_spark: Engine, folder: RunFolder) -> None:
    check(no_spark, folder, lambda *_, **__: [])
    with pytest.raises(UsageError):
        publish_tables.run(no_spark, folder)


def test_nothing_measured_is_no_pass(no_spark: Engine, folder: RunFolder) -> None:
    """Measures without a single count: every expectation of every table fails."""

    def blind(_: Measures, *, docs: Path | None) -> list[Result]:
        return validate(Measures(), docs=docs)

    check(no_spark, folder, blind)
    with pytest.raises(DataQualityFailure, match=f"{len(CRITICAL) - len(OF_INTERVALS)} critical"):
        publish_tables.run(no_spark, folder)
