"""What is wanted of the figures, and what is said of those that were measured."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.bench.figures import MILLION, Clustered, Figures, Increment, Measured, Planning, Replicas
from tests.bench.targets import targets
from tests.bench.test_figures import LOGS, MACHINE, PLAIN

MANY_SMALL = replace(
    PLAIN, name="many-keys", commits=3 * MILLION, records=3 * MILLION, audit_s=20.0, tree_bytes=1_100 * MILLION
)
HOT_KEYS = replace(MANY_SMALL, name="hot-keys", audit_s=25.0)
MANY = replace(PLAIN, name="many-keys", broker_started_s=45.0)
MOST = replace(PLAIN, name="most-keys", process_bytes=999 * MILLION, tree_bytes=8_001 * MILLION)


def found(logs: Sequence[Figures] = (), **others: Any) -> dict[str, tuple[float, bool]]:
    """The value of each target, and whether it is reached."""
    measured = Measured(machine=MACHINE, logs=logs, **others)
    return {target.text: (target.value, target.is_reached) for target in targets(measured)}


def test_targets_of_few_keys() -> None:
    assert found(LOGS, dump_rate=25_000.0) == {
        "kernel per core / broker: plain 30 M": (15.0, True),
        "kernel per core / warm broker: plain 30 M": (10.0, True),
        "audit (wall) / broker: plain 30 M": (2.0, False),
        "audit / kafka-dump-log: plain 30 M": (80.0, False),
        "audit (wall) / broker: hot 30 M": (1.25, False),
        "audit / kafka-dump-log: hot 30 M": (50.0, False),
        "seconds of an audit / of the balanced log: hot 30 M": (1.6, False),
        "kernel per core / broker: transactional 30 M": (30.0, True),
        "kernel per core / warm broker: transactional 30 M": (20.0, True),
        "audit (wall) / broker: transactional 30 M": (2.0, True),
        "audit / kafka-dump-log: transactional 30 M": (88.0, False),
        "kernel per core / broker: plain 100 M": (45.0, True),
        "kernel per core / warm broker: plain 100 M": (10.0, True),
        "audit (wall) / broker: plain 100 M": (2.25, False),
        "audit / kafka-dump-log: plain 100 M": (100.0, True),
        "memory of a task, 100 / 30 million records: plain": (1.25, False),
    }


def test_targets_of_many_keys() -> None:
    assert found([MANY_SMALL, HOT_KEYS, MANY, MOST]) == {
        "kernel per core / broker: many-keys 3 M": (15.0, True),
        "kernel per core / warm broker: many-keys 3 M": (10.0, True),
        "audit (wall) / broker: many-keys 3 M": (1.5, True),
        "all processes of an audit: many-keys 3 M": (1.1, True),
        "seconds of an audit / of the balanced log: hot-keys 3 M": (1.25, False),
        "kernel per core / broker: many-keys 30 M": (22.5, True),
        "kernel per core / warm broker: many-keys 30 M": (10.0, True),
        "audit (wall) / broker: many-keys 30 M": (3.0, True),
        "audit (wall) / broker: most-keys 30 M": (2.0, True),
        "largest process of an audit: most-keys 30 M": (0.999, True),
        "all processes of an audit: most-keys 30 M": (8.001, False),
    }


def test_no_target_is_made_of_memory_that_was_not_measured() -> None:
    assert "all processes of an audit: many-keys 3 M" not in found([replace(MANY_SMALL, tree_bytes=None)])


@pytest.mark.parametrize("increment_s, is_reached", [(0.3, True), (0.31, False)])
def test_an_increment_costs_at_most_a_tenth(increment_s: float, is_reached: bool) -> None:
    one = Increment(records=30 * MILLION, delta_records=300_000, full_s=3.0, increment_s=increment_s)
    text = "seconds of a replay / of all of it: a delta of 1.0 % of 30 M"
    assert found(increment=one) == {text: (one.ratio, is_reached)}


@pytest.mark.parametrize("seconds, is_reached", [(2.5, True), (2.6, False)])
def test_an_audit_of_next_to_nothing_takes_seconds(seconds: float, is_reached: bool) -> None:
    assert found(one_record_s=seconds) == {"audit: one record": (seconds, is_reached)}


@pytest.mark.parametrize("seconds, is_reached", [(5.0, True), (5.1, False)])
def test_a_plan_takes_seconds(seconds: float, is_reached: bool) -> None:
    one = Planning(tombstones=2 * MILLION, seconds=seconds)
    assert found(planning=one) == {"plan in an audit: 2 M tombstones": (seconds, is_reached)}


def test_a_cluster_takes_little_longer_than_the_audit() -> None:
    one = Clustered(records=100 * MILLION, audit_s=10.0, stages_s=15.0, jobs_s=60.0)
    assert found(clustered=one) == {
        "seconds of the jobs' stages / of the audit: 100 M on a cluster of 2 one-core workers": (1.5, True),
        "seconds of the jobs with their starts / of the audit: 100 M on a cluster of 2 one-core workers": (6.0, False),
    }


def test_three_replicas_take_little_longer_than_three_audits() -> None:
    one = Replicas(
        records=30 * MILLION, audit_s=10.0, compare_s=32.0, process_bytes=501, tree_bytes=800, smaller_process_bytes=400
    )
    assert found(replicas=one) == {
        "seconds of a comparison / of the audit of one: three replicas of 30 M": (3.2, True),
        "largest process of a comparison / with a third of the records: three replicas of 30 M": (1.2525, False),
    }


def test_what_is_wanted_is_said_with_its_unit() -> None:
    measured = Measured(machine=MACHINE, logs=[MOST], one_record_s=2.25)
    assert [(one.wanted, one.measured) for one in targets(measured)] == [
        ("≥ 1.5", "2.00"),
        ("≤ 1 GB", "1.00 GB"),
        ("≤ 8 GB", "8.00 GB"),
        ("≤ 2.5 s", "2.25 s"),
    ]
