"""What a restore is asked for, and the values that answers it: which source, of which archive, what of it."""

from dataclasses import dataclass, field

from sexton.archive.cluster_metadata import the_cluster
from sexton.errors import NoCoverage, UsageError
from sexton.execution.restore.selection import Selection
from sexton.execution.restore.sources import Source, of_archive, of_ledger, of_plan, topic_ids_at
from sexton.ledger.ledger import Ledger
from sexton.plans.files import read_plan
from sexton.runs.source import filesystem


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Exactly one of `from_plan`, `from_ledger` (plan_ids, of a ledger also a restore_id) and `as_of_ms`.

    Of an instant not everything is put back by default: the selection has to say what.
    """

    archive: str
    cluster_id: str | None = None
    from_plan: str | None = None
    from_ledger: str | None = None
    as_of_ms: int | None = None
    selection: Selection = field(default_factory=Selection)


def source_of(request: RestoreRequest, *, taken_at_ms: int) -> Source:
    """The values that a request is about; UsageError for one that does not fit together, or names nothing."""
    given = [one for one in (request.from_plan, request.from_ledger, request.as_of_ms) if one is not None]
    if len(given) != 1:
        raise UsageError(
            "give one of --from-plan PLAN_ID, --from-ledger PLAN_ID and --as-of INSTANT", fix="see `restore --help`"
        )
    if request.as_of_ms is not None:
        return _of_instant(request, request.as_of_ms, taken_at_ms)
    fs, root = filesystem(request.archive)
    if request.from_plan is not None:
        plan = read_plan(fs, root, request.cluster_id, request.from_plan)
        ids = topic_ids_at(fs, root, plan.record.cluster_id, plan.record.as_of_ms)
        return of_plan(plan, request.selection, ids)
    assert request.from_ledger is not None
    cluster = the_cluster(fs, root, request.cluster_id)
    if cluster is None:
        raise NoCoverage("the archive is empty", where=request.archive)
    entries = Ledger(fs, root, cluster, request.from_ledger).entries()
    ids = topic_ids_at(fs, root, cluster, entries[0].at_ms) if entries else {}
    return of_ledger(entries, request.selection, ids)


def _of_instant(request: RestoreRequest, as_of_ms: int, taken_at_ms: int) -> Source:
    if request.selection.is_everything:
        raise UsageError(
            "of an instant, say what to put back",
            where="--as-of",
            fix="--group, --pattern or --topic; --pattern '.*' is everything",
        )
    return of_archive(
        request.archive,
        cluster_id=request.cluster_id,
        as_of_ms=as_of_ms,
        selection=request.selection,
        taken_at_ms=taken_at_ms,
    )
