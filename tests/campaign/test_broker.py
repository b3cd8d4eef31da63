"""A real broker judges some four of five thousand random histories, new ones in every run."""

from random import SystemRandom

import pytest

from sexton.coordinator.profiles import profile_of
from tests.campaign.broker.command import PINNED_RELEASE, judge_in
from tests.campaign.broker.judge import Judge, Verdict
from tests.campaign.broker.logs import lay_out
from tests.campaign.broker.run import narrowed

HISTORIES = 5_000
"""Of which a fifth find no place: a history whose load fails needs a log partition of its own."""
PARTITIONS, SHARED = 240, 60


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    folder = tmp_path_factory.mktemp("campaign") / "broker"
    judge = judge_in(folder, release=PINNED_RELEASE, jars=None, partition_count=PARTITIONS)
    judge.prepare()
    return judge


def judged(judge: Judge, seed: int, count: int, *, sweeps: bool = True) -> Verdict:
    logs, _ = lay_out(seed, range(count), judge.place, judge.profile, shared=SHARED)
    return judge.judge(logs, sweeps=sweeps)


def test_a_broker_says_what_sexton_says(judge: Judge, capsys: pytest.CaptureFixture[str]) -> None:
    seed = SystemRandom().randrange(1 << 32)
    verdict = judged(judge, seed, HISTORIES)
    with capsys.disabled():
        print(f"\nseed {seed}, {verdict}")
    assert verdict.histories > 3_500
    assert min(verdict.answers / 10, verdict.failed_loads, verdict.tombstones) > 100
    assert not verdict.differences, "\n".join(narrowed(judge, seed, verdict.differences))


def test_a_rule_of_another_release_is_seen(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "profile", profile_of("group_coordinator:4.0.0"))
    found = {one.what.split(" of ")[0] for one in judged(judge, 1, 300, sweeps=False).differences}
    assert {"load", "described"} <= found
