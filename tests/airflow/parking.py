"""When a task that asks people may be answered.

Its process ends when it has asked, and Airflow's scheduler hears of that later, on a busy machine by many seconds. A
task that was answered and queued again by then is taken for one that died, and asks again.
"""

from pathlib import Path


def has_parked(scheduler_log: Path, run_id: str, task_id: str = "approve") -> bool:
    """Whether the scheduler has heard that the task's process has ended."""
    heard = "Received executor event with state success"
    told = [line for line in scheduler_log.read_text("utf-8", "replace").splitlines() if heard in line]
    return any(f"task_id='{task_id}', run_id='{run_id}'" in line for line in told)
