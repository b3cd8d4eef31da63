"""expire_runs: remove published runs that the retention does not keep, their rows and their checkpoints.

The runs are first recorded in the archive, with their rows of `runs`:

    <archive>/<cluster_id>/maintenance/expire_runs-<instant>[-<number>].json

Then they are deleted from `runs`, where all readers look first, then from the other tables, and the record is closed.
So a reader never sees part of a run, even after a crash; the next call first completes open records. Checkpoints are
deleted last, the manifest of each before its other files.

Never deleted: what is archived, apart from checkpoints; rows of `offset_changes`, `expiry_sweeps`, `commit_counts`,
`apply_ledger`, and of the audits (`replica_state`, `replica_differences`, `transactions`, `transactional_ids`). Rows of
`time_lag` are deleted with their run. A run stays, whatever its age, while its instant is under hold or if its plan was
applied.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs as pafs
from pydantic import BaseModel, ValidationError

from sexton.archive.files import cluster_folder, is_file, list_folder, read_json, write_whole
from sexton.archive.folder import filesystem
from sexton.archive.lineages import MAINTENANCE_FOLDER, clusters_of, topics_of
from sexton.as_text import HOUR_MS
from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.lake.append import retried
from sexton.lake.branch import side_by_side
from sexton.lake.catalog import Lake
from sexton.lake.read import load, published_instants, published_runs
from sexton.maintenance.compact_tables import known_tables
from sexton.maintenance.run_retention import RunRetention, kept, needed_bases
from sexton.runs.checkpoint import MANIFEST, checkpoint_folders
from sexton.runs.engine import Engine
from sexton.tables import ROWS_OF_RUNS

_REMOVAL = re.compile(r"expire_runs-\d{1,19}(-\d+)?\.json")


class Removal(BaseModel):
    """The runs that one call removes, as rows of `runs`. `is_done` is set once no table has rows of these runs."""

    at_ms: int
    runs: list[dict[str, Any]]
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRuns:
    """What was removed from a cluster, or would be: `runs` (their as_of_ms) and a number of `checkpoints`.

    The other fields count runs: `published` before the removal; `held`, which stay at any age; `completed`, whose
    removal an earlier call had not finished.
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
    """Expire runs of every cluster of the archive, or of `only` this one; without `deletes` only report what would be
    removed.

    `held` are instants (as_of_ms) that stay. NoCoverage if nothing was ever published.
    """
    fs, root = filesystem(archive)
    applied = _applied_plans(lake)
    done = []
    for cluster_id in clusters_of(fs, root, only):
        removals = _Removals(fs, root, cluster_id)
        completed = (
            sum(_complete(engine, lake, cluster_id, removals, path) for path in removals.open()) if deletes else 0
        )
        runs = published_runs(lake, cluster_id)
        instants = {each.key.as_of_ms for each in runs}
        holds = {each.key.as_of_ms for each in runs if each.key.as_of_ms in held or each.row["plan_id"] in applied}
        keeps = kept(instants, now_ms=now_ms, retention=retention, held=holds)
        free = _free_checkpoints(fs, root, cluster_id, keeps, before_ms=now_ms - retention.all_hours * HOUR_MS)
        going = [each for each in runs if each.key.as_of_ms not in keeps]
        if deletes:
            _take(engine, lake, cluster_id, removals, Removal(at_ms=now_ms, runs=[each.row for each in going]))
            for folder in free:  # the manifest first: without it readers ignore the checkpoint
                if is_file(fs, f"{folder}/{MANIFEST}"):
                    fs.delete_file(f"{folder}/{MANIFEST}")
                failpoint("expire_runs.unmade")
                fs.delete_dir(folder)
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


