"""What a run measures follows from its options."""

import pytest

from tests.bench.figures import MILLION
from tests.bench.sets import SETS
from tests.bench.tasks import FIGURES, chosen_tasks, full_tasks, room_bytes

ALL = [log_set.name for log_set in SETS]


def test_a_full_run_measures_every_set_and_makes_no_log_twice() -> None:
    tasks = full_tasks()
    assert len({task.place for task in tasks}) == len(tasks) == sum(len(log_set.sizes) for log_set in SETS)
    assert [task.records for task in tasks] == sorted(task.records for task in tasks)
    assert all(FIGURES in task.parts for task in tasks)
    assert {task.label: task.parts - {FIGURES} for task in tasks if len(task.parts) > 1} == {
        "plain 30 M": {"increment"},
        "many-keys 30 M": {"planning"},
    }
    assert chosen_tasks(ALL, [], []) == tasks


def test_one_row_by_itself() -> None:
    (task,) = chosen_tasks(["many-keys"], [3 * MILLION], [])
    assert (task.label, task.parts) == ("many-keys 3 M", {FIGURES})
    assert [task.label for task in chosen_tasks(["hot-keys", "many-keys"], [3 * MILLION], [])] == [
        "hot-keys 3 M",
        "many-keys 3 M",
    ]


@pytest.mark.parametrize(
    "part, label",
    [
        ("increment", "plain 30 M"),
        ("planning", "many-keys 30 M"),
        ("cluster", "plain 100 M"),
        ("replicas", "plain 30 M"),
    ],
)
def test_a_part_by_itself(part: str, label: str) -> None:
    (task,) = chosen_tasks([], [], [part])
    assert (task.label, task.parts) == (label, {part})
    (small,) = chosen_tasks([], [300_000], [part])
    assert (small.records, small.parts) == (300_000, {part})


def test_room_is_for_the_log_its_copy_and_the_run() -> None:
    one, most = (chosen_tasks([name], [30 * MILLION], [])[0] for name in ("plain", "most-keys"))
    (archived,) = chosen_tasks([], [], ["increment"])
    (replicas,) = chosen_tasks([], [], ["replicas"])
    assert room_bytes(replicas) > 1.4 * room_bytes(archived)
    assert room_bytes(archived) < room_bytes(one) + 1
    assert room_bytes(most) > room_bytes(one)
