"""How long a coordinator takes to load a log partition: a model fitted to measured loads of a real broker.

`make bench-all` measures the loads on Kafka 4.3.1 right after its start, with logs without compression
(docs/bench/figures.json). A record takes longer the more keys the log partition has, since they outgrow the processor's
caches; beyond a million keys that levels off. On another machine all times differ by a factor; their ratios stay about
the same. Compressed logs take longer, the smaller their batches are: with three records per batch 4 to 9 times as long
with lz4, 15 to 18 times with zstd.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """Milliseconds per record; on top of that, per record of a log partition with very many keys; and, instead of both,
    per control record."""

    ms_per_record: float
    ms_per_scattered_record: float
    ms_per_control_record: float

    def predict_ms(self, *, records: int, control_records: int, live_records: int) -> int:
        """Predicted load time of a log partition, in ms; `records` includes the control records."""
        ms_per_record = self.ms_per_record + scattered(live_records) * self.ms_per_scattered_record
        return round((records - control_records) * ms_per_record + control_records * self.ms_per_control_record)


def scattered(keys: float) -> float:
    """How far the keys of a log partition have outgrown the caches, from 0 to 1."""
    return keys / (keys + 250_000)


# fit: written by `make bench-all`
MODEL = LoadModel(ms_per_record=0.00061, ms_per_scattered_record=0.00158, ms_per_control_record=0.00881)
"""Median error 7%, worst 18% (many-keys 3 M)."""
# end of fit