class _Removals:
    """The records of a cluster's removals. They stay in the archive."""

    def __init__(self, fs: pafs.FileSystem, root: str, cluster_id: str) -> None:
        self._fs = fs
        self._folder = cluster_folder(root, cluster_id, MAINTENANCE_FOLDER)

    def open(self) -> list[str]:
        """Return the paths of records that are not closed, oldest first."""
        return [path for path in self._paths() if not self.read(path).is_done]

    def read(self, path: str) -> Removal:
        try:
            return Removal.model_validate(read_json(self._fs, path))
        except ValidationError as error:
            raise UsageError(f"no record of expired runs: {error.errors()[0]['msg']}", where=path) from None

    def add(self, removal: Removal) -> str:
        """Write a record under a new name; return its path."""
        stem, known = f"{self._folder}/expire_runs-{removal.at_ms}", set(self._paths())
        number, path = 1, f"{stem}.json"
        while path in known:
            number, path = number + 1, f"{stem}-{number}.json"
        self.write(path, removal)
        return path

    def write(self, path: str, removal: Removal) -> None:
        write_whole(self._fs, path, removal.model_dump_json(indent=1).encode(), what="expire_runs")

    def _paths(self) -> list[str]:
        files = list_folder(self._fs, self._folder)
        return sorted(file.path for file in files if _REMOVAL.fullmatch(file.base_name))


def _take(engine: Engine, lake: Lake, cluster_id: str, removals: _Removals, removal: Removal) -> None:
    """Record the runs, delete them from `runs`, then from the other tables."""
    if not removal.runs:
        return
    path = removals.add(removal)
    _delete(engine, lake, "runs", cluster_id, [run["as_of_ms"] for run in removal.runs])
    failpoint("expire_runs.unnamed")
    _complete(engine, lake, cluster_id, removals, path)
    failpoint("expire_runs.emptied")


def _complete(engine: Engine, lake: Lake, cluster_id: str, removals: _Removals, path: str) -> int:
    """Delete the rows of recorded runs that are no longer in `runs`, and close the record; return the number of these
    runs.

    A recorded run that is in `runs` was not deleted there, or was published again: the retention decides about it as
    about any other run.
    """
    removal = removals.read(path)
    there = {as_of_ms for as_of_ms, _ in published_instants(lake, cluster_id)}
    gone = [run for run in removal.runs if run["as_of_ms"] not in there]
    if instants := [run["as_of_ms"] for run in gone]:

        def delete(table: str) -> None:
            _delete(engine, lake, table, cluster_id, instants)
            failpoint("expire_runs.between")

        side_by_side(delete, [table.name for table in known_tables(lake) if table in ROWS_OF_RUNS])
    removals.write(path, removal.model_copy(update={"runs": gone, "is_done": True}))
    return len(gone)


def _delete(engine: Engine, lake: Lake, table: str, cluster_id: str, instants: Sequence[int]) -> None:
    """Delete whole partitions in one commit."""
    listed = ", ".join(str(int(at)) for at in sorted(instants))
    statement = f"DELETE FROM {lake.identifier(table)} WHERE cluster_id = :cluster_id AND as_of_ms IN ({listed})"
    retried(lambda: engine.session.sql(statement, args={"cluster_id": cluster_id}))


def _applied_plans(lake: Lake) -> set[str]:
    """Return the plans that were applied or attempted."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        found = load(lake, "apply_ledger").scan(selected_fields=("plan_id",)).to_arrow()["plan_id"]
    except NoSuchTableError:
        return set()
    return set(found.unique().to_pylist())


def _free_checkpoints(
    fs: pafs.FileSystem, root: str, cluster_id: str, keeps: Collection[int], *, before_ms: int
) -> list[str]:
    """Return checkpoints before `before_ms` that are not of a kept run and from which no replay of a kept run would
    start."""
    free = []
    for topic_id in topics_of(fs, root, cluster_id):
        folders = checkpoint_folders(fs, root, cluster_id=cluster_id, topic_id=topic_id)
        infos = fs.get_file_info([f"{folder}/{MANIFEST}" for _, folder in folders])
        whole = {at for (at, _), info in zip(folders, infos, strict=True) if info.type == pafs.FileType.File}
        stays = needed_bases(whole, keeps) | {*keeps}
        free += [folder for at, folder in folders if at < before_ms and at not in stays]
    return sorted(free)
