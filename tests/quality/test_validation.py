"""Great Expectations judges the measures: zero passes, anything else and nothing at all fail."""

from pathlib import Path

import pytest

from sexton.quality import EXPECTATIONS, Measures, results_table
from sexton.quality.validation import validate

ALL = [expectation for expectations in EXPECTATIONS.values() for expectation in expectations]


def measures(count: int) -> Measures:
    found = Measures()
    for expectation in ALL:
        found.put(expectation.table, expectation.measure, count, "log partition 3")
    return found


@pytest.mark.parametrize(
    ("found", "success", "observed"),
    [
        (measures(0), True, "none"),
        (measures(1_200), False, "1,200: log partition 3"),
        (measures(-1), False, "-1: log partition 3"),
        (Measures(), False, "not measured"),
    ],
    ids=["zero", "some", "less than none", "nothing measured"],
)
def test_every_expectation_is_judged(found: Measures, success: bool, observed: str) -> None:
    results = validate(found, docs=None)
    assert [(result.table, result.expectation, result.severity) for result in results] == [
        (expectation.table, expectation.sentence, expectation.severity) for expectation in ALL
    ]
    assert {result.success for result in results} == {success}
    assert all(result.observed.startswith(observed) for result in results)


def test_one_bad_measure_fails_one_expectation() -> None:
    found = measures(0)
    found.put("groups", "offset_counts", 2)
    (failed,) = [result for result in validate(found, docs=None) if not result.success]
    assert failed.table == "groups"
    assert failed.expectation.startswith("offset_count is")
    assert failed.stops_publication


def test_a_warning_stops_nothing() -> None:
    found = measures(0)
    found.put("undecodable_records", "found", 1)
    (failed,) = [result for result in validate(found, docs=None) if not result.success]
    assert failed.severity == "warning"
    assert not failed.stops_publication


def test_results_are_rows_of_dq_results() -> None:
    results = validate(measures(0), docs=None)
    table = results_table(results)
    assert table.num_rows == len(ALL)
    assert table.group_by(["table", "expectation"]).aggregate([]).num_rows == len(ALL)


def test_data_docs_tell_the_sentences(tmp_path: Path) -> None:
    (tmp_path / "dq").mkdir()
    (tmp_path / "dq" / "left.html").write_text("of an earlier attempt")
    found = measures(0)
    found.put("tombstones", "blocked", 1)
    validate(found, docs=tmp_path / "dq")
    assert (tmp_path / "dq" / "index.html").is_file()
    assert not (tmp_path / "dq" / "left.html").exists()
    pages = "".join(page.read_text() for page in (tmp_path / "dq").rglob("*.html"))
    assert "nothing is planned where a record is undecodable" in pages
