"""What the lag of a million offsets over 20,000 partitions takes, from an archive.

That it is the lag which the plain rules tell is shown by test_lag_columns, of worlds where everything happens.
"""

import hashlib
import resource
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sexton.archive.files import record_json
from sexton.archive.time_points import SCHEMA, OffsetLookup, lookup_manifest
from sexton.lag.measure_lag import COMMITTED, Instant, committed_with_pending, measure
from sexton.tables import COMMITTED_OFFSETS, PENDING_OFFSETS
from tests.archived import CLUSTER, Archive

AS_OF_MS, HOUR_MS = 1_790_000_000_000, 3_600_000
HOURS, END = 24, 1_000_000
PARTITIONS_A_TOPIC, GROUPS, ANSWERS = 100, 50, 120
SLACK_MS = 60_000
LIMIT_CPU_S, LIMIT_BYTES = 60, 3 << 30
SETTINGS = {"retention.ms": str(48 * HOUR_MS), "cleanup.policy": "delete"}


class Size:
    """An archive with a snapshot an hour and one lookup; every log took a day to reach END."""

    def __init__(self, folder: Path, topics: int) -> None:
        self.rng = np.random.default_rng(3)
        self.names = [f"topic-{number:03}" for number in range(topics)]
        self.count = topics * PARTITIONS_A_TOPIC
        self.topics = {
            name: {**SETTINGS, "message.timestamp.type": ("LogAppendTime", "CreateTime")[number % 2]}
            for number, name in enumerate(self.names)
        }
        self.archive = Archive(folder)
        for hour in range(HOURS):
            ends = [[0, END * (hour + 1) // HOURS]] * PARTITIONS_A_TOPIC
            self.archive.topics = [{"topic": name, "id": f"id-{name}", "partitions": ends} for name in self.names]
            self.archive.snapshot(AS_OF_MS - (HOURS - 1 - hour) * HOUR_MS)
        self.answered = np.sort(self.rng.integers(0, END, (self.count, ANSWERS)), axis=1)
        self._write_lookup()

    def instant(self) -> Instant:
        """Some groups at the end, some anywhere, most where it was asked."""
        number = np.tile(np.arange(self.count), GROUPS)
        group = np.repeat(np.arange(GROUPS), self.count)
        at = self.answered[number, self.rng.integers(0, ANSWERS, len(number))]
        at = np.where(group < 20, END, np.where(group < 25, self.rng.integers(0, END, len(number)), at))
        committed = pa.table(
            {
                "group_id": pa.array([f"group-{each:02}" for each in range(GROUPS)]).take(pa.array(group)),
                **self._places(number), "committed_offset": pa.array(at),
                "topic_id": pa.nulls(len(number), pa.string()), "leader_epoch": pa.nulls(len(number), pa.int32()),
            }
        )  # fmt: skip
        held = COMMITTED_OFFSETS.arrow_schema()
        partitions = np.arange(self.count)
        return Instant(
            archive=self.archive.root,
            cluster_id=CLUSTER,
            as_of_ms=AS_OF_MS,
            committed=committed_with_pending(
                committed.cast(pa.schema([held.field(name) for name in COMMITTED])),
                PENDING_OFFSETS.arrow_schema().empty_table(),
            ),
            partitions=pa.table(
                {
                    **self._places(partitions),
                    "topic_id": pa.array([f"id-{name}" for name in self.names]).take(self._topic(partitions)),
                    "log_start_offset": pa.array(np.zeros(self.count, np.int64)),
                    "log_end_offset": pa.array(np.full(self.count, END)),
                }
            ),
            sees_all_topics=True,
            slack_ms=SLACK_MS,
        )

    def _topic(self, number: np.ndarray) -> pa.Array:
        return pa.array(number // PARTITIONS_A_TOPIC)

    def _places(self, number: np.ndarray) -> dict[str, pa.Array]:
        return {
            "topic": pa.array(self.names).take(self._topic(number)),
            "partition": pa.array((number % PARTITIONS_A_TOPIC).astype(np.int32)),
        }

    def _write_lookup(self) -> None:
        number, offset = np.repeat(np.arange(self.count), ANSWERS), self.answered.ravel()
        at_ms = AS_OF_MS - HOURS * HOUR_MS + offset * (HOURS * HOUR_MS) // END
        asked_ms = at_ms - self.rng.integers(0, 3, len(at_ms))
        every, end = np.arange(self.count), np.full(self.count, END)
        points = pa.concat_tables(
            [
                self._points(number, offset, at_ms, "list_offsets", pa.array(asked_ms), 0),
                self._points(every, end, end * 0 + AS_OF_MS + 5, "log_end", None, None),
                self._points(every, end * 0, end * 0 + AS_OF_MS, "log_start", None, None),
            ]
        )
        sink = pa.BufferOutputStream()
        pq.write_table(points, sink)
        data = sink.getvalue().to_pybytes()
        look_up = OffsetLookup(
            cluster_id=CLUSTER, as_of_ms=AS_OF_MS, asked_at_ms=AS_OF_MS + 5, points=points.num_rows, rounds=9,
            sha256=hashlib.sha256(data).hexdigest(), topics=self.topics,
        )  # fmt: skip
        manifest = Path(lookup_manifest(self.archive.root, CLUSTER, look_up.asked_at_ms))
        manifest.parent.mkdir()
        manifest.with_suffix(".parquet").write_bytes(data)
        manifest.write_bytes(record_json(look_up))

    def _points(
        self,
        number: np.ndarray,
        offset: np.ndarray,
        at_ms: np.ndarray,
        source: str,
        asked_ms: pa.Array | None,
        start: int | None,
    ) -> pa.Table:
        count = len(number)
        columns = {
            **self._places(number),
            "topic_id": pa.array([f"id-{name}" for name in self.names]).take(self._topic(number)),
            "offset": pa.array(offset),
            "timestamp_ms": pa.array(at_ms),
            "source": pa.repeat(source, count),
            "asked_ms": pa.nulls(count, pa.int64()) if asked_ms is None else asked_ms,
            "log_start_offset": pa.repeat(pa.scalar(start, pa.int64()), count),
            "leader_epoch": pa.nulls(count, pa.int32()),
        }
        return pa.table([columns[name] for name in SCHEMA.names], SCHEMA)


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_many_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = Size(tmp_path, topics=200)
    instant = size.instant()
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    lags = measure(instant)
    took_s, took_cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    assert lags.num_rows == size.count * GROUPS
    assert lags["lag_min_ms"].null_count < lags.num_rows / 100
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
    with capsys.disabled():
        print(
            f"\n{lags.num_rows} offsets of {size.count} partitions: {took_s:.1f} s, {took_cpu_s:.1f} s of processor "
            f"time, {peak_bytes / 1e6:.0f} MB at most in the process"
        )
    assert took_cpu_s < LIMIT_CPU_S
    assert peak_bytes < LIMIT_BYTES
