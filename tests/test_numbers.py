"""A number that somebody gives is written in ASCII digits, wherever it is given."""

import pytest

from sexton import cli
from sexton.errors import UsageError
from sexton.job_params import ReplayRequest
from sexton.numbers import ranges_text, whole_number
from sexton.pipeline import job
from sexton.settings import settings
from sexton.spark.input import instant_of

SLIPS = ("0\x0b", " 5", "5\n", "1_000", "\u0663", "\uff11", "+5", "", "5.0", "0x5", "-", "9" * 20)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-1", -1), ("007", 7), (str(2**63 - 1), 2**63 - 1)])
def test_digits_are_a_number(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", SLIPS)
def test_nothing_else_is(text, monkeypatch, capsys, tmp_path):
    with pytest.raises(ValueError, match="no whole number"):
        whole_number(text)
    for option in ("--retention-minutes", "--partition-count", "--as-of"):
        assert cli.main(["audit", f"{option}={text}", "--segments", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
        assert option in capsys.readouterr().err
    options = job.parser("replay_groups", "", ReplayRequest)
    with pytest.raises(SystemExit):
        options.parse_args(["--run-dir", "run", "--archive", "archive", f"--settle-ms={text}"])
    with pytest.raises(UsageError, match="option as_of"):
        instant_of({"as_of": text}, "as_of")
    if text:  # an empty variable is one that is not set
        monkeypatch.setenv("SEXTON_RETENTION_MINUTES", text)
        settings.cache_clear()
        with pytest.raises(UsageError, match="retention_minutes"):
            settings()
    monkeypatch.undo()
    settings.cache_clear()


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((3,), "3"), ((2, 1), "1, 2"), ((0, 2, 1), "0 to 2"), ((9, 0, 1, 2, 5, 6), "0 to 2, 5, 6, 9")],
)
def test_neighbours_are_ranges(numbers, text):
    assert ranges_text(numbers) == text
