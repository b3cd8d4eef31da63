"""build_history: runs on one archive at many instants, each continuing from the fold of the previous instant.

A task takes a range of consecutive instants, folds the log up to the first, then reads on from instant to instant.
Every instant gets a run folder, and is judged, planned and checked like a single run. The folders stay until their
batch is published, with one commit per table, so an interrupted build resumes from them. Published instants are not
built again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sexton.archive.cluster_metadata import require_cluster
from sexton.archive.folder import Folder, filesystem
from sexton.as_text import MINUTE_MS, now_ms
from sexton.errors import DataQualityFailure, NoCoverage, UsageError
from sexton.failpoints import failpoint
from sexton.job_params import HistoryRequest, ReplayRequest
from sexton.lake.batch import InstantBatch, write_batch
from sexton.lake.catalog import Lake
from sexton.lake.publish import publish_batch
from sexton.lake.read import published_instants
from sexton.pipeline import find_expired, plan_tombstones, replay_groups, validate_tables
from sexton.pipeline.publish_tables import require_pass, row_of
from sexton.policy import Policy
from sexton.runs.checkpoint import Base, publish_checkpoint
from sexton.runs.engine import Engine
from sexton.runs.folder import WHOLE_RUN, RunFolder, RunRecord
from sexton.runs.processes import SerialEngine
from sexton.runs.progress import every_few_seconds
from sexton.tables import SNAPSHOT_TABLES, interval_tables

BATCH = 100
"""Maximum number of instants that are published together."""
MAX_INSTANTS = 50_000
CHECKED = (validate_tables.TABLE, f"{WHOLE_RUN}.parquet")
"""The last file written to an instant's run folder."""
_TASKS = 4
"""Number of task ranges per batch if only Spark knows how many tasks run in parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The requested instants by outcome: published by this build, published by an earlier one, not covered (with the
    reason), failed critical checks (with the error)."""

    published: list[int] = field(default_factory=list)
    published_before: list[int] = field(default_factory=list)
    not_covered: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)


def instants_of(request: HistoryRequest) -> range:
    """The requested instants; UsageError if there are none, or too many."""
    end_ms = now_ms() if request.to_ms is None else request.to_ms
    found = range(request.from_ms, end_ms + 1, request.step_minutes * MINUTE_MS)
    if not found:
        raise UsageError("the end is before the beginning", where="--to")
    if len(found) > MAX_INSTANTS:
        raise UsageError(f"{len(found):,} instants: at most {MAX_INSTANTS:,} at once", fix="a longer step")
    return found


