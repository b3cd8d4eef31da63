"""Progress of long work, shown on stderr on a terminal only: not in a pipe, and not with --json. With --progress-json
it is lines of JSON instead, wherever stderr leads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from sexton.runs.progress import AS_JSON, ProgressLines

SPEED_S = 600.0
"""The time left is computed from the speed of the last minutes."""


@contextmanager
def bar(label: str, *, is_quiet: bool, in_percent: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the time left, updated by calls with (done, total), in steps, or in bytes if `in_percent`."""
    if AS_JSON.get():
        yield ProgressLines(label).at
        return
    console = Console(stderr=True)
    amount: ProgressColumn = TextColumn("{task.percentage:>3.0f} %") if in_percent else MofNCompleteColumn()
    is_off = is_quiet or not console.is_terminal
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=is_off,
        speed_estimate_period=SPEED_S,
    ) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def working(label: str, *, is_quiet: bool) -> Iterator[None]:
    """A spinner, for work of unknown size."""
    console = Console(stderr=True)
    if AS_JSON.get():
        ProgressLines(label)
    if AS_JSON.get() or is_quiet or not console.is_terminal:
        yield
        return
    with console.status(label):
        yield
