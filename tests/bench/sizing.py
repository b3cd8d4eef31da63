"""docs/operations.md's section of sizes: what a cluster of some size takes, from what was measured and from prices.

Measured are bytes a commit, seconds a record and seconds a key; all else is arithmetic, and is said to be.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.figures import MILLION, Figures, Machine, millions
from tests.bench.sets import SETS

BEGIN = "<!-- sizes: written by `make bench-all` -->"
END = "<!-- end of sizes -->"
RUN_S, OFFSET_S = 14.0, 28e-6
"""What `tests.bench.dag_run` measured on 2 cores (Intel Xeon), on Spark: a warm run of offset_retention on the log of
`make demo`, which is next to nothing; and what each of 1.5 million offsets adds to it (`--log`)."""
OFFSETS_A_GROUP = 20
DAY_S, HOUR_S, RUNS_A_MONTH = 86_400, 3_600, 720
GROUPS_AND_RATES = ((100, 10), (1_000, 100), (10_000, 1_000), (100_000, 10_000))
"""Groups, and commits a second of all of them."""
_COLUMNS = (
    *("groups", "commits per second", "archive growth per day", "with lz4", "an hourly run", "core hours per month"),
    *("archive", "cost per month"),
)
_HEAD = f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|\n"
PLAIN, LZ4, MANY = "plain", "lz4", "many-keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a core costs an hour and a GB a month, in one currency: to be replaced by one's own."""

    core_hour: float = 0.05
    gb_month: float = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What was measured, by the piece. Seconds are of both cores, but for a record's, which are of one."""

    plain_bytes: float
    lz4_bytes: float
    record_s: float
    key_s: float

    @classmethod
    def of(cls, figures: Sequence[Figures]) -> "Rates":
        """From the largest log of each kind; ValueError when one was not measured."""
        largest = {one.name: one for one in sorted(figures, key=lambda one: one.commits)}
        if missing := {PLAIN, LZ4, MANY} - largest.keys():
            raise ValueError(f"not measured: {', '.join(sorted(missing))}")
        plain, lz4, many = largest[PLAIN], largest[LZ4], largest[MANY]
        few = next(one for one in figures if (one.name, one.commits) == (PLAIN, many.commits))
        keys = {log_set.name: log_set.shape.keys for log_set in SETS}
        return cls(
            plain_bytes=plain.size_bytes / plain.commits,
            lz4_bytes=lz4.size_bytes / lz4.commits,
            record_s=plain.kernel_s / plain.records,
            key_s=(many.audit_s - few.audit_s) / (keys[MANY] - keys[PLAIN]),
        )

    def run_s(self, groups: int, commits_a_second: int) -> float:
        """An hourly run that continues from a checkpoint."""
        return RUN_S + commits_a_second * HOUR_S * self.record_s + groups * OFFSETS_A_GROUP * OFFSET_S


def section(figures: Sequence[Figures], machine: Machine, prices: Prices | None = None) -> str:
    """Markdown between the marks, which are part of it."""
    rates, prices = Rates.of(figures), prices or Prices()
    rows = "".join(_row(rates, prices, groups, commits) for groups, commits in GROUPS_AND_RATES)
    largest = max(one.commits for one in figures if one.name == PLAIN)
    measured = (
        f"Measured on {machine.cores} cores ({machine.processor}), at up to {millions(largest)} records: "
        f"{rates.plain_bytes:.0f} bytes per commit in the archive ({rates.lz4_bytes:.0f} if the broker writes lz4, "
        f"`offsets.topic.compression.codec=3`), and {rates.record_s * MILLION:.2f} core seconds to replay a million "
        f"records. An audit takes another {rates.key_s * MILLION:.1f} seconds per million offsets. A run of the DAG on "
        f"Spark takes {RUN_S:.0f} s for a hundred offsets, and another {OFFSET_S * MILLION:.0f} s per million."
    )
    reckoned = (
        f"The table is computed from these figures, for groups with {OFFSETS_A_GROUP} offsets each, hourly runs on 2 "
        f"cores, and an archive at the end of its first year. Prices are {prices.core_hour} per core hour and "
        f"{prices.gb_month} per GB per month, in any currency; `python -m tests.bench --render --core-hour X "
        "--gb-month Y` takes other prices."
    )
    return "\n".join([BEGIN, textwrap.fill(measured, 118), "", textwrap.fill(reckoned, 118), "", _HEAD + rows + END])


def _row(rates: Rates, prices: Prices, groups: int, commits: int) -> str:
    plain_day, lz4_day = (commits * DAY_S * each for each in (rates.plain_bytes, rates.lz4_bytes))
    seconds = rates.run_s(groups, commits)
    core_hours = 2 * seconds * RUNS_A_MONTH / HOUR_S
    year_gb = 365 * plain_day / 1e9
    cost = core_hours * prices.core_hour + year_gb * prices.gb_month
    return (
        f"| {groups:,} | {commits:,} | {_gb(plain_day / 1e9)} | {_gb(lz4_day / 1e9)} | {seconds:.0f} s "
        f"| {core_hours:.0f} | {_gb(year_gb)} | {cost:,.0f} |\n"
    )


def _gb(amount: float) -> str:
    return f"{amount:,.0f} GB" if amount >= 10 else f"{amount:.2g} GB"
