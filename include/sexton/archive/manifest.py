"""What a manifest says of an archived segment, and how it is gathered while the batches pass."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sexton.log.crc import as_u8
from sexton.log.headers import headers_of

_NO_TIMESTAMP_MS = -1
_TEXT_FIELDS = ("cluster_id", "topic_id", "lineage", "sha256")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Lineage:
    """One unbroken history of a log partition: which one, counted from 0, and where it starts."""

    ordinal: int
    start_log_offset: int

    @property
    def name(self) -> str:
        return f"{self.ordinal:06d}-{self.start_log_offset:020d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a segment holds: all batches with a base offset in [first_log_offset, next_log_offset).

    Timestamps are batches' max_timestamp_ms, None when no batch has one. `leader_epochs` are [epoch, base offset of its
    first batch here], in log order. `size_bytes` and `sha256` are of the file, `high_watermark` and
    `last_stable_offset` as the broker told them when it was fetched.
    """

    cluster_id: str
    topic_id: str
    log_partition: int
    lineage: str
    first_log_offset: int
    next_log_offset: int
    batch_count: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    leader_epochs: list[list[int]]
    size_bytes: int
    sha256: str
    taken_at_ms: int
    high_watermark: int
    last_stable_offset: int

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Manifest":
        """The manifest in a JSON object; ValueError when it is none. Unknown fields are a later release's: left out."""
        names = [field.name for field in fields(cls)]
        if missing := sorted(set(names) - set(found)):
            raise ValueError(f"without {', '.join(missing)}")
        manifest = cls(**{name: found[name] for name in names})
        for name in names:
            value = found[name]
            if name in _TEXT_FIELDS:
                is_good = isinstance(value, str)
            elif name == "leader_epochs":
                is_good = isinstance(value, list) and all(_are_two_numbers(pair) for pair in value)
            else:
                is_good = type(value) is int or (value is None and name.endswith("_timestamp_ms"))
            if not is_good:
                raise ValueError(f"{name} is {value!r}")
        return manifest


def _are_two_numbers(pair: object) -> bool:
    return isinstance(pair, list) and [type(number) for number in pair] == [int, int]


class ManifestBuilder:
    """What a manifest says of batches, gathered while they pass."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.size_bytes = 0
        self.batch_count = 0
        self.timestamps_ms: list[int] = []
        self.leader_epochs: list[list[int]] = []

    def add(self, chunk: bytes) -> None:
        """Take in whole batches that follow those before."""
        self.digest.update(chunk)
        self.size_bytes += len(chunk)
        data = as_u8(chunk)
        for headers in headers_of(data):
            self.batch_count += len(headers.rows)
            self._add_timestamps(headers.max_timestamp_ms)
            is_v2 = headers.magic == 2
            self._add_epochs(headers.leader_epoch[is_v2], headers.base_offset[is_v2])

    def _add_timestamps(self, stamps: npt.NDArray[np.int64]) -> None:
        known = stamps[stamps != _NO_TIMESTAMP_MS]
        if len(known):
            both = [*self.timestamps_ms, int(known.min()), int(known.max())]
            self.timestamps_ms = [min(both), max(both)]

    def _add_epochs(self, epochs: npt.NDArray[np.int64], base_offsets: npt.NDArray[np.int64]) -> None:
        before = self.leader_epochs[-1][0] if self.leader_epochs else None
        for k in np.flatnonzero(np.diff(epochs, prepend=epochs[:1] - 1)):
            if int(epochs[k]) != before:
                before = int(epochs[k])
                self.leader_epochs.append([before, int(base_offsets[k])])
