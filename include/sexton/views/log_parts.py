"""Log partitions read from segments: small ones by the plain replay, large ones by the kernels, with the same results.

The kernels take some seconds to load and then read ten million records a second; the plain replay starts immediately
and reads fifty thousand a second.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sexton.archive.folder import filesystem
from sexton.coordinator.api.coordinator import CoordinatorShard, shard_after_load
from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.api.view import EmptyView
from sexton.coordinator.expiry import block_in, sweep_block
from sexton.coordinator.loading import Loaded, load
from sexton.coordinator.profile import AfterFailure, Profile
from sexton.coordinator.profiles import NEWEST
from sexton.errors import LogError
from sexton.log.batch import OUT_OF_ORDER_BATCH, Batch, Record, read_batches, read_records
from sexton.log.segment import WHOLE_LOG, Segment, plan_fold_tasks, slice_bytes
from sexton.records import OFFSET_TYPES, decode_key
from sexton.runs.choose_profile import Choice
from sexton.runs.source import LogSource, require_stamps
from sexton.settings import settings
from sexton.views.coordinator_view import LoadedPartition
from sexton.views.log_profile import choice_of

if TYPE_CHECKING:
    from sexton.kernels.fold import PartialFold

PLAIN_BYTES = 8 << 20
"""Log partitions up to this size are replayed plainly."""
_HEAD_BYTES = 64 << 10


class LogParts:
    """The log partitions of `source` at an instant, read by the rules of `profile` or of the one that `choose` sets."""

    def __init__(self, source: LogSource, *, profile: Profile = NEWEST, as_of_ms: int | None, taken_at_ms: int) -> None:
        self.profile = profile
        self.read: dict[int, LoadedPartition] = {}
        self._source = source
        self._asked_ms, self._is_cut = as_of_ms, as_of_ms is not None
        self._as_of_ms = None if source.is_archive else as_of_ms  # an archive's segments end where the cut is
        self._taken_at_ms = source.taken_at_ms or taken_at_ms
        self._fs, _ = filesystem(source.uri)
        self.cap_bytes = settings().inflated_cap_bytes

    def choose(self, asked: str | None) -> Choice:
        """Use the requested profile, else the profile that the log or the archive proves."""
        choice = choice_of(self._source, asked, self)
        self.profile = choice.profile
        return choice

    def shard(self, log_partition: int, leads_until: int | None = None) -> CoordinatorShard:
        """Read a log partition as its coordinator would load it, or as a coordinator that leads it only up to
        `leads_until`."""
        part = self._part(log_partition) if leads_until is None else self._plain_part(log_partition, leads_until)
        self.read[log_partition] = part
        held = part.held
        if part.load_outcome == AfterFailure.PREFIX:
            loaded = self.load(self.chunks(log_partition), leads_until=leads_until, stops_at_failure=True)
            held = PlainView(loaded)
        return shard_after_load(held, part.load_outcome, profile=self.profile)

    def group_ids_at_head(self, log_partition: int, *, limit: int) -> set[str]:
        """The ids of up to `limit` groups that have offset records at the start of the log partition."""
        found: set[str] = set()
        for segment in self._segments(log_partition)[:1]:
            for record in self._data_records(self._bytes(segment, _HEAD_BYTES).tobytes()):
                try:
                    record_type, key = decode_key(record.key or b"")
                except LogError:
                    continue
                if record_type in OFFSET_TYPES:
                    found.add(key.group_id)
                if len(found) >= limit:
                    return found
        return found

    def batches_at_heads(self, log_partition: int) -> Iterator[Batch]:
        """The batches at the start of the last segment, then at the start of the first."""
        segments = self._segments(log_partition)
        for segment in dict.fromkeys((*segments[-1:], *segments[:1])):
            data = self._bytes(segment, _HEAD_BYTES).tobytes()
            yield from (found for found in read_batches(data) if isinstance(found, Batch))

    def _data_records(self, data: bytes) -> Iterator[Record]:
        for batch in read_batches(data):
            if isinstance(batch, Batch) and not batch.is_control:
                found = read_records(batch, cap_bytes=self.cap_bytes)
                yield from (record for record in found if isinstance(record, Record))

    def _part(self, log_partition: int) -> LoadedPartition:
        size_bytes = sum(segment.stop_byte for segment in self._segments(log_partition))
        if size_bytes == 0:
            return LoadedPartition(held=EmptyView())
        return self._plain_part(log_partition) if size_bytes <= PLAIN_BYTES else self._compiled_part(log_partition)

    def _plain_part(self, log_partition: int, leads_until: int | None = None) -> LoadedPartition:
        loaded = self.load(self.chunks(log_partition), leads_until=leads_until)
        self._require_stamps(loaded)
        return LoadedPartition(
            held=PlainView(loaded),
            out_of_order=sum(row.reason == OUT_OF_ORDER_BATCH for row in loaded.undecodable),
            load_failure=loaded.load_failure,
            load_outcome=loaded.load_outcome,
            undecodable=loaded.counters["undecodable_records"],
            is_covered=not self._is_cut or loaded.first_log_offset is not None,
            next_log_offset=loaded.next_log_offset,
            sweep_block=lambda retention_ms, now_ms: sweep_block(loaded, retention_ms=retention_ms, now_ms=now_ms),
            open_transactions=lambda: _open_transactions(loaded, log_partition),
            max_timestamp_ms=loaded.max_timestamp_ms,
            group_ids=tuple({group_id for group_id, _, _ in (*loaded.offsets, *loaded.state.pending_keys())}),
        )

    def chunks(self, log_partition: int) -> Iterator[bytes]:
        """The bytes of each segment."""
        return (self._bytes(segment).tobytes() for segment in self._segments(log_partition))

    def load(self, chunks: Iterable[bytes], *, profile: Profile | None = None, **how: Any) -> Loaded:
        """The result of `coordinator.loading.load` for a log partition of this source; by default with its profile."""
        return load(
            chunks,
            cap_bytes=self.cap_bytes,
            profile=profile or self.profile,
            as_of_ms=self._as_of_ms,
            taken_at_ms=self._taken_at_ms,
            load_buffer_bytes=self._source.load_buffer_bytes,
            replays_out_of_order=True,
            **how,
        )

    def _require_stamps(self, read: "Loaded | PartialFold") -> None:
        require_stamps(
            self._asked_ms,
            has_stamps=read.max_timestamp_ms >= 0 or read.counters["future_batches"] > 0,
            max_commit_timestamp_ms=read.max_commit_timestamp_ms,
            where=self._source.where,
        )

    def fold(self, log_partition: int) -> "PartialFold":
        """The kernels' fold of a log partition."""
        # Imported here: importing the kernels takes longer than reading a small log.
        from sexton.kernels.fold import PartialFold, fold_task

        segments = self._segments(log_partition)
        if not segments:
            return PartialFold.empty(profile=self.profile, is_prefix=True)
        (task,) = plan_fold_tasks(segments)
        fold = fold_task(
            (self._bytes(segment) for segment in segments),
            task=task,
            cap_bytes=self.cap_bytes,
            as_of_ms=self._as_of_ms,
            taken_at_ms=self._taken_at_ms,
            profile=self.profile,
        ).as_kept_by_broker()
        self._require_stamps(fold)
        return fold

    def _compiled_part(self, log_partition: int) -> LoadedPartition:
        from sexton.kernels.results import finish
        from sexton.runs.endless_load import endless_load_of
        from sexton.verdicts.expiry import held_offsets
        from sexton.verdicts.expiry import sweep_block as block_of

        fold = self.fold(log_partition)
        if any(row.reason == OUT_OF_ORDER_BATCH for _, row in fold.undecodable):
            return self._plain_part(log_partition)  # slow, but the kernels cannot replay batches out of order
        endless = endless_load_of(self._source, log_partition, fold)
        tables = finish(fold, log_partition=log_partition, partition_count=None, endless=endless)
        (profile,) = tables["load_profile"].to_pylist()
        offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
        return LoadedPartition(
            held=TablesView(tables),
            load_failure=profile["load_failure"],
            load_outcome=profile["load_outcome"],
            undecodable=profile["undecodable_records"],
            is_covered=not self._is_cut or fold.first_log_offset is not None,
            next_log_offset=profile["next_log_offset"] or 0,
            sweep_block=lambda retention_ms, now_ms: (
                block_in(profile)
                or block_of(
                    offsets,
                    tables["groups"],
                    tables["pending_offsets"],
                    retention_ms=retention_ms,
                    now_ms=now_ms,
                    profile=self.profile,
                )
            ),
            open_transactions=tables["open_transactions"].to_pylist,
            max_timestamp_ms=fold.max_timestamp_ms,
            group_ids=tuple(fold.group_ids(limit=None)),
        )

    def _segments(self, log_partition: int) -> list[Segment]:
        return self._source.segments.get(log_partition, [])

    def _bytes(self, segment: Segment, most_bytes: int = WHOLE_LOG) -> npt.NDArray[np.uint8]:
        """Up to `most_bytes` bytes of a segment: mapped in an archive, else read."""
        return slice_bytes(self._fs, segment, min(segment.stop_byte, most_bytes))


def _open_transactions(loaded: Loaded, log_partition: int) -> list[dict[str, Any]]:
    """Rows of the table open_transactions, as the kernels make them."""
    return [
        {
            "log_partition": log_partition,
            "producer_id": producer_id,
            **asdict(one),
            "group_ids": sorted({group_id for group_id, _, _ in loaded.pending.get(producer_id, ())}),
        }
        for producer_id, one in sorted(loaded.open_transactions.items())
    ]
