"""Which open transaction keeps an offset from expiring. verdicts/pins.py does the same for whole tables."""

from dataclasses import dataclass

from sexton.coordinator.loading import Loaded
from sexton.coordinator.offsets import OffsetKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """An open transaction that holds a value of the very same key."""

    producer_id: int
    first_log_offset: int
    first_timestamp_ms: int | None


def pin_of(key: OffsetKey, loaded: Loaded) -> Pin | None:
    """The oldest open transaction that holds a value of `key`."""
    pins = [
        Pin(
            producer_id=producer_id,
            first_log_offset=transaction.first_log_offset,
            first_timestamp_ms=transaction.first_timestamp_ms,
        )
        for producer_id, transaction in loaded.open_transactions.items()
        if key in loaded.pending.get(producer_id, {})
    ]
    return min(pins, key=lambda pin: (pin.first_log_offset, pin.producer_id), default=None)
