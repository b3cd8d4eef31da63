"""Progress of long work, told on stderr and on a terminal only: in a pipe, and beside --json, there is none of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn


@contextmanager
def bar(label: str, *, is_quiet: bool, in_percent: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Something to tell progress to, (done, of): a count of steps, or with `in_percent` a share of bytes."""
    console = Console(stderr=True)
    amount: ProgressColumn = TextColumn("{task.percentage:>3.0f} %") if in_percent else MofNCompleteColumn()
    is_off = is_quiet or not console.is_terminal
    with Progress(
        TextColumn("{task.description}"), BarColumn(), amount, console=console, transient=True, disable=is_off
    ) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)


@contextmanager
def working(label: str, *, is_quiet: bool) -> Iterator[None]:
    """For work of which nobody knows how much there is."""
    console = Console(stderr=True)
    if is_quiet or not console.is_terminal:
        yield
        return
    with console.status(label):
        yield
