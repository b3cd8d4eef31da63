"""Fits the model of a coordinator's load time to the loads that `make bench-all` has measured.

A full run writes the model into `sexton.coordinator.load_model`, so that it is the one of the figures beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from sexton.coordinator.load_model import LoadModel, scattered
from sexton.settings import PROJECT_ROOT
from tests.bench.figures import Figures
from tests.bench.sets import LOG_PARTITIONS, SETS

PAGE = PROJECT_ROOT / "include" / "sexton" / "coordinator" / "load_model.py"
BEGIN = "# fit: written by `make bench-all`"
END = "# end of fit"
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


def fit(all_figures: Sequence[Figures]) -> Fit:
    """Least squares of the relative error, no coefficient below zero; over first loads of logs without compression."""
    logs = [one for one in all_figures if one.name not in COMPRESSED]
    keys = [KEYS[one.name] / LOG_PARTITIONS for one in logs]
    features = np.array(
        [
            [one.commits, one.commits * scattered(own), one.records - one.commits]
            for one, own in zip(logs, keys, strict=True)
        ]
    )
    measured_ms = np.array([1000 * one.broker_started_s for one in logs])
    coefficients, _ = nnls(features / measured_ms[:, None], np.ones(len(logs)))
    rounded = per_record, per_scattered, per_marker = [float(f"{value:.3g}") for value in coefficients]
    model = LoadModel(ms_per_record=per_record, ms_per_scattered_record=per_scattered, ms_per_control_record=per_marker)
    errors = features @ np.array(rounded) / measured_ms - 1
    return Fit(model=model, errors=dict(zip([one.label for one in logs], errors.tolist(), strict=True)))


def section(found: Fit) -> str:
    """Python between the marks, which are part of it."""
    worst = max(found.errors, key=lambda label: abs(found.errors[label]))
    about = f"Median error {found.median:.0%}, worst {found.worst:.0%} ({worst})."
    return f'{BEGIN}\nMODEL = {found.model}\n"""{about}"""\n{END}'
