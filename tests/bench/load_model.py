"""Fits the model of a coordinator's load time to the loads that `make bench` has measured.

    python -m tests.bench.load_model docs/bench/figures.json

prints the coefficients for `sexton.coordinator.load_model`, and how far each measured load is from the model.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from sexton.coordinator.load_model import LoadModel
from tests.bench.sets import SETS

COMPRESSED = {log_set.name for log_set in SETS if log_set.shape.codec != "none"}
KEYS = {log_set.name: log_set.shape.keys for log_set in SETS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A model and its relative error at each load, by the load's name."""

    model: LoadModel
    errors: dict[str, float]

    @property
    def worst(self) -> float:
        return max(abs(error) for error in self.errors.values())

    @property
    def median(self) -> float:
        return float(np.median(np.abs(list(self.errors.values()))))


def fit(figures: Path) -> Fit:
    """Least squares of the relative error, no coefficient below zero; over first loads of logs without compression."""
    logs = json.loads(figures.read_text(encoding="utf-8"))["logs"]
    logs = [log for log in logs if log["name"] not in COMPRESSED]
    names = [f"{log['name']} {log['commits']:,}" for log in logs]
    features = np.array([[log["commits"], log["records"] - log["commits"], KEYS[log["name"]]] for log in logs], float)
    measured_ms = np.array([1000 * log["broker_started_s"] for log in logs])
    coefficients, _ = nnls(features / measured_ms[:, None], np.ones(len(logs)))
    per_record, per_marker, per_key = (float(f"{value:.3g}") for value in coefficients)
    model = LoadModel(ms_per_record=per_record, ms_per_control_record=per_marker, ms_per_live_record=per_key)
    errors = features @ np.array([per_record, per_marker, per_key]) / measured_ms - 1
    return Fit(model=model, errors=dict(zip(names, errors.tolist(), strict=True)))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = fit(Path(sys.argv[1]))
    sys.stdout.write(f"{found.model}\nmedian error {found.median:.0%}, worst {found.worst:.0%}\n")
    for name, error in found.errors.items():
        sys.stdout.write(f"  {name}: {error:+.0%}\n")


if __name__ == "__main__":
    main()
