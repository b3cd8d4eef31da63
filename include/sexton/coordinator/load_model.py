"""How long a coordinator takes to load a log partition: a model fitted to measured loads of a real broker.

The loads are those of Kafka 4.3.1 right after its start that `make bench-all` measures, of logs without compression
(docs/bench/figures.json). Its error is largest at millions of keys, where a JVM that has just started takes
disproportionately long. On another machine all times differ by a factor; their ratios stay about the same. Compressed
logs take longer, the smaller their batches are: with three records a batch 4 to 8 times as long in lz4, 18 times in
zstd.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """Milliseconds per record, per control record (instead), and per record that is kept."""

    ms_per_record: float
    ms_per_control_record: float
    ms_per_live_record: float

    def predict_ms(self, *, records: int, control_records: int, live_records: int) -> int:
        """Predicted load time of a log partition, in ms; `records` includes the control records."""
        return round(
            (records - control_records) * self.ms_per_record
            + control_records * self.ms_per_control_record
            + live_records * self.ms_per_live_record
        )


# fit: written by `make bench-all`
MODEL = LoadModel(ms_per_record=0.000948, ms_per_control_record=0.00569, ms_per_live_record=0.00144)
"""Median error 9%, worst 43% (many-keys 30 M)."""
# end of fit
