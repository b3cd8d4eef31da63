"""verify: the archive's names and sizes every time, and one part of its bytes: in some runs all of it is read.

Which part was read last is noted, not told by the calendar: whatever the schedule, the next run reads the next one. So
is what was corrupt: its part may not come again for days, and until it is mended every run reads it and says so.

    <archive>/<cluster_id>/maintenance/verify.json
"""

from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field

from pyarrow import fs as pafs
from pydantic import BaseModel, ConfigDict

from sexton.archive.lineages import ArchivedSegment, clusters_of, list_lineages, topics_of
from sexton.archive.verify import CORRUPT, Finding, check
from sexton.archive.verify import verify as look
from sexton.errors import SextonError
from sexton.maintenance.task_state import read_state, write_state
from sexton.runs.checkpoint import is_there
from sexton.runs.checkpoint_verify import check as check_checkpoint
from sexton.runs.checkpoint_verify import verify_checkpoints
from sexton.runs.source import filesystem

TOLD_FINDINGS = 20
TASK = "verify"


class VerifyState(BaseModel):
    """Of one cluster: part `part` of `parts` was read last, 0 where none was.

    `corrupt` are the segments that were so when they were last read, as paths in the cluster's folder,
    and `checkpoints` the folders of the checkpoints that were.
    """

    model_config = ConfigDict(extra="ignore")

    part: int = 0
    parts: int = 0
    corrupt: list[str] = []
    checkpoints: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedArchive:
    """The part n/t of each cluster was read that `subsets` names: `read` of all `segments`, and this was found.

    `corrupt` findings tell that the archive is not what was put into it, now or when it was last read; the others that
    what was put in was not good.
    """

    subsets: dict[str, str]
    segments: int
    read: int
    read_bytes: int
    findings: int
    corrupt: int
    alerts: list[str] = field(default_factory=list)


def run(archive: str, *, parts: int, subset: tuple[int, int] | None = None, only: str | None = None) -> VerifiedArchive:
    """Verify the next one of so many parts, of every cluster or `only` of one; or part n of t, which is not in turn.

    An alert for each of the first findings, one for the rest. UsageError where the archive has no cluster `only`, or a
    note is none; OSError where the store cannot be read, or the note not be written.
    """
    fs, root = filesystem(archive)
    subsets: dict[str, str] = {}
    findings: list[Finding] = []
    segments = read = read_bytes = 0
    for cluster_id in clusters_of(fs, root, only):
        note = read_state(fs, root, cluster_id, TASK, VerifyState)
        n, t = subset or _next_part(note, parts)
        found = look(fs, root, cluster_id=cluster_id, subset=(n, t))
        wrong, corrupt = _with_noted(fs, root, cluster_id, found.findings, note.corrupt)
        unreadable, checkpoints = _checkpoints(fs, root, cluster_id, (n, t), note.checkpoints)
        wrong += unreadable
        is_in_turn = subset is None and found.segments > 0
        turn = {"part": n, "parts": t} if is_in_turn else {}
        done = note.model_copy(update={"corrupt": corrupt, "checkpoints": checkpoints, **turn})
        if done != note:
            write_state(fs, root, cluster_id, TASK, done)
        subsets[cluster_id] = f"{n}/{t}"
        findings += wrong
        segments, read, read_bytes = segments + found.segments, read + found.read, read_bytes + found.read_bytes
    alerts = [_line(finding) for finding in findings[:TOLD_FINDINGS]]
    if len(findings) > TOLD_FINDINGS:
        alerts.append(f"the archive has {len(findings) - TOLD_FINDINGS} more findings: `sexton archive verify`")
    return VerifiedArchive(
        subsets=subsets,
        segments=segments,
        read=read,
        read_bytes=read_bytes,
        findings=len(findings),
        corrupt=sum(finding.kind == CORRUPT for finding in findings),
        alerts=alerts,
    )


def _next_part(note: VerifyState, parts: int) -> tuple[int, int]:
    """The part after the last one; the first one where none was read, or one of another number of parts."""
    return (note.part % parts + 1 if note.parts == parts else 1), parts


def _checkpoints(
    fs: pafs.FileSystem, root: str, cluster_id: str, subset: tuple[int, int], noted: Collection[str]
) -> tuple[list[Finding], list[str]]:
    """What is wrong with the checkpoints of a part and with those that were `noted`; and which to note now."""
    folder = f"{root.rstrip('/')}/{cluster_id}/"
    _, found = verify_checkpoints(fs, root, cluster_id=cluster_id, subset=subset)
    again = {f"{folder}{path}" for path in noted} - {finding.where for finding in found}
    found += [finding for place in sorted(again) if is_there(fs, place) for finding in check_checkpoint(fs, place)]
    return found, sorted({finding.where.removeprefix(folder) for finding in found})


def _with_noted(
    fs: pafs.FileSystem, root: str, cluster_id: str, findings: Collection[Finding], noted: Collection[str]
) -> tuple[list[Finding], list[str]]:
    """The findings with those in segments that were `noted` as corrupt; and what is to be noted now: what still is."""
    if not noted and not any(finding.kind == CORRUPT for finding in findings):
        return [*findings], []  # the usual case, in which nothing is listed again
    folder = f"{root.rstrip('/')}/{cluster_id}/"
    links = _links(fs, root, cluster_id)
    before = {f"{folder}{path}" for path in noted}
    told = {finding.where for finding in findings}
    found = sorted({*findings, *_still_wrong(fs, before, links, told)}, key=lambda one: (one.where, one.what))
    corrupt = {links[one.where].segment_path for one in found if one.kind == CORRUPT and one.where in links}
    return found, sorted(path.removeprefix(folder) for path in corrupt | (before - links.keys()))


def _still_wrong(
    fs: pafs.FileSystem, paths: Collection[str], links: Mapping[str, ArchivedSegment], told: Set[str]
) -> Iterator[Finding]:
    """What is wrong with segments that were corrupt, but for what is `told` already, by its place."""
    for path in paths:
        if path not in links:  # what is away is not mended: who took it says so by taking it out of the note
            what = "it was corrupt when it was last read, and no unbroken history leads to it now"
            yield Finding(kind=CORRUPT, where=path, what=what)
        elif told.isdisjoint((path, links[path].manifest_path)):
            yield from check(fs, links[path])


def _links(fs: pafs.FileSystem, root: str, cluster_id: str) -> dict[str, ArchivedSegment]:
    """Every segment of a cluster that is read, by the paths of both of its files."""
    found: dict[str, ArchivedSegment] = {}
    for topic_id in topics_of(fs, root, cluster_id):
        with suppress(SextonError):  # of which there is a finding
            for histories in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id).values():
                for link in (link for history in histories for link in history.segments):
                    found |= {link.segment_path: link, link.manifest_path: link}
    return found


def _line(finding: Finding) -> str:
    return f"the archive is {finding.kind} at {finding.where}: {finding.what}"
