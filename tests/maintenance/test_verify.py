"""A part of the archive each time; what is wrong with it is told, and stops what would remove anything, until it is
mended."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sexton.archive.verify import Finding, Verified
from sexton.errors import UsageError
from sexton.maintenance import verify
from sexton.maintenance.verify import VerifiedArchive
from sexton.runs.processes import SerialEngine
from tests.archived import CLUSTER, Archive
from tests.faults.spoiled_folds import seal
from tests.pipeline.archive_runs import instant, publish, run, three_minutes

PARTS = 3


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


def verified(archive: Archive, *, parts: int = PARTS, **options: Any) -> VerifiedArchive:
    return verify.run(archive.root, parts=parts, **options)


def note(archive: Archive, cluster_id: str = CLUSTER) -> Path:
    return archive.folder / cluster_id / "maintenance" / "verify.json"


def spoiled(archive: Archive) -> tuple[Path, bytes]:
    """A segment that is as long as it was and not what it was, and what it was."""
    segment = min(archive.folder.rglob("*.log"))
    before = segment.read_bytes()
    segment.write_bytes(before[:-1] + b"?")
    return segment, before


def manifest_of(segment: Path) -> Path:
    (manifest,) = segment.parent.glob(f"{segment.stem}-*.json")
    return manifest


def runs_until_found(archive: Archive) -> VerifiedArchive:
    """The run in whose turn the corrupt part is."""
    return next(found for found in (verified(archive) for _ in range(PARTS)) if found.corrupt)


def test_in_so_many_runs_everything_is_read(archive: Archive) -> None:
    found = [verified(archive) for _ in range(PARTS + 1)]
    assert [one.subsets for one in found] == [{CLUSTER: part} for part in ("1/3", "2/3", "3/3", "1/3")]
    assert sum(one.read for one in found[:PARTS]) == found[0].segments == 5
    assert all(one.alerts == [] for one in found)


def test_of_another_number_of_parts_the_first_is_next(archive: Archive) -> None:
    found = [verified(archive, parts=parts).subsets[CLUSTER] for parts in (3, 3, 2, 2, 3)]
    assert found == ["1/3", "2/3", "1/2", "2/2", "1/3"]


def test_a_part_by_hand_is_not_in_turn(archive: Archive) -> None:
    assert verified(archive, subset=(1, 1)).read == 5
    assert not note(archive).exists()
    found = [verified(archive, subset=subset).subsets[CLUSTER] for subset in (None, (3, 3), None)]
    assert found == ["1/3", "3/3", "2/3"]


def test_a_part_in_which_it_died_is_read_again(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    verified(archive)

    def die(*_: object, **__: object) -> None:
        raise OSError("the store is away")

    for name in ("verify_archive", "write_state"):
        with monkeypatch.context() as patch:
            patch.setattr(verify, name, die)
            with pytest.raises(OSError, match="away"):
                verified(archive)
    assert verified(archive).subsets == {CLUSTER: "2/3"}


def test_what_is_no_cluster_gets_no_note(archive: Archive) -> None:
    other = archive.folder / "lost+found"
    other.mkdir()
    assert verified(archive).segments == 5
    assert list(other.iterdir()) == []


def test_what_is_rotten_is_found_in_its_part_and_told_until_it_is_mended(archive: Archive) -> None:
    segment, before = spoiled(archive)
    first = runs_until_found(archive)
    later = [verified(archive) for _ in range(PARTS)]
    assert len({found.subsets[CLUSTER] for found in later}) == PARTS
    for found in (first, *later, verified(archive, subset=(1, 1))):
        assert found.corrupt == 1
        (alert,) = found.alerts
        assert str(segment) in alert
        assert "SHA-256" in alert
    segment.write_bytes(before)
    assert [verified(archive).corrupt for _ in range(PARTS)] == [0] * PARTS
    assert json.loads(note(archive).read_text())["corrupt"] == []


def test_what_is_found_by_hand_is_told_in_every_later_run(archive: Archive) -> None:
    manifest = manifest_of(spoiled(archive)[0])
    before = manifest.read_text()
    manifest.write_text("{")
    assert verified(archive, subset=(1, 1)).corrupt == 1
    later = [verified(archive) for _ in range(PARTS)]
    assert [(found.corrupt, manifest.name in found.alerts[0]) for found in later] == [(1, True)] * PARTS
    manifest.write_text(before)
    assert "SHA-256" in verified(archive).alerts[0], "only one of its two files was mended"


def test_what_is_rotten_and_then_away_is_not_mended(archive: Archive) -> None:
    segment, before = spoiled(archive)
    manifest = manifest_of(segment)
    corrupt, told = segment.read_bytes(), manifest.read_text()
    verified(archive, subset=(1, 1))
    segment.unlink()
    assert [alert.endswith("its segment is missing") for alert in verified(archive).alerts] == [True]
    manifest.unlink()
    for _ in range(2):
        assert any(str(segment) in alert and "no lineage includes it" in alert for alert in verified(archive).alerts)
    segment.write_bytes(corrupt)
    manifest.write_text(told)
    assert [verified(archive).corrupt for _ in range(PARTS)] == [1] * PARTS
    segment.write_bytes(before)
    assert verified(archive).corrupt == 0


def test_a_note_that_is_none_is_said(archive: Archive) -> None:
    verified(archive)
    note(archive).write_text('{"part": "x"}')
    with pytest.raises(UsageError, match=r"verify\.json: no state of the task verify"):
        verified(archive)


def test_only_one_of_several_clusters(archive: Archive) -> None:
    other = three_minutes(archive.folder, cluster_id="other")
    next((other.folder / "other").rglob("*.log")).write_bytes(b"?")
    found = {only: verified(archive, subset=(1, 1), only=only) for only in (None, "other", CLUSTER)}
    assert [(one.segments, one.corrupt) for one in found.values()] == [(10, 1), (5, 1), (5, 0)]
    with pytest.raises(UsageError, match="no cluster third"):
        verified(archive, only="third")


def test_each_cluster_has_its_turn(archive: Archive) -> None:
    verified(archive)
    three_minutes(archive.folder, cluster_id="other")
    assert verified(archive).subsets == {CLUSTER: "2/3", "other": "1/3"}
    assert verified(archive, only="other").subsets == {"other": "2/3"}
    assert verified(archive).subsets == {CLUSTER: "3/3", "other": "3/3"}


@pytest.mark.parametrize(
    "count, alerts", [(verify.FINDINGS_IN_ALERTS, verify.FINDINGS_IN_ALERTS), (50, verify.FINDINGS_IN_ALERTS + 1)]
)
def test_many_findings_are_few_alerts(
    monkeypatch: pytest.MonkeyPatch, archive: Archive, count: int, alerts: int
) -> None:
    findings = [Finding(kind="damaged", where=str(number), what="bad") for number in range(count)]
    told = Verified(segments=1, read=1, read_bytes=1, detached=0, findings=findings)
    monkeypatch.setattr(verify, "verify_archive", lambda *_, **__: told)
    found = verified(archive)
    assert (len(found.alerts), found.findings, found.corrupt) == (alerts, count, 0)


def test_a_spoiled_checkpoint_is_told_until_it_is_gone(archive: Archive, tmp_path: Path) -> None:
    with SerialEngine(quiet=True) as engine:
        place = publish(tmp_path / "r1", run(engine, tmp_path / "r1", archive, instant(1)), archive)
    assert all(verified(archive).corrupt == 0 for _ in range(PARTS))
    (place / "1" / "keys.parquet").write_bytes(b"PAR1")
    seal(place)
    found = runs_until_found(archive)
    assert found.alerts[0].startswith(f"the archive is corrupt at {place}: 1/keys.parquet: ")
    assert [verified(archive).corrupt for _ in range(PARTS)] == [1] * PARTS
    shutil.rmtree(place)
    assert [verified(archive).corrupt for _ in range(PARTS)] == [0] * PARTS
