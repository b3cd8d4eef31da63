"""verify: check all names and sizes in the archive, and read one part of its bytes: several runs together read all.

The number of the part that was read last is stored, so that the next run reads the next part whatever the schedule.
Corrupt segments are stored, too: every run reads them again and reports them until they are repaired.

    <archive>/<cluster_id>/maintenance/verify.json
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

from pyarrow import fs as pafs
from pydantic import BaseModel

from sexton.archive.folder import filesystem
from sexton.archive.lineages import ArchivedSegment, clusters_of, list_lineages, topics_of
from sexton.archive.verify import CORRUPT, Finding, check
from sexton.archive.verify import verify as verify_archive
from sexton.errors import SextonError
from sexton.maintenance.task_state import read_state, write_state
from sexton.runs.checkpoint import is_there
from sexton.runs.checkpoint_verify import check as check_checkpoint
from sexton.runs.checkpoint_verify import verify_checkpoints

FINDINGS_IN_ALERTS = 20
TASK = "verify"


class VerifyState(BaseModel):
    """The progress for one cluster: part `part` of `parts` was read last; 0 before the first.

    `corrupt` has the segments and `checkpoints` the checkpoints that were corrupt when last read, as paths in the
    cluster's folder.
    """

    part: int = 0
    parts: int = 0
    corrupt: list[str] = []
    checkpoints: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedArchive:
    """What was read (`subsets`: part n/t of each cluster; `read` of all `segments`) and the number of findings.

    `corrupt` counts findings of data that differs from what was written to the archive; data of other findings was bad
    when it was archived.
    """

    subsets: dict[str, str]
    segments: int
    read: int
    read_bytes: int
    findings: int
    corrupt: int
    alerts: list[str] = field(default_factory=list)


def run(archive: str, *, parts: int, subset: tuple[int, int] | None = None, only: str | None = None) -> VerifiedArchive:
    """Verify the next of `parts` parts of every cluster, or of `only` this one. A `subset` (n, t) is read instead of
    the next part, and not stored as progress.

    Each of the first findings becomes an alert, all further findings together one more. UsageError if the archive has
    no cluster `only` or a state file is invalid; OSError if the store cannot be read or written.
    """
    fs, root = filesystem(archive)
    subsets: dict[str, str] = {}
    findings: list[Finding] = []
    segments = read = read_bytes = 0
    for cluster_id in clusters_of(fs, root, only):
        state = read_state(fs, root, cluster_id, TASK, VerifyState)
        # The part after the one that was read last; the first part if the number of parts has changed.
        n, t = subset or ((state.part % parts + 1 if state.parts == parts else 1), parts)
        found = verify_archive(fs, root, cluster_id=cluster_id, subset=(n, t))
        wrong, corrupt = _with_known(fs, root, cluster_id, found.findings, state.corrupt)
        unreadable, checkpoints = _checkpoints(fs, root, cluster_id, (n, t), state.checkpoints)
        wrong += unreadable
        is_in_turn = subset is None and found.segments > 0
        turn = {"part": n, "parts": t} if is_in_turn else {}
        done = state.model_copy(update={"corrupt": corrupt, "checkpoints": checkpoints, **turn})
        if done != state:
            write_state(fs, root, cluster_id, TASK, done)
        subsets[cluster_id] = f"{n}/{t}"
        findings += wrong
        segments, read, read_bytes = segments + found.segments, read + found.read, read_bytes + found.read_bytes
    alerts = [f"the archive is {one.kind} at {one.where}: {one.what}" for one in findings[:FINDINGS_IN_ALERTS]]
    if len(findings) > FINDINGS_IN_ALERTS:
        alerts.append(f"the archive has {len(findings) - FINDINGS_IN_ALERTS} more findings: `sexton archive verify`")
    return VerifiedArchive(
        subsets=subsets,
        segments=segments,
        read=read,
        read_bytes=read_bytes,
        findings=len(findings),
        corrupt=sum(finding.kind == CORRUPT for finding in findings),
        alerts=alerts,
    )


def _checkpoints(
    fs: pafs.FileSystem, root: str, cluster_id: str, subset: tuple[int, int], known: Collection[str]
) -> tuple[list[Finding], list[str]]:
    """Check the checkpoints of a part and those `known` to be corrupt; return the findings and the checkpoints that are
    corrupt now."""
    folder = f"{root.rstrip('/')}/{cluster_id}/"
    _, found = verify_checkpoints(fs, root, cluster_id=cluster_id, subset=subset)
    again = {f"{folder}{path}" for path in known} - {finding.where for finding in found}
    found += [finding for place in sorted(again) if is_there(fs, place) for finding in check_checkpoint(fs, place)]
    return found, sorted({finding.where.removeprefix(folder) for finding in found})


def _with_known(
    fs: pafs.FileSystem, root: str, cluster_id: str, findings: Collection[Finding], known: Collection[str]
) -> tuple[list[Finding], list[str]]:
    """Add the findings of segments `known` to be corrupt; return all findings and the segments that are corrupt now."""
    if not known and not any(finding.kind == CORRUPT for finding in findings):
        return [*findings], []  # the usual case: the archive is not listed again
    folder = f"{root.rstrip('/')}/{cluster_id}/"
    links = _links(fs, root, cluster_id)
    before = {f"{folder}{path}" for path in known}
    reported = {finding.where for finding in findings}
    again: list[Finding] = []
    for path in before:
        if path not in links:  # missing is not repaired: who removed the segment must remove it from the list
            what = "it was corrupt at its last reading, and no lineage includes it now"
            again.append(Finding(kind=CORRUPT, where=path, what=what))
        elif reported.isdisjoint((path, links[path].manifest_path)):
            again += check(fs, links[path])
    found = sorted({*findings, *again}, key=lambda one: (one.where, one.what))
    corrupt = {links[one.where].segment_path for one in found if one.kind == CORRUPT and one.where in links}
    return found, sorted(path.removeprefix(folder) for path in corrupt | (before - links.keys()))


def _links(fs: pafs.FileSystem, root: str, cluster_id: str) -> dict[str, ArchivedSegment]:
    """Return every segment in a lineage of the cluster, by the paths of both of its files."""
    found: dict[str, ArchivedSegment] = {}
    for topic_id in topics_of(fs, root, cluster_id):
        with suppress(SextonError):  # verify_archive reports it
            for histories in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id).values():
                for link in (link for history in histories for link in history.segments):
                    found |= {link.segment_path: link, link.manifest_path: link}
    return found
