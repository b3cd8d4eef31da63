"""expire_runs: remove published runs that the retention does not keep, their rows and their checkpoints.

What goes is first noted in the archive, with all that `runs` said of it:

    <archive>/<cluster_id>/maintenance/expire_runs-<instant>[-<number>].json

Then it leaves `runs`, through which everybody reads, then the tables, and the note is closed. Whatever dies on the way
leaves readers whole; the next thinning first completes what is noted. Checkpoints go last, each by its manifest first.

Never touched: archived segments, settled cuts, `offset_changes` (the ledger of intervals), `apply_ledger`. A run stays,
whatever its age, while its instant is held and once its plan was applied.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs as pafs
from pydantic import BaseModel, ConfigDict, ValidationError

from sexton.archive.files import read_json, safe_name, write_whole
from sexton.archive.lineages import MAINTENANCE_FOLDER, clusters_of, topics_of
from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.lake.branch import side_by_side
from sexton.lake.catalog import Lake
from sexton.lake.publish import retried
from sexton.lake.read import load, published_runs
from sexton.maintenance.compact_tables import known_tables
from sexton.maintenance.run_retention import HOUR_MS, RunRetention, kept, needed_bases
from sexton.runs.checkpoint import MANIFEST, checkpoint_folders
from sexton.runs.engine import Engine
from sexton.runs.source import filesystem
from sexton.tables import SNAPSHOT_TABLES

_NOTE = re.compile(r"expire_runs-\d{1,19}(-\d+)?\.json")


class Note(BaseModel):
    """What one thinning takes: rows of the table `runs`, whole. `is_done` once nothing of theirs is in a table."""

    model_config = ConfigDict(extra="ignore")

    at_ms: int
    runs: list[dict[str, Any]]
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRuns:
    """What went of a cluster, or would go: `runs` of the `published` ones, by as_of_ms, and so many checkpoints.

    `held` runs stay whatever their age; `completed` ones were left by a thinning that died.
    """

    cluster_id: str
    published: int
    held: int
    completed: int
    runs: list[int]
    checkpoints: int


def run(
    engine: Engine,
    lake: Lake,
    archive: str,
    *,
    now_ms: int,
    retention: RunRetention,
    held: Collection[int] = frozenset(),
    deletes: bool = False,
    only: str | None = None,
) -> list[ExpiredRuns]:
    """Thin the runs of every cluster of the archive, or `only` of one; without `deletes` only say what would go.

    `held` are instants (as_of_ms) that stay. NoCoverage where nothing was ever published.
    """
    fs, root = filesystem(archive)
    applied = _applied_plans(lake)
    done = []
    for cluster_id in clusters_of(fs, root, only):
        notes = _Notes(fs, root, cluster_id)
        completed = sum(_complete(engine, lake, cluster_id, notes, path) for path in notes.open()) if deletes else 0
        runs = published_runs(lake, cluster_id)
        instants = {each.key.as_of_ms for each in runs}
        holds = {each.key.as_of_ms for each in runs if each.key.as_of_ms in held or each.row["plan_id"] in applied}
        keeps = kept(instants, now_ms=now_ms, retention=retention, held=holds)
        free = _free_checkpoints(fs, root, cluster_id, keeps, before_ms=now_ms - retention.all_hours * HOUR_MS)
        going = [each for each in runs if each.key.as_of_ms not in keeps]
        if deletes:
            _take(engine, lake, cluster_id, notes, Note(at_ms=now_ms, runs=[each.row for each in going]))
            _remove_checkpoints(fs, free)
        done.append(
            ExpiredRuns(
                cluster_id=cluster_id,
                published=len(runs),
                held=len(holds),
                completed=completed,
                runs=sorted(instants - keeps),
                checkpoints=len(free),
            )
        )
    return done


class _Notes:
    """The notes of a cluster's thinnings, which stay as the record of what went."""

    def __init__(self, fs: pafs.FileSystem, root: str, cluster_id: str) -> None:
        self._fs = fs
        self._folder = f"{root.rstrip('/')}/{safe_name(cluster_id, what='cluster id')}/{MAINTENANCE_FOLDER}"

    def open(self) -> Iterator[str]:
        """Where the notes are that were not closed, oldest first."""
        yield from [path for path in self._paths() if not self.read(path).is_done]

    def read(self, path: str) -> Note:
        try:
            return Note.model_validate(read_json(self._fs, path))
        except ValidationError as error:
            raise UsageError(f"no note of a thinning: {error.errors()[0]['msg']}", where=path) from None

    def add(self, note: Note) -> str:
        """Write a note under a name of its own, and say which."""
        stem, known = f"{self._folder}/expire_runs-{note.at_ms}", set(self._paths())
        number, path = 1, f"{stem}.json"
        while path in known:
            number, path = number + 1, f"{stem}-{number}.json"
        self.write(path, note)
        return path

    def write(self, path: str, note: Note) -> None:
        write_whole(self._fs, path, note.model_dump_json(indent=1).encode(), what="expire_runs")

    def _paths(self) -> list[str]:
        files = self._fs.get_file_info(pafs.FileSelector(self._folder, allow_not_found=True))
        return sorted(file.path for file in files if _NOTE.fullmatch(file.base_name))


