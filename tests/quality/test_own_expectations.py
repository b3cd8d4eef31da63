"""Expectations of users: a folder of queries."""

from pathlib import Path

import pytest

from sexton.errors import UsageError
from sexton.pipeline import validate_tables
from sexton.quality.suites import read_expectations
from tests.environment import with_settings
from tests.pipeline.test_validate_publish import fill

HEAD = "-- table: groups\n-- expect: no group is empty\n"
QUERY = "SELECT * FROM groups\nWHERE offset_count = 0;\n"


def test_a_file_is_an_expectation(tmp_path: Path) -> None:
    (tmp_path / "b.sql").write_text(f"{HEAD}-- severity: warning\n{QUERY}")
    (tmp_path / "a.sql").write_text(f"{HEAD}{QUERY}")
    (tmp_path / "notes.txt").write_text("not a query")
    first, second = read_expectations(tmp_path)
    assert (first.name, first.table, first.sentence, first.severity) == ("a", "groups", "no group is empty", "critical")
    assert first.sql == "SELECT * FROM groups WHERE offset_count = 0"
    assert (second.name, second.severity) == ("b", "warning")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (QUERY, "no line `-- table: ...`"),
        (f"-- table: groups\n{QUERY}", "no line `-- expect: ...`"),
        (f"-- table: nothing\n-- expect: x\n{QUERY}", "no table nothing"),
        (f"{HEAD}-- severity: loud\n{QUERY}", "a severity is critical or warning, not loud"),
        (HEAD, "no query"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "mine.sql").write_text(text)
    with pytest.raises(UsageError, match=problem) as error:
        read_expectations(tmp_path)
    assert "mine.sql" in str(error.value)


def test_it_is_checked_with_the_others(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.sql").write_text(f"{HEAD}{QUERY}")
    folder = fill(tmp_path / "run")
    with with_settings(SEXTON_EXPECTATIONS=str(own)):
        validate_tables.check_folder(folder)
    (failed,) = [row for row in folder.read_table("dq_results", 0).to_pylist() if not row["success"]]
    assert (failed["expectation"], failed["observed"]) == ("no group is empty", "1")
    (row,) = failed["failing_rows"]
    assert '"group_type": "Share"' in row
    assert "run_id" not in row
