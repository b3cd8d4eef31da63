"""The order of the test files: names that lanes.py knows are files, and what takes long begins first."""

from pathlib import Path

import pytest

from tests.lanes import LONG_COMPUTING, LONG_WAITING, WAITING, place_of

TESTS = Path(__file__).parent


@pytest.mark.parametrize("name", [*LONG_WAITING, *LONG_COMPUTING])
def test_a_long_file_is_there(name: str) -> None:
    assert len(list(TESTS.glob(f"**/{name}"))) == 1


def test_waiting_files_come_first_and_the_longest_of_either_kind_at_the_ends() -> None:
    files = sorted(TESTS.glob("**/test_*.py"), key=place_of)
    names = ["/".join(file.parts[-2:]) for file in files]
    assert tuple(names[: len(LONG_WAITING)]) == LONG_WAITING
    assert tuple(reversed(names[-len(LONG_COMPUTING) :])) == LONG_COMPUTING
    waiting = [file.parent.name in WAITING for file in files]
    assert waiting == sorted(waiting, reverse=True)
