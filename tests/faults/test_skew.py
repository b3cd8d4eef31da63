"""One hot log partition with nine tenths of all bytes: it is cut into chunks, so that all cores share its work.

What is planned is looked at, not how long it takes: how even the chunks are, and what the busiest core would read if
each takes the largest chunk that is left, as Spark hands them out (pipeline/replay_groups).
"""

import heapq
from itertools import pairwise
from random import Random

import pytest

from sexton.log.segment import FoldTask, Segment, plan_fold_tasks
from sexton.settings import Settings
from tests.seeds import FIXED_SEED

SEGMENT_BYTES = 104_857_600  # offsets.topic.segment.bytes
TARGET_BYTES = Settings.model_fields["fold_task_bytes"].default
LOG_PARTITIONS = 50
GIB = 1 << 30


def segments_of(log_partition: int, sizes: list[int]) -> list[Segment]:
    return [
        Segment(log_partition=log_partition, path=str(number), size_bytes=size, base_offset=number)
        for number, size in enumerate(sizes)
    ]


def segmented(size_bytes: int, random: Random) -> list[int]:
    """Segments as compaction leaves them: some whole, most shrunk to any size."""
    sizes: list[int] = []
    while sum(sizes) < size_bytes:
        sizes.append(random.choice([SEGMENT_BYTES, random.randrange(1, SEGMENT_BYTES), random.randrange(1, 99_999)]))
    return sizes


def skewed(hot_share: float, total_bytes: int, shape: str) -> list[list[Segment]]:
    random = Random(FIXED_SEED)
    hot_bytes = round(total_bytes * hot_share)
    hot = {
        "one file": [hot_bytes],
        "whole segments": [SEGMENT_BYTES] * (hot_bytes // SEGMENT_BYTES),
        "compacted": segmented(hot_bytes, random),
    }[shape]
    rest = (total_bytes - hot_bytes) // (LOG_PARTITIONS - 1)
    return [segments_of(0, hot), *(segments_of(number, [rest]) for number in range(1, LOG_PARTITIONS))]


def bytes_of(task: FoldTask) -> int:
    return sum(span.end_byte - span.start_byte for span in task.slices)


def longest_run(tasks: list[FoldTask], cores: int) -> int:
    """Bytes of the busiest core when each takes the largest chunk that is left."""
    busy = [0] * cores
    for size in sorted(map(bytes_of, tasks), reverse=True):
        heapq.heapreplace(busy, busy[0] + size)
    return max(busy)


@pytest.mark.parametrize("cores", [2, 8, 32])
@pytest.mark.parametrize("shape", ["one file", "whole segments", "compacted"])
def test_every_core_has_its_share_of_a_hot_log_partition(shape: str, cores: int) -> None:
    partitions = skewed(0.9, 40 * GIB, shape)
    tasks = [task for segments in partitions for task in plan_fold_tasks(segments, target_bytes=TARGET_BYTES)]
    total = sum(map(bytes_of, tasks))
    assert total == sum(segment.size_bytes for segments in partitions for segment in segments)
    assert max(map(bytes_of, tasks)) <= TARGET_BYTES
    hot = [bytes_of(task) for task in plan_fold_tasks(partitions[0], target_bytes=TARGET_BYTES)]
    assert all(low + high > TARGET_BYTES // 2 for low, high in pairwise(hot)), "crumbs"
    assert longest_run(tasks, cores) <= total / cores + TARGET_BYTES  # no more than a chunk above an even share
    balanced = skewed(1 / LOG_PARTITIONS, 40 * GIB, shape)
    even = [task for segments in balanced for task in plan_fold_tasks(segments, target_bytes=TARGET_BYTES)]
    share = longest_run(tasks, cores) / total, longest_run(even, cores) / sum(map(bytes_of, even))
    assert share[0] <= 1.1 * share[1]
