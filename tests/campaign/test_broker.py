"""A real broker judges hundreds of random histories, and some before and after its cleaner."""

from functools import partial
from random import Random

import pytest

from sexton.coordinator.profiles import profile_of
from tests.campaign.broker.cleaner import EXPECTED_CHANGES, judge_cleaned
from tests.campaign.broker.command import PINNED_RELEASE, judge_in
from tests.campaign.broker.judge import Judge, Verdict
from tests.campaign.broker.known import Known
from tests.campaign.broker.logs import lay_out
from tests.campaign.broker.run import each_load, narrowed, partitions_for, run

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2_400)]
HISTORIES, FULL_HISTORIES, PROCESSES = 400, 2_000, 2
CLEANED = 200
SHARED = 64
MISJUDGED = 100


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, needs_broker: None) -> Judge:
    folder = tmp_path_factory.mktemp("campaign") / "broker"
    judge = judge_in(folder, release=PINNED_RELEASE, jars=None, partition_count=partitions_for(CLEANED))
    judge.prepare()
    return judge


def judged(judge: Judge, seed: int, count: int, *, sweeps: bool = True) -> Verdict:
    lay = partial(lay_out, seed, range(count), profile=judge.profile, shared=SHARED)
    return judge.judge(lay, sweeps=sweeps)


@pytest.mark.usefixtures("needs_broker")
def test_a_broker_says_what_sexton_says(tmp_path_factory: pytest.TempPathFactory, seed: int, full: bool) -> None:
    count = FULL_HISTORIES if full else HISTORIES
    partition_count = partitions_for(each_load(count, PROCESSES))
    folder = tmp_path_factory.mktemp("campaign") / "broker"
    judge = judge_in(folder, release=PINNED_RELEASE, jars=None, partition_count=partition_count)
    judge.prepare()
    verdict = sum(run(judge, seed, range(count), processes=PROCESSES), Verdict())
    assert verdict.histories + verdict.left_out.total() == count
    assert len(verdict.tombstones) == 2
    assert min(verdict.answers / 100, verdict.failed_loads, *verdict.tombstones.values()) > count / 100
    assert not verdict.differences, "\n".join(narrowed(judge, seed, verdict.differences))


def test_a_rule_of_another_release_is_seen(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "profile", profile_of("group_coordinator:4.0.0"))
    found = {one.what.split(" of ")[0] for one in judged(judge, 1, MISJUDGED, sweeps=False).differences}
    assert {"load", "described"} <= found


def test_a_mistake_about_either_sweep_is_seen(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """About the second one: that the first has changed nothing."""
    monkeypatch.setattr(Known, "after", lambda known, _: known)
    found = {one.what.split(" of ")[0] for one in judged(judge, 2, MISJUDGED).differences}
    assert found == {"sweep 2"}
    monkeypatch.setattr(Known, "planned", lambda known, _: {})
    found = {one.what.split(" of ")[0] for one in judged(judge, 2, MISJUDGED).differences}
    assert found == {"sweep 1", "sweep 2"}


def test_the_cleaner_changes_no_answer(judge: Judge, seed: int) -> None:
    shared = judge.partition_count
    logs = lay_out(seed, range(CLEANED), judge.place, judge.profile, shared=shared, only_clean=True)
    cleaning = judge_cleaned(judge, logs, Random(seed))
    assert cleaning.before.histories > CLEANED / 4
    assert cleaning.bytes_after < cleaning.bytes_before
    assert cleaning.changes.keys() <= EXPECTED_CHANGES, cleaning
    assert not [*cleaning.before.differences, *cleaning.after.differences], cleaning
