"""Generated logs are what they say: batches that readers take, in segments as a broker rolls and indexes them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sexton.coordinator.partitioner import partition_of
from sexton.log.batch import Batch, read_batches, read_records
from sexton.log.codec import CODECS
from tests.bench import generate as module
from tests.bench.generate import Shape, generate, groups_of, write

pytestmark = pytest.mark.thorough

SMALL = Shape(records=3000, keys=400, log_partitions=3, transactional_share=0.3, tombstone_share=0.1, metadata_bytes=5)


def batches_of(data: np.ndarray) -> list[Batch]:
    found = list(read_batches(data.tobytes()))
    assert all(isinstance(batch, Batch) and batch.crc_ok for batch in found)
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_batches_hold_what_the_shape_says(codec: str) -> None:
    logs = generate(replace(SMALL, codec=codec))
    records = markers = transactional = tombstones = 0
    for data in logs.values():
        found = batches_of(data)
        assert [batch.base_offset for batch in found] == [0, *(batch.last_offset + 1 for batch in found[:-1])]
        for batch in found:
            markers += batch.is_control
            transactional += batch.is_transactional and not batch.is_control
            assert batch.is_control or CODECS[batch.codec] == codec
            assert batch.record_count <= 5
            if not batch.is_control:
                read = list(read_records(batch, cap_bytes=1 << 20))
                records += len(read)
                tombstones += sum(record.value is None for record in read)
    assert records == SMALL.records
    assert markers == transactional
    assert 0.25 < transactional / (SMALL.records / 3) < 0.35
    assert 0.07 < tombstones / SMALL.records < 0.13


def test_the_same_seed_gives_the_same_bytes_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate(SMALL)
    monkeypatch.setattr(module, "BLOCK_BYTES", 20_000)
    cut = generate(SMALL)
    other = generate(replace(SMALL, seed=2))
    for log_partition, data in whole.items():
        assert cut[log_partition].tobytes() == data.tobytes()
        assert other[log_partition].tobytes() != data.tobytes()


def test_a_hot_log_partition() -> None:
    logs = generate(Shape(records=30_000, keys=4000, log_partitions=4, hot_share=0.9))
    sizes = [len(logs[number]) for number in range(4)]
    assert 0.89 < sizes[0] / sum(sizes) < 0.91


def test_a_log_partition_with_most_keys() -> None:
    shape = Shape(records=30_000, keys=4000, log_partitions=4, hot_keys_share=0.9)
    groups = groups_of(shape)
    assert len(groups.homes) == 200
    assert (groups.homes == 0).sum() == 180
    names = [bytes(piece) for piece in np.split(groups.names, groups.starts[1:-1])]
    assert len(set(names)) == 200
    for name, home in zip(names, groups.homes, strict=True):
        group = name[4 : 4 + int.from_bytes(name[2:4], "big")].decode()
        assert partition_of(group, 4) == home
    logs = generate(shape)
    sizes = [len(logs[number]) for number in range(4)]
    assert 0.89 < sizes[0] / sum(sizes) < 0.91


def test_one_log_partition_has_all_keys() -> None:
    assert len(groups_of(Shape(keys=400, hot_keys_share=0.5)).homes) == 20


def test_segments_roll_and_go_on(tmp_path: Path) -> None:
    shape = replace(SMALL, segment_bytes=30_000)
    written = write(shape, tmp_path)
    total = records = files = 0
    for log_partition, data in generate(shape).items():
        segments = sorted((tmp_path / f"__consumer_offsets-{log_partition}").glob("*.log"))
        assert b"".join(path.read_bytes() for path in segments) == data.tobytes()
        for path, after in zip(segments, [*segments[1:], None], strict=True):
            found = batches_of(np.fromfile(path, np.uint8))
            size = path.stat().st_size
            assert int(path.stem) == found[0].base_offset
            assert size <= shape.segment_bytes
            if after is not None:
                assert size + batches_of(np.fromfile(after, np.uint8))[0].size_bytes > shape.segment_bytes
            total, files = total + size, files + 1
            records += found[-1].last_offset + 1 - found[0].base_offset
    assert (written.size_bytes, written.files, written.records) == (total, files, records)
