"""The recordings of real brokers, read and written again; what kafka-dump-log prints of them is in tests/faults."""

from pathlib import Path

import pytest

from sexton.log import codec
from sexton.log.batch import Batch, Record, read_batches, read_records
from tests.log.samples import CAP_BYTES, batches_of
from tests.log_encoding import encode_batch

GOLDEN = Path(__file__).parents[1] / "golden"
SEGMENTS = sorted(GOLDEN.glob("kafka-[0-9]*/*/__consumer_offsets-*/*.log"))


@pytest.mark.parametrize("state, record_counts", [("before", [232, 127, 222, 187]), ("swept", [307, 177, 309, 256])])
def test_the_oldest_recording_is_of_format_v0(state: str, record_counts: list[int]) -> None:
    counts = []
    for path in sorted((GOLDEN / "kafka-0.9.0.1" / state).glob("*/*.log")):
        batches = batches_of(path.read_bytes())
        assert {(batch.magic, batch.codec, batch.max_timestamp_ms) for batch in batches} == {(0, codec.NONE, -1)}
        records = [record for batch in batches for record in read_records(batch, cap_bytes=CAP_BYTES)]
        assert [record.log_offset for record in records] == list(range(len(records)))
        counts.append(len(records))
    assert counts == record_counts


def test_an_uncompressed_batch_is_written_byte_for_byte_as_a_broker_writes_it() -> None:
    seen = 0
    for path in SEGMENTS:
        for batch in read_batches(path.read_bytes()):
            assert isinstance(batch, Batch)
            if batch.magic < 2 or batch.codec != codec.NONE:
                continue
            records = list(read_records(batch, cap_bytes=CAP_BYTES))
            written = encode_batch(
                [(record.key, record.value) for record in records if isinstance(record, Record)],
                base_offset=batch.base_offset,
                timestamp_ms=batch.base_timestamp_ms,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                leader_epoch=batch.leader_epoch,
                transactional=batch.is_transactional,
                control=batch.is_control,
                timestamp_deltas=[
                    record.timestamp_ms - batch.base_timestamp_ms for record in records if isinstance(record, Record)
                ],
            )
            assert written == batch.data
            seen += 1
    assert seen > 8000
