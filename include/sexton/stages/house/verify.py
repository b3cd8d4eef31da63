"""verify: the archive's names and sizes every day, and one part of its bytes: in some days all of it is read."""

from dataclasses import dataclass, field

from sexton.log.verify import ROTTEN, Finding
from sexton.log.verify import verify as look
from sexton.stages.house.keeping import DAY_MS
from sexton.stages.source import filesystem

TOLD_FINDINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Part `subset` of the archive was read: `read` of its `segments`, and this was found.

    `rotten` findings tell that the archive is not what was put into it; the others that what was put in was not good.
    """

    subset: str
    segments: int
    read: int
    read_bytes: int
    findings: int
    rotten: int
    alerts: list[str] = field(default_factory=list)


def run(archive: str, *, subset: tuple[int, int], only: str | None = None) -> Looked:
    """Verify part n of t, of every cluster or `only` of one; an alert for each of the first findings, one for the rest.

    UsageError where the archive has no cluster `only`.
    """
    fs, root = filesystem(archive)
    found = look(fs, root, cluster_id=only, subset=subset)
    alerts = [_line(finding) for finding in found.findings[:TOLD_FINDINGS]]
    if len(found.findings) > TOLD_FINDINGS:
        alerts.append(f"the archive has {len(found.findings) - TOLD_FINDINGS} more findings: `sexton archive verify`")
    return Looked(
        subset=f"{subset[0]}/{subset[1]}",
        segments=found.segments,
        read=found.read,
        read_bytes=found.read_bytes,
        findings=len(found.findings),
        rotten=sum(finding.kind == ROTTEN for finding in found.findings),
        alerts=alerts,
    )


def part_of_day(now_ms: int, days: int) -> tuple[int, int]:
    """The part (n, days) that is read on the day of `now_ms`: `days` days in a row read everything."""
    return now_ms // DAY_MS % days + 1, days


def _line(finding: Finding) -> str:
    return f"the archive is {finding.kind} at {finding.place}: {finding.what}"
