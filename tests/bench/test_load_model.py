"""The model of load times is the one that fits the loads which the README states."""

import json

from sexton.coordinator.load_model import MODEL
from sexton.settings import PROJECT_ROOT
from tests.bench.figures import from_json
from tests.bench.load_model import PAGE, fit, section


def test_the_model_is_fitted_to_the_measured_loads() -> None:
    figures, _, _ = from_json(json.loads((PROJECT_ROOT / "docs/bench/figures.json").read_text(encoding="utf-8")))
    found = fit(figures)
    assert section(found) in PAGE.read_text(encoding="utf-8"), "run: python -m tests.bench --render"
    assert found.model == MODEL
    assert found.median < 0.15
    assert found.worst < 0.5


def test_a_longer_log_takes_longer() -> None:
    short, long = (MODEL.predict_ms(records=n, control_records=0, live_records=n // 10) for n in (1_000_000, 2_000_000))
    assert 500 < short < long
