"""Mends segments that their manifests do not describe, as two snapshots at a time could leave them in early releases.

Nothing is lost: what goes is moved to the folder `aside` of its lineage. Where another manifest describes the segment,
the wrong one goes. Where the bytes are whole batches and of another size than the manifest says, which is what two
writers leave, they get a manifest of their own, up to where the next segment begins. Bytes of the right size that are
not those that were put in, and all that is no batch, go aside, too: the next snapshot fetches the range anew, as far as
the log still has it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    clusters_of,
    list_lineages,
    read_segment_manifest,
    topics_of,
)
from sexton.archive.manifest import Manifest, ManifestBuilder
from sexton.archive.writer import put_aside, write_manifest
from sexton.errors import SextonError
from sexton.log.batch import Batch, read_batches


def repair(fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None) -> list[str]:
    """Mend every lineage of the archive, or of one cluster; a line for each thing that was done."""
    done = []
    for cluster in clusters_of(fs, root, cluster_id):
        for topic in topics_of(fs, root, cluster):
            for histories in list_lineages(fs, root, cluster_id=cluster, topic_id=topic).values():
                for history in histories:
                    done += list(_mend(fs, root, history))
    return done


def _mend(fs: pafs.FileSystem, root: str, history: ArchivedLineage) -> Iterator[str]:
    links = [*history.segments, *history.detached, *history.twins]
    starts = sorted({link.first_log_offset for link in links})
    for number, start in enumerate(starts):
        of_it = [link for link in links if link.first_log_offset == start]
        info = fs.get_file_info(of_it[0].segment_path)
        if info.type == pafs.FileType.File:  # what is gone can only be put back from elsewhere
            limit = starts[number + 1] if number + 1 < len(starts) else None
            yield from _mend_segment(fs, root, of_it, limit)


def _mend_segment(fs: pafs.FileSystem, root: str, links: Sequence[ArchivedSegment], limit: int | None) -> Iterator[str]:
    path = links[0].segment_path
    data = _read(fs, path)
    digest = hashlib.sha256(data).hexdigest()
    told = {link: _manifest(fs, link) for link in links}
    right = [link for link, one in told.items() if one and (one.size_bytes, one.sha256) == (len(data), digest)]
    wrong = [link for link in links if link not in right]
    if not wrong:
        return
    for link in wrong:
        put_aside(fs, link.manifest_path, _read(fs, link.manifest_path))
        yield f"{link.manifest_path}: it describes other bytes and was moved aside"
    if right:
        return
    before = next((one for one in told.values() if one), None)
    kept = _described(data, before, limit) if before and len(data) not in {link.size_bytes for link in links} else None
    if kept is None or before is None:
        put_aside(fs, path, data)
        yield f"{path}: moved aside; the next snapshot fetches it anew, as far as the log has it"
        return
    manifest, own = kept
    if own != data:
        put_aside(fs, path, data)
        create_whole(fs, path, own)
    write_manifest(fs, root, manifest)
    yield f"{path}: whole batches up to {manifest.next_log_offset}, which has a manifest of its own now"


def _described(data: bytes, before: Manifest, limit: int | None) -> tuple[Manifest, bytes] | None:
    """A manifest for the batches in `data` below log_offset `limit`, and their bytes; None when they are none."""
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
    own = b"".join(bytes(one.data) for one in below)
    contents = ManifestBuilder()
    contents.add(own)
    stamps = contents.timestamps_ms
    manifest = replace(
        before,
        next_log_offset=end,
        batch_count=contents.batch_count,
        first_timestamp_ms=stamps[0] if stamps else None,
        last_timestamp_ms=stamps[1] if stamps else None,
        leader_epochs=contents.leader_epochs,
        size_bytes=contents.size_bytes,
        sha256=contents.digest.hexdigest(),
    )
    return manifest, own


def _manifest(fs: pafs.FileSystem, link: ArchivedSegment) -> Manifest | None:
    try:
        return read_segment_manifest(fs, link)
    except SextonError:
        return None


def _read(fs: pafs.FileSystem, path: str) -> bytes:
    with fs.open_input_stream(path) as file:
        data: bytes = file.read()
    return data
