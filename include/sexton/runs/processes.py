"""`ProcessEngine`: the interface of `Engine` on one machine, with forked processes instead of Spark tasks.

A local Spark also runs one Python process per core, and needs some ten seconds to start them. A fork of a process that
has imported the stages starts immediately, without a JVM. If a cluster is configured (SEXTON_SPARK_MASTER),
`engine_here` returns Spark.
"""

import multiprocessing
import os
import pickle
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sexton.archive.folder import Folder
from sexton.errors import SextonError
from sexton.runs.engine import Engine, Exchange, Making, PieceId, packed
from sexton.runs.progress import AS_JSON, ProgressLines
from sexton.runs.spark_session import compiler_environment
from sexton.settings import set_variables, settings

T = TypeVar("T")
R = TypeVar("R")

PRELOADED = "sexton.pipeline.replay_groups"
"""Module that the fork server imports."""
PROGRESS_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
THREADS_BYTES = 4 * 1024 * 1024 * 1024
"""Bytes of input up to which threads do the work: most of it is compiled code, which needs no other process."""
KEPT_BYTES = 512 * 1024 * 1024
"""Bytes of input up to which results may stay in memory from one map to the next."""
_LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)\])?")


def engine_here(*, quiet: bool = False, reads: Sequence[Path] = ()) -> Engine:
    """One process per core of the local master, or Spark if a cluster is configured.

    `reads` are the folders of the log, if known: for a small log, threads suffice and no process is started.
    """
    master = _LOCAL_MASTER.fullmatch(settings().spark_master)
    if master is None:
        return Engine(quiet=quiet)
    cores = os.cpu_count() or 1 if master[1] == "*" else int(master[1] or 1)
    return ProcessEngine(cores=cores, quiet=quiet, starts_early=not (reads and _are_small(reads)))


def engine_of_task(*, iceberg: bool = False, quiet: bool = False) -> Engine:
    """The engine for a task of the pipeline, as SEXTON_ENGINE says. Spark always writes the lake.

    `quiet`: the task reports progress itself.
    """
    match settings().engine:
        case "local":
            cores = os.cpu_count() or 1
            return ProcessEngine(cores=cores, iceberg=iceberg, quiet=quiet, starts_early=False, logs=not quiet)
        case "auto":
            return AutoEngine(iceberg=iceberg, quiet=quiet)
        case "spark":
            return Engine(iceberg=iceberg, quiet=quiet)


def _are_small(folders: Sequence[Path]) -> bool:
    """Whether the segments in these folders are small enough in total for threads."""
    total = 0
    for file in (file for folder in folders for file in folder.rglob("*.log")):
        with suppress(FileNotFoundError):  # a broker may delete a segment meanwhile
            total += file.stat().st_size
        if total >= THREADS_BYTES:
            return False
    return True


class ProcessEngine(Engine):
    """An `Engine` with `cores` processes; Spark starts only if `session` is used.

    With `starts_early` the processes start in the constructor and import while this process does, else with the first
    work that needs them. Progress is shown on a terminal; without a terminal it is logged if `logs` is set.
    """

    name = "local"

    def __init__(
        self,
        *,
        cores: int | None,
        iceberg: bool = False,
        quiet: bool = False,
        starts_early: bool = True,
        logs: bool = False,
    ) -> None:
        super().__init__(iceberg=iceberg, quiet=quiet)
        self._logs = logs or AS_JSON.get()
        self.cores = cores
        self._pool: ProcessPoolExecutor | None = None
        set_variables(compiler_environment())
        give_memory_back()
        if starts_early:
            self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PRELOADED])
        forkserver.ensure_running()
        self._pool = ProcessPoolExecutor(self.cores, context, initializer=_begin)
        return self._pool

    def map(self, label: str, items: Sequence[T], work: Callable[[T], R], *, work_bytes: int | None = None) -> list[R]:
        """`Engine.map` with processes, or with threads of this process if `work_bytes` is small."""
        if work_bytes is None or not items or not self.has_threads_for(work_bytes):
            return super().map(label, items, work)
        with ThreadPoolExecutor(self.cores) as pool:
            calls = [pool.submit(work, item) for item in items]
            try:
                self._show(label, calls, work_bytes)
                return [call.result() for call in calls]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def works_here(self, work_bytes: int) -> bool:
        return work_bytes < KEPT_BYTES

    def has_threads_for(self, work_bytes: int) -> bool:
        return work_bytes < THREADS_BYTES

    def exchange(self, folder: Folder, work_bytes: int) -> Exchange:
        return FileExchange(self, work_bytes, folder)

    def stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        super().stop()

    def _spread(self, label: str, items: Sequence[T], work: Callable[[T], R], work_bytes: int | None) -> list[R]:
        pool = self._pool or self._start()
        calls = [pool.submit(_call, packed((work, item))) for item in items]
        self._show(label, calls, work_bytes)
        try:
            return [call.result() for call in calls]
        except BrokenProcessPool as error:
            raise SextonError(f"{label}: a process was ended before its work was done (out of memory?)") from error
        except Exception as error:
            raise SextonError(f"{label}: a task failed: {type(error).__name__}: {error}") from error

    def _show(self, label: str, calls: Sequence[Future[Any]], work_bytes: int | None) -> None:
        """Show how many calls have ended, until all have."""
        is_off = self._console.quiet  # else it draws ten times a second for nobody
        if is_off and self._logs:
            lines = ProgressLines(label, work_bytes)
            for ended, _ in enumerate(as_completed(calls), 1):
                lines.at(ended, len(calls))
        with Progress(*PROGRESS_COLUMNS, console=self._console, transient=True, disable=is_off) as progress:
            for _ in progress.track(as_completed(calls), total=len(calls), description=label):
                pass


