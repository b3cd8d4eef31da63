"""Repairs segments that do not match their manifests, a result of concurrent snapshots (archive.create).

Nothing is deleted: files are moved to the folder `aside` of their lineage. Manifests that do not match their segment
are always moved. If none is left, the segment gets a new manifest, for its batches up to the start of the next segment,
provided that the file consists of intact batches and its size differs from the manifest's (two writers). Other segments
are moved, too: the next snapshot fetches the range again, as far as the log still has it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.files import read_file
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    clusters_of,
    every_lineage,
    read_segment_manifest,
)
from sexton.archive.manifest import Manifest, describe
from sexton.archive.writer import put_aside, write_manifest
from sexton.errors import SextonError
from sexton.log.batch import Batch, read_batches


def repair(fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None) -> list[str]:
    """Repair every lineage of the archive, or of one cluster; returns a line for each change."""
    lineages = (one for cluster in clusters_of(fs, root, cluster_id) for one in every_lineage(fs, root, cluster))
    return [line for lineage in lineages for line in _repair(fs, root, lineage)]


def _repair(fs: pafs.FileSystem, root: str, lineage: ArchivedLineage) -> Iterator[str]:
    segments = [*lineage.segments, *lineage.detached, *lineage.twins]
    starts = sorted({segment.first_log_offset for segment in segments})
    for number, start in enumerate(starts):
        same = [segment for segment in segments if segment.first_log_offset == start]
        info = fs.get_file_info(same[0].segment_path)
        if info.type == pafs.FileType.File:  # a missing file can only be restored from elsewhere
            limit = starts[number + 1] if number + 1 < len(starts) else None
            yield from _repair_segment(fs, root, same, limit)


def _repair_segment(
    fs: pafs.FileSystem, root: str, segments: Sequence[ArchivedSegment], limit: int | None
) -> Iterator[str]:
    path = segments[0].segment_path
    data = read_file(fs, path)
    digest = hashlib.sha256(data).hexdigest()
    manifests = {segment: _manifest(fs, segment) for segment in segments}
    right = [
        one for one, found in manifests.items() if found and (found.size_bytes, found.sha256) == (len(data), digest)
    ]
    wrong = [segment for segment in segments if segment not in right]
    if not wrong:
        return
    for segment in wrong:
        put_aside(fs, segment.manifest_path, read_file(fs, segment.manifest_path))
        yield f"{segment.manifest_path}: it describes other bytes and was moved aside"
    if right:
        return
    before = next((one for one in manifests.values() if one), None)
    is_other_size = len(data) not in {segment.size_bytes for segment in segments}
    kept = _described(data, before, limit) if before and is_other_size else None
    if kept is None:
        put_aside(fs, path, data)
        yield f"{path}: moved aside; the next snapshot fetches it again, as far as the log has it"
        return
    manifest, good = kept
    if good != data:
        put_aside(fs, path, data)
        create_whole(fs, path, good)
    write_manifest(fs, root, manifest)
    yield f"{path}: whole batches up to {manifest.next_log_offset}, which has a manifest of its own now"


def _described(data: bytes, before: Manifest, limit: int | None) -> tuple[Manifest, bytes] | None:
    """A manifest for the batches in `data` below log_offset `limit`, and their bytes; None when not all are batches."""
    batches = [one for one in read_batches(data) if isinstance(one, Batch) and one.crc_ok]
    if not batches or sum(len(one.data) for one in batches) != len(data):
        return None
    below = [one for one in batches if limit is None or one.base_offset < limit]
    if not below or below[0].base_offset < before.first_log_offset:
        return None
    is_cut = len(below) < len(batches)
    end = limit if is_cut and limit is not None else below[-1].last_offset + 1
    if limit is not None and end > limit:
        return None
    good = b"".join(bytes(one.data) for one in below)
    return describe(replace(before, next_log_offset=end), good), good


def _manifest(fs: pafs.FileSystem, segment: ArchivedSegment) -> Manifest | None:
    try:
        return read_segment_manifest(fs, segment)
    except SextonError:
        return None
