"""Framing of raw answers, and a broker that is not there; one that stalls is in tests/faults/test_stalls.py."""

import socket
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.errors import BrokerError
from sexton.kafka.client import client_config
from sexton.kafka.fetch import Frames, frame
from sexton.kafka.session import ClusterSession


def batch(base_offset: int, last_delta: int = 0, *, body: int = 61, magic: int = 2, epoch: int = 4) -> bytes:
    """The frame of a batch; what is inside does not matter here."""
    head = struct.pack(">qiib", base_offset, body - 12, epoch, magic)
    return (head + bytes(6) + struct.pack(">i", last_delta)).ljust(body, b"x")


LOG = [batch(10, 4, epoch=3), batch(15), batch(20, 9, body=200, epoch=6)]
DATA = b"".join(LOG)


FRAMES = {
    "all": (DATA, 10, 30, (0, len(DATA), 10, 30, False, 6)),
    "range-end": (DATA, 10, 20, (0, 122, 10, 16, True, 4)),
    "mid-batch": (DATA, 12, 30, (61, len(DATA), 15, 30, False, 6)),
    "between": (DATA, 16, 18, (122, 122, 0, 16, True, -1)),
    "cut": (DATA[:-1], 10, 30, (0, 122, 10, 16, False, 4)),
    "cut-in-header": (DATA[:62], 10, 30, (0, 61, 10, 15, False, 3)),
    "cut-first": (DATA[:60], 10, 30, (0, 0, 0, None, False, -1)),
    "empty": (b"", 10, 30, (0, 0, 0, None, False, -1)),
    "earlier-only": (LOG[0], 12, 30, (61, 61, 0, 15, False, -1)),
    "legacy": (batch(3, magic=1) + batch(4, magic=0), 3, 9, (0, 122, 3, 5, False, -1)),
    "nonsense": (struct.pack(">qi", 3, -7) + bytes(60), 3, 9, (0, 0, 0, None, False, -1)),
}


@pytest.mark.parametrize("data, start, end, framed", FRAMES.values(), ids=FRAMES)
def test_frames(data: bytes, start: int, end: int, framed: tuple[int, int, int, int | None, bool, int]) -> None:
    first, stop, base, following, last, epoch = framed
    assert frame(data, start=start, end=end) == Frames(
        start_byte=first, end_byte=stop, base_offset=base, next_offset=following, is_last=last, leader_epoch=epoch
    )


@given(
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 150), max_size=4),
)
@settings(max_examples=100)
def test_neighbouring_ranges_hold_every_batch_once(sizes: list[tuple[int, int]], cuts: list[int]) -> None:
    offset, log = 0, []
    for delta, hole in sizes:
        log.append(batch(offset, delta, body=61 + delta))
        offset += delta + 1 + hole
    data = b"".join(log)
    borders = [0, *sorted(cuts), max([offset, *cuts])]
    parts = [frame(data, start=a, end=b) for a, b in pairwise(borders)]
    assert b"".join(data[part.start_byte : part.end_byte] for part in parts) == data


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    config = client_config({}, bootstrap_servers=f"127.0.0.1:{port}")
    with pytest.raises(BrokerError, match=f"127.0.0.1:{port}: no broker answers: Connection refused"):
        ClusterSession(config, connect_timeout_ms=300)