class AutoEngine(ProcessEngine):
    """An `Engine` that uses threads of this process for work that ends before Spark tasks would start, else Spark."""

    def __init__(self, *, iceberg: bool = False, quiet: bool = False) -> None:
        super().__init__(cores=None, iceberg=iceberg, quiet=quiet, starts_early=False, logs=not quiet)

    @property
    def name(self) -> str:  # type: ignore[override]  # known once the work is done
        return "local" if self._session is None else "spark"

    def has_threads_for(self, work_bytes: int) -> bool:
        return self.works_here(work_bytes)

    def exchange(self, folder: Folder, work_bytes: int) -> Exchange:
        here = self.works_here(work_bytes)
        return FileExchange(self, work_bytes, folder) if here else Exchange(self, work_bytes)

    def _spread(self, label: str, items: Sequence[T], work: Callable[[T], R], work_bytes: int | None) -> list[R]:
        return super(ProcessEngine, self)._spread(label, items, work, work_bytes)


class SerialEngine(Engine):
    """An `Engine` in this process, one item at a time: for little work, or if there are enough processes already."""

    name = "local"
    cores = 1

    def works_here(self, work_bytes: int) -> bool:  # noqa: ARG002  # however many
        return True

    def exchange(self, folder: Folder, work_bytes: int) -> Exchange:
        return FileExchange(self, work_bytes, folder)

    def _spread(self, label: str, items: Sequence[T], work: Callable[[T], R], _: int | None) -> list[R]:  # noqa: ARG002  # it is quick
        return [work(item) for item in items]


class FileExchange(Exchange):
    """An `Exchange` with one file per piece, in a folder that is removed at the end."""

    def __init__(self, engine: Engine, work_bytes: int, folder: Folder) -> None:
        super().__init__(engine, work_bytes)
        self._folder = folder

    def make(self, label: str, items: Sequence[T], work: Callable[[T], Generator[bytes, None, R]]) -> list[R]:
        folder = self._folder  # `written` must not capture self

        def written(numbered: tuple[int, T]) -> R:
            task, item = numbered
            pieces = Making(work, item)
            for piece, data in enumerate(pieces):
                folder.write(data, f"{task}-{piece}")
            return pieces.result

        return self._engine.map(label, [*enumerate(items)], written, work_bytes=self._work_bytes)

    def merge(
        self, label: str, items: Sequence[tuple[T, Sequence[PieceId]]], work: Callable[[T, Iterator[bytes]], R]
    ) -> list[R]:
        folder = self._folder

        def merged(given: tuple[T, Sequence[PieceId]]) -> R:
            item, pieces = given
            return work(item, (folder.read(f"{task}-{piece}") for task, piece in pieces))

        return self._engine.map(label, items, merged, work_bytes=self._work_bytes)

    def __exit__(self, *_: object) -> None:
        self._folder.remove()


def _call(data: bytes) -> Any:
    work, item = pickle.loads(data)
    return work(item)


def give_memory_back() -> None:
    """Make Arrow return freed memory to the system. Its default pool keeps it: a fifth of an audit's memory."""
    pa.set_memory_pool(pa.system_memory_pool())


def _begin() -> None:
    """Initialise a process of the pool."""
    give_memory_back()
    stay_with_parent()


def stay_with_parent() -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends: a killed parent cannot notify its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "started by a parent"

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
