"""The model of load times is the one that fits the loads which the README states."""

from sexton.coordinator.load_model import MODEL
from tests.bench.figures import DOCS, read_figures
from tests.bench.load_model import PAGE, fit, section


def test_the_model_is_fitted_to_the_measured_loads() -> None:
    found = fit(read_figures(DOCS).logs)
    assert section(found) in PAGE.read_text(encoding="utf-8"), "run: python -m tests.bench --render"
    assert found.model == MODEL
    assert found.median < 0.15
    assert found.worst < 0.5


def test_a_longer_log_takes_longer() -> None:
    short, long = (MODEL.predict_ms(records=n, control_records=0, live_records=n // 10) for n in (1_000_000, 2_000_000))
    assert 500 < short < long
