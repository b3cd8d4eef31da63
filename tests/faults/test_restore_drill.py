"""The restore drill on a cluster for tests: groups deleted by a plan and restored from it are equal to the last one."""

import time
from collections.abc import Callable

import pytest

from sexton.as_text import now_ms
from sexton.kafka.admin import delete_group
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from tests.clients import commit_when_ready
from tests.integration.test_restore import (  # noqa: F401 (fixtures)
    HOUR_MS,
    ORDERS,
    RECORDS,
    Case,
    case,
    groups,
    session,
    there,
)

pytestmark = pytest.mark.thorough


def drill(case: Case, session: ClusterSession, count: int, *, prefix: str = "drill") -> dict[str, float]:  # noqa: F811
    """Commit for so many groups, plan all of them, delete them, and restore from the plan: figures."""
    names = [f"{prefix}-{number:04d}" for number in range(count)]
    given = [
        {(ORDERS, part): (number % (RECORDS - 3) + part, number % 4 - 1, f"{number}") for part in range(number % 3 + 1)}
        for number in range(count)
    ]
    for name, own in zip(names, given, strict=True):
        commit_when_ready(session, name, own)
    before = {name: committed_offsets(session, name) for name in names}
    case.snapshot()
    plan_id = case.plan(as_of_ms=now_ms() + HOUR_MS, retention_minutes=1)
    for name in names:
        assert delete_group(session, name) is None
    assert not {group.group_id for group in list_groups(session).groups} & set(names)
    begun = time.perf_counter()
    shown = case.restore("--from-plan", plan_id, "--pattern", f"{prefix}-.*")
    shown_at = time.perf_counter()
    done = case.restore("--id", shown["restore_id"], "--apply", "--approved-by", "ann")
    ended = time.perf_counter()
    offsets = sum(map(len, given))
    assert shown["counts"] == {"restore": offsets}
    assert done["counts"] == {"done": offsets}
    after = {name: committed_offsets(session, name) for name in names}
    equal = sum(after[name] == before[name] for name in names)
    assert equal == count
    return {
        "groups": count,
        "offsets": offsets,
        "equal": equal,
        "diff_s": round(shown_at - begun, 1),
        "restore_s": round(ended - shown_at, 1),
        **{f"window_{name}": round(done["windows"][name], 1) for name in ("p50_ms", "p99_ms", "max_ms")},
    }


def test_every_group_comes_back(full: bool, tell: Callable[[str], None], session: ClusterSession, case: Case) -> None:  # noqa: F811
    figures = drill(case, session, 1_000 if full else 25)
    tell(", ".join(f"{name} {number}" for name, number in figures.items()))
