"""Of the tombstones and markers of a log only those are kept that a judgement may ask for."""

from pathlib import Path

from sexton.replicas.evidence import Sighting, collect
from tests.log_builder import BASE_MS
from tests.log_encoding import encode_batch, encode_marker
from tests.replicas.disks import log_of, write_replica

KEY = b"\0\1\0\1g\0\1t\0\0\0\0"
PRODUCER = 7
CAP_BYTES = 1 << 20


def tombstone(at: int) -> bytes:
    return encode_batch([(KEY, None)], base_offset=at, timestamp_ms=BASE_MS + at)


def commit(at: int) -> bytes:
    return encode_marker(True, base_offset=at, timestamp_ms=BASE_MS + at, producer_id=PRODUCER, producer_epoch=0)


def test_the_last_tombstone_and_the_first_marker_after_each_value(tmp_path: Path) -> None:
    """On A all are left, on B one of each: a log may have millions, of which no more are kept than there are values."""
    stop = 100
    a = b"".join(tombstone(at) if at % 2 else commit(at) for at in range(stop + 2))
    write_replica(tmp_path / "A", {0: a})
    write_replica(tmp_path / "B", {0: commit(48) + tombstone(99)})
    logs = [log_of(tmp_path / name, name) for name in "AB"]
    found = collect(logs, groups=["g"], values={PRODUCER: {20, 47, 98}}, stop=stop, cap_bytes=CAP_BYTES)

    def seen(kind: str, at: int, *held_by: str) -> Sighting:
        return Sighting(log_offset=at, timestamp_ms=BASE_MS + at, kind=kind, held_by=held_by)

    assert found.tombstones == {("g", "t", 0): [seen("tombstone", 99, "A", "B")]}
    assert found.markers == {PRODUCER: [seen("COMMIT", 22, "A"), seen("COMMIT", 48, "A", "B")]}
    assert found.tombstone_after(("g", "t", 0), 98) == seen("tombstone", 99, "A", "B")
    assert found.tombstone_after(("g", "t", 0), 99) is None
    assert found.marker_after(PRODUCER, 20) == seen("COMMIT", 22, "A")
    assert found.marker_after(PRODUCER, 30) == seen("COMMIT", 48, "A", "B")
    assert found.marker_after(PRODUCER, 98) is None
