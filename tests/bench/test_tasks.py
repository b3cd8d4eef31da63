"""What a run measures follows from its options."""

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


def test_room_is_for_the_log_its_copy_and_the_run() -> None:
    one, most = (chosen_tasks([name], [30 * MILLION], [])[0] for name in ("plain", "most-keys"))
    (archived,) = chosen_tasks([], [], ["increment"])
    (replicas,) = chosen_tasks([], [], ["replicas"])
    assert room_bytes(replicas) > 1.4 * room_bytes(archived)
    assert room_bytes(archived) < room_bytes(one) + 1
    assert room_bytes(most) > room_bytes(one)
