"""Random histories, four thousand with full counts, and that mistakes would be seen."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from sexton.coordinator import expiry
from sexton.coordinator.groups.groups import Groups, ScalaGroups
from sexton.coordinator.offsets import LeakingOffsets, Offsets, ScalaOffsets
from sexton.coordinator.profile import PendingRule, Profile
from sexton.kernels import fold, partial_fold
from sexton.kernels.merge import absorb_state
from sexton.kernels.profile_flags import new_state_of
from sexton.verdicts.expiry import judge_unblocked, plan
from tests.campaign import __main__ as command
from tests.campaign import checks, closed_form, narrow
from tests.campaign.histories import PACK, history
from tests.campaign.packs import Pack
from tests.campaign.run import run
from tests.fates import load
from tests.tiers import later

FIXED_SEED = 20_261_121
EACH = {False: 1_500, True: 4_000}
MAX_PACKS = 30
"""Every mistake below is seen in that many packs; those of one release wait until a pack is read by its rules."""


def test_all_ways_of_reading_agree(full: bool, seed: int) -> None:
    for _, failures in run(seed, EACH[full]):
        assert not failures, "\n".join(map(str, failures))


def _folding_by(**rules: Any) -> Callable[[Profile], Any]:
    """Kernels that go by other rules than they are told."""
    return lambda profile, **room: new_state_of(replace(profile, **rules), **room)


def _swapped(absorb: Callable[..., Any], left: Any, right: Any) -> Any:
    return absorb(right, left)


def _without_markers(whole: Pack, rng: Random) -> Pack:
    return Pack([batch for batch in whole.placed if batch.block.control is None])


def _without_members(whole: Pack, rng: Random) -> Pack:
    """The records of consumer groups' members (type 5) are gone, with their batches."""
    return Pack([batch for batch in whole.placed if all(entry.record_type != 5 for entry in batch.block.entries)])


def _by(work: Callable[..., Any], **rules: Any) -> Callable[..., Any]:
    """`work` by other rules than it is told."""
    return lambda *given, profile, **options: work(*given, profile=replace(profile, **rules), **options)


IF_TRANSACTIONAL = {"pending_rule": PendingRule.IF_TRANSACTIONAL}
KERNELS = {
    "a tombstone spares what is pending": {"tombstones_cancel_pending": False},
    "of 2.x, it does not": {"tombstones_cancel_pending": True},
    "no transaction leaks": {"leaks_open_transactions": False},
    "the bit decides what is pending": IF_TRANSACTIONAL,
    "versions of 3.9": {"value_versions": {0: 4, 1: 4, 2: 4}},
}
MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "replay: a tombstone spares what is pending": (Offsets, "remove", ScalaOffsets.remove),
    "replay: of 2.x, it does not": (ScalaOffsets, "remove", Offsets.remove),
    "replay: no transaction leaks": (LeakingOffsets, "open_groups", Offsets.open_groups),
    "replay: offsets make groups in 2.x": (ScalaGroups, "ensure_simple_group", Groups.ensure_simple_group),
    "replay: an idempotent producer does not wait": (checks, "load", _by(load, **IF_TRANSACTIONAL)),
    **{f"kernels: {name}": (partial_fold, "new_state_of", _folding_by(**rules)) for name, rules in KERNELS.items()},
    "merge: the wrong way round": (fold, "absorb_state", partial(_swapped, absorb_state)),
    "closed form: 2.x as 4.x": (closed_form, "_judged_by_transaction", closed_form._judged_by_producer),
    "cleaner: markers go first": (checks, "compact", _without_markers),
    "cleaner: members go": (checks, "compact", _without_members),
    "sweep: open transactions do not hold": (
        checks,
        "judge_unblocked",
        _by(judge_unblocked, pending_blocks_expiry=False),
    ),
    "sweep: a millisecond late": (
        checks,
        "judge_unblocked",
        lambda *tables, now_ms, **options: judge_unblocked(*tables, now_ms=now_ms - 1, **options),
    ),
    "plan: groups without a generation go": (checks, "plan", _by(plan, deletes_generation_0=True)),
    "verdict: since the commit": (expiry, "_base_timestamp_ms", lambda offset, *_: offset.commit_timestamp_ms),
}


LATE = {"kernels: no transaction leaks", "replay: no transaction leaks"}
"""Seen after many packs only."""


@pytest.mark.parametrize("mistake", later(pytest.mark.thorough, MISTAKES, but=MISTAKES.keys() - LATE))
def test_a_mistake_is_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MISTAKES[mistake])
    packs = [range(first, first + PACK) for first in range(0, MAX_PACKS * PACK, PACK)]
    assert any(
        narrow.difference_on([history(FIXED_SEED, index) for index in indices], FIXED_SEED, tries=1)
        for indices in packs
    )


@pytest.mark.thorough
def test_a_failure_is_narrowed_to_its_history(monkeypatch, capsys):
    monkeypatch.setattr(command, "ONLY_TRIES", 2)
    with monkeypatch.context() as wrong:
        wrong.setattr(*MISTAKES["kernels: of 2.x, it does not"])
        failure = narrow.failure_of([history(FIXED_SEED, index) for index in range(20)], FIXED_SEED)
        assert failure is not None
        assert "kernels and closed form, group_metadata_manager" in str(failure)
        (index,) = failure.indices
        assert len(failure.reduced) < len(history(FIXED_SEED, index).blocks)
        again = ["--seed", str(FIXED_SEED), "--only", str(index)]
        assert " ".join(again) in str(failure)
        assert command.main(again) == 1
        assert "1 failures" in capsys.readouterr().out
    assert command.main(again) == 0
    assert "no difference" in capsys.readouterr().out


def test_a_history_is_told_by_seed_and_index() -> None:
    assert history(1, 7) == history(1, 7)
    assert history(1, 7) != history(2, 7)
    assert history(1, 7) != history(1, 8)
