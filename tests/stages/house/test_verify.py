"""A part of the archive each day; what is wrong with it is told, and stops what would remove anything."""

from pathlib import Path

import pytest

from sexton.errors import UsageError
from sexton.log.verify import Finding, Verified
from sexton.stages.house import verify
from sexton.stages.house.keeping import DAY_MS
from tests.stages.archive_runs import three_minutes


def test_in_so_many_days_everything_is_read(tmp_path: Path) -> None:
    archive = three_minutes(tmp_path / "archive")
    parts = [verify.part_of_day(20_000 * DAY_MS + day * DAY_MS + 5, 3) for day in range(3)]
    assert sorted(parts) == [(1, 3), (2, 3), (3, 3)]
    found = [verify.run(archive.root, subset=part) for part in parts]
    assert sum(one.read for one in found) == found[0].segments == 5
    assert all(one.alerts == [] for one in found)


def test_what_is_rotten_is_found_on_its_day(tmp_path: Path) -> None:
    archive = three_minutes(tmp_path / "archive")
    segment = next(Path(archive.root).rglob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    found = [verify.run(archive.root, subset=(number, 3)) for number in (1, 2, 3)]
    assert sorted(one.rotten for one in found) == [0, 0, 1]
    (alert,) = [alert for one in found for alert in one.alerts]
    assert segment.name in alert
    assert "SHA-256" in alert


def test_only_one_of_several_clusters(tmp_path: Path) -> None:
    archive = three_minutes(tmp_path / "archive")
    other = three_minutes(tmp_path / "archive", cluster_id="other")
    next((other.folder / "other").rglob("*.log")).write_bytes(b"?")
    found = {only: verify.run(archive.root, subset=(1, 1), only=only) for only in (None, "other", archive.cluster_id)}
    assert [(one.segments, one.rotten) for one in found.values()] == [(10, 1), (5, 1), (5, 0)]
    with pytest.raises(UsageError, match="no cluster third"):
        verify.run(archive.root, subset=(1, 1), only="third")


@pytest.mark.parametrize(
    "count, alerts", [(verify.TOLD_FINDINGS, verify.TOLD_FINDINGS), (50, verify.TOLD_FINDINGS + 1)]
)
def test_many_findings_are_few_alerts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, count: int, alerts: int) -> None:
    findings = [Finding(kind="damaged", place=str(number), what="bad") for number in range(count)]
    told = Verified(segments=1, read=1, read_bytes=1, unlinked=0, findings=findings)
    monkeypatch.setattr(verify, "look", lambda *_, **__: told)
    found = verify.run(str(tmp_path), subset=(1, 1))
    assert (len(found.alerts), found.findings, found.rotten) == (alerts, count, 0)