def _take(engine: Engine, lake: Lake, cluster_id: str, notes: _Notes, note: Note) -> None:
    """Note what goes, make it invisible, then remove it."""
    if not note.runs:
        return
    path = notes.add(note)
    _delete(engine, lake, "runs", cluster_id, [run["as_of_ms"] for run in note.runs])
    failpoint("expire_runs.unnamed")
    _complete(engine, lake, cluster_id, notes, path)
    failpoint("expire_runs.emptied")


def _complete(engine: Engine, lake: Lake, cluster_id: str, notes: _Notes, path: str) -> int:
    """Remove the rows of what is noted and no longer in `runs`, and close the note; the number of those runs.

    What is in `runs` has not left it, or was published anew: the policy judges it like any other.
    """
    note = notes.read(path)
    there = {each.key.as_of_ms for each in published_runs(lake, cluster_id)}
    gone = [run for run in note.runs if run["as_of_ms"] not in there]
    if instants := [run["as_of_ms"] for run in gone]:

        def delete(table: str) -> None:
            _delete(engine, lake, table, cluster_id, instants)
            failpoint("expire_runs.between")

        side_by_side(delete, [table.name for table in known_tables(lake) if table in SNAPSHOT_TABLES])
    notes.write(path, note.model_copy(update={"runs": gone, "is_done": True}))
    return len(gone)


def _delete(engine: Engine, lake: Lake, table: str, cluster_id: str, instants: Sequence[int]) -> None:
    """Delete whole partitions in one commit, which touches no file of any other."""
    listed = ", ".join(str(int(at)) for at in sorted(instants))
    statement = f"DELETE FROM {lake.identifier(table)} WHERE cluster_id = :cluster_id AND as_of_ms IN ({listed})"
    retried(lambda: engine.session.sql(statement, args={"cluster_id": cluster_id}))


def _applied_plans(lake: Lake) -> set[str]:
    """Plans of which something was applied, or tried to be."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        found = load(lake, "apply_ledger").scan(selected_fields=("plan_id",)).to_arrow()["plan_id"]
    except NoSuchTableError:
        return set()
    return set(found.unique().to_pylist())


def _free_checkpoints(
    fs: pafs.FileSystem, root: str, cluster_id: str, keeps: Collection[int], *, before_ms: int
) -> list[str]:
    """Checkpoints of before `before_ms` that are of no kept run, and from which no replay of one would go on."""
    free = []
    for topic_id in topics_of(fs, root, cluster_id):
        folders = checkpoint_folders(fs, root, cluster_id=cluster_id, topic_id=topic_id)
        infos = fs.get_file_info([f"{folder}/{MANIFEST}" for _, folder in folders])
        whole = {at for (at, _), info in zip(folders, infos, strict=True) if info.type == pafs.FileType.File}
        stays = needed_bases(whole, keeps) | {*keeps}
        free += [folder for at, folder in folders if at < before_ms and at not in stays]
    return sorted(free)


def _remove_checkpoints(fs: pafs.FileSystem, folders: Sequence[str]) -> None:
    """Without its manifest a checkpoint is none, whatever else is left of it."""
    for folder in folders:
        if fs.get_file_info(f"{folder}/{MANIFEST}").type == pafs.FileType.File:
            fs.delete_file(f"{folder}/{MANIFEST}")
        failpoint("expire_runs.unmade")
        fs.delete_dir(folder)
