"""The table of sizes: arithmetic on what was measured, current in docs/operations.md."""

from dataclasses import replace

import pytest

from sexton.settings import PROJECT_ROOT
from tests.bench.figures import DOCS, MILLION, Machine, read_figures
from tests.bench.sizing import Prices, Rates, section
from tests.bench.test_figures import PLAIN

LZ4 = replace(PLAIN, name="lz4", size_bytes=1_800 * MILLION)
MANY = replace(PLAIN, name="many-keys", audit_s=34.4)
LOGS = [PLAIN, LZ4, MANY]
MACHINE = Machine(cores=2, processor="a processor", python="3.11")


def test_rates_are_by_the_piece() -> None:
    rates = Rates.of(LOGS)
    assert (rates.plain_bytes, rates.lz4_bytes) == (90.0, 60.0)
    assert rates.record_s == pytest.approx(2.0 / (30 * MILLION))
    assert rates.key_s == pytest.approx(10e-6), "19.4 s more for 1.94 million keys more"
    with pytest.raises(ValueError, match="not measured: lz4, many-keys"):
        Rates.of([PLAIN])


def test_the_table() -> None:
    rows = section(LOGS, MACHINE, Prices(core_hour=0.1, gb_month=0.02)).splitlines()
    row = next(row for row in rows if row.startswith("| 10,000 |"))
    # 3.6 million records at 1/15 s a million, 200,000 offsets at 28 s a million, and a run without any load.
    seconds = 14 + 0.24 + 5.6
    cost = 2 * seconds * 720 / 3600 * 0.1 + 365 * 7.776 * 0.02
    assert row == f"| 10,000 | 1,000 | 7.8 GB | 5.2 GB | {seconds:.0f} s | 8 | 2,838 GB | {cost:.0f} |"
    assert "0.1 per core hour and 0.02 per GB per month" in " ".join(rows)


def test_the_page_is_current() -> None:
    measured = read_figures(DOCS)
    page = (PROJECT_ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert section(measured.logs, measured.machine) in page, "run: python -m tests.bench --render"
