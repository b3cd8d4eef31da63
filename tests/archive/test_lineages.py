"""Lineages as the archive lists them: by their origin or their first segment, and never by what a file claims."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

from sexton.archive.lineages import Origin, clusters_of, lineage_folder, list_lineages, topics_of, write_origin
from sexton.archive.manifest import Lineage
from sexton.errors import UsageError
from tests.archive.test_writer import archive, batch

LOCAL = pafs.LocalFileSystem()
SECOND = Lineage(ordinal=1, start_log_offset=8)
BEFORE = {"previous": "000000-00000000000000000000", "previous_end": 4}
GAP = Origin(reason="gap", found_at_ms=7, **BEFORE, missing=(4, 8), partition_count=50)


def begin(root: str, lineage: Lineage, origin: Origin) -> None:
    write_origin(LOCAL, lineage_folder(root, "c", "t", 3, lineage.name), origin)


def listed(root: str) -> dict[int, list[Any]]:
    return list_lineages(LOCAL, root, cluster_id="c", topic_id="t")


def test_oldest_first_with_origin_and_chain(tmp_path: Path) -> None:
    root = str(tmp_path)
    archive(LOCAL, root, 0, 2, batch(0))
    archive(LOCAL, root, 2, 4, batch(2, epoch=3))
    begin(root, SECOND, GAP)
    archive(LOCAL, root, 8, 10, batch(8), lineage=SECOND, taken_at_ms=50)
    archive(LOCAL, root, 20, 22, batch(20), lineage=SECOND)
    archive(LOCAL, root, 0, 2, batch(0), log_partition=12)
    found = listed(root)
    assert list(found) == [3, 12]
    first, second = found[3]
    assert (first.origin, first.next_log_offset, len(first.segments), first.detached) == (None, 4, 2, ())
    assert (second.origin, second.next_log_offset, len(second.detached)) == (GAP, 10, 1)
    assert [manifest.leader_epochs for manifest in first.manifests(LOCAL)] == [[[0, 0]], [[3, 2]]]
    assert [segment.first_log_offset for segment in first.segments] == [0, 2]
    assert first.size_bytes == sum(Path(segment.segment_path).stat().st_size for segment in first.segments)


def test_a_lineage_begins_with_its_origin(tmp_path: Path) -> None:
    begin(str(tmp_path), SECOND, GAP)
    ((found,),) = listed(str(tmp_path)).values()
    assert (found.lineage, found.next_log_offset, found.segments) == (SECOND, 8, ())


def test_an_origin_is_never_rewritten(tmp_path: Path) -> None:
    begin(str(tmp_path), SECOND, GAP)
    begin(str(tmp_path), SECOND, Origin(reason="first", found_at_ms=9))
    ((found,),) = listed(str(tmp_path)).values()
    assert found.origin == GAP


def test_folders_that_are_no_lineage(tmp_path: Path) -> None:
    root = str(tmp_path)
    archive(LOCAL, root, 0, 2, batch(0))
    for odd in ("3/1-2", "3/000002-00000000000000000009/deeper", "x/000000-00000000000000000000", "3"):
        (tmp_path / "c" / "t" / odd).mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / "t" / odd / "origin.json").write_text("{}")
    assert [len(found) for found in listed(root).values()] == [1]


def test_a_clusters_own_folders_are_no_topics(tmp_path: Path) -> None:
    archive(LOCAL, str(tmp_path), 0, 2, batch(0))
    for name in ("cluster_metadata", "cuts", "checkpoints"):
        (tmp_path / "c" / name).mkdir()
    assert topics_of(LOCAL, str(tmp_path), "c") == ["t"]
    assert clusters_of(LOCAL, str(tmp_path)) == clusters_of(LOCAL, str(tmp_path), "c") == ["c"]
    with pytest.raises(UsageError, match=r"no cluster d .*there is c"):
        clusters_of(LOCAL, str(tmp_path), "d")


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda told: "{", "not JSON"),
        (lambda told: {}, "without found_at_ms, reason"),
        (lambda told: {**told, "reason": 5}, "reason is 5"),
        (lambda told: {**told, "found_at_ms": "now"}, "found_at_ms is 'now'"),
        (lambda told: {**told, "previous_end": 1.5}, "previous_end is 1.5"),
        (lambda told: {**told, "missing": [1]}, r"missing\.1 is \[1\]"),
        (lambda told: {**told, "missing": {"a": 1}}, "missing is"),
    ],
    ids=["cut", "empty", "reason", "text", "float", "short", "object"],
)
def test_origins_are_not_trusted(tmp_path: Path, change: Any, said: str) -> None:
    begin(str(tmp_path), SECOND, GAP)
    (file,) = tmp_path.rglob("origin.json")
    changed = change(json.loads(file.read_text()))
    file.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    with pytest.raises(UsageError, match=said) as failure:
        listed(str(tmp_path))
    assert failure.value.where == str(file)


def test_an_origin_of_a_later_release_may_say_more(tmp_path: Path) -> None:
    begin(str(tmp_path), SECOND, GAP)
    (file,) = tmp_path.rglob("origin.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "more": 1}))
    ((found,),) = listed(str(tmp_path)).values()
    assert found.origin == GAP