def run(
    engine: Engine,
    lake: Lake,
    root: Folder,
    request: HistoryRequest,
    *,
    policy: Policy | None = None,
    show: Callable[[int, int], None],
) -> History:
    """Build and publish the instants of `request` that are not published yet, in run folders below `root`.

    `show` is called every few seconds with the number of instants done, and the total.
    """
    wanted = instants_of(request)
    cluster_id = require_cluster(*filesystem(request.archive), request.cluster_id)
    request = request.model_copy(update={"cluster_id": cluster_id})
    try:
        there = {as_of_ms for as_of_ms, _ in published_instants(lake, cluster_id)}
    except NoCoverage:  # nothing was ever published
        there = set()
    history = History(published_before=[at_ms for at_ms in wanted if at_ms in there])
    left = [at_ms for at_ms in wanted if at_ms not in there]
    last: Base | None = None
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        size = -(-len(batch) // (engine.cores or _TASKS))
        stretches = [batch[at : at + size] for at in range(0, len(batch), size)]
        build = partial(_build, root, request, last, policy)
        with every_few_seconds(partial(_show_done, show, root, batch, start, len(left))):
            built = [one for some in engine.map("Building history", stretches, build) for one in some]
        history.not_covered.update({one.as_of_ms: one.skipped for one in built if one.skipped})
        history.failed.update({one.as_of_ms: one.failed for one in built if one.failed})
        used = {one.as_of_ms for one in built} | ({last.as_of_ms} if last else set())
        records = [one.record for one in built if one.record is not None and not one.failed]
        if records:
            _publish(engine, lake, root, request, records)
            history.published.extend(record.as_of_ms for record in records)
            last = _base_of(root, records[-1])
        for at_ms in used - ({last.as_of_ms} if last else set()):
            root.remove(str(at_ms))
        show(start + len(batch), len(left))
    root.remove()
    return history


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """One instant: its record, or in `skipped` why there is none. `failed` is the error if critical checks failed."""

    as_of_ms: int
    record: RunRecord | None = None
    skipped: str = ""
    failed: str = ""


def _show_done(
    show: Callable[[int, int], None], root: Folder, instants: Sequence[int], before: int, total: int
) -> None:
    """Show how many of the `total` instants are built; `before` were in earlier batches. Counts files, because tasks
    may run on other hosts."""
    found = root.fs.get_file_info([root.path(str(at_ms), *CHECKED) for at_ms in instants])
    show(before + sum(info.is_file for info in found), total)


def _build(
    root: Folder, request: HistoryRequest, base: Base | None, policy: Policy | None, instants: Sequence[int]
) -> list[_Built]:
    """Build consecutive instants in one task; the first continues from `base`, if given."""
    found = []
    for at_ms in instants:
        one = _one(root, request, base, policy, at_ms)
        found.append(one)
        if one.record is not None:
            base = _base_of(root, one.record)
    return found


def _one(root: Folder, request: HistoryRequest, base: Base | None, policy: Policy | None, at_ms: int) -> _Built:
    folder, engine = _folder(root, at_ms), SerialEngine(quiet=True)
    if folder.exists(*CHECKED):  # finished by an earlier attempt
        record = folder.read_run()
    else:
        try:
            since_ms = at_ms - request.step_minutes * MINUTE_MS
            asked = ReplayRequest.like(request, as_of_ms=at_ms, since_ms=since_ms)
            replay_groups.run(engine, folder, asked, known=base)
        except NoCoverage as error:
            return _Built(as_of_ms=at_ms, skipped=error.message)
        find_expired.run(engine, folder, policy=policy)
        plan_tombstones.run(engine, folder)
        record = validate_tables.check_folder(folder)
        failpoint("history.built")
    try:
        require_pass(folder, record)
    except DataQualityFailure as error:
        return _Built(as_of_ms=at_ms, record=record, failed=error.message)
    return _Built(as_of_ms=at_ms, record=record)


def _folder(root: Folder, at_ms: int) -> RunFolder:
    return RunFolder(root.uri, str(at_ms), keeps_tables=True)


def _base_of(root: Folder, record: RunRecord) -> Base | None:
    """The run's fold, from which a later instant can continue; None if the run did not read the archived log."""
    if not record.positions:
        return None
    folder = root.sub(str(record.as_of_ms), "fold")
    name = f"{record.as_of_ms} of this history"
    return Base(as_of_ms=record.as_of_ms, name=name, positions=record.positions, folder=folder, bounds=record.bounds)


def _publish(engine: Engine, lake: Lake, root: Folder, request: HistoryRequest, records: Sequence[RunRecord]) -> None:
    """Publish a batch of runs together, and store the last run's checkpoint."""
    batch = InstantBatch.of([validate_tables.key_of(record) for record in records])
    names = [table.name for table in (*SNAPSHOT_TABLES, *interval_tables(records[0].origins))]
    files: dict[str, list[str]] = {name: [] for name in names}
    for record in records:
        for name, paths in validate_tables.files_of(record).items():
            files[name] += [f"{record.as_of_ms}/{path}" for path in paths]
        files[validate_tables.TABLE].append("/".join((str(record.as_of_ms), *CHECKED)))
    facts = {validate_tables.key_of(record): row_of(record) for record in records}
    write_batch(engine.session, lake, batch, root, files, facts)
    failpoint("history.written")
    publish_batch(lambda: engine.session, lake, batch, names, facts)
    failpoint("history.published")
    last = records[-1]
    if last.positions:
        publish_checkpoint(_folder(root, last.as_of_ms), last, request.archive)
