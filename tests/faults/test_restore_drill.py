"""The restore drill on a cluster for tests: groups deleted by a plan and restored from it are equal to the last one."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sexton.kafka.admin import commit_offsets, delete_group
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from tests.integration.test_restore import (  # noqa: F401 (fixtures)
    ORDERS,
    RECORDS,
    archive,
    plan_all,
    restore,
    restore_broker,
    session,
    snapshot,
    there,
)

pytestmark = pytest.mark.thorough


def drill(
    session: ClusterSession,  # noqa: F811
    config: ClientConfig,
    folder: Path,
    count: int,
    restore: Callable[..., dict[str, Any]],  # noqa: F811
    *,
    prefix: str = "drill",
) -> dict[str, float]:
    """Commit for so many groups, plan all of them, delete them, and restore from the plan: figures.

    `folder` has the archive that `restore` looks into.
    """
    names = [f"{prefix}-{number:04d}" for number in range(count)]
    given = [
        {(ORDERS, part): (number % (RECORDS - 3) + part, number % 4 - 1, f"{number}") for part in range(number % 3 + 1)}
        for number in range(count)
    ]
    for name, own in zip(names, given, strict=True):
        assert set(commit_offsets(session, name, own).values()) == {None}
    before = {name: committed_offsets(session, name) for name in names}
    snapshot(config, folder / "archive")
    plan_id = plan_all(folder / "archive", folder / "run")
    for name in names:
        assert delete_group(session, name) is None
    assert not {group.group_id for group in list_groups(session).groups} & set(names)
    begun = time.perf_counter()
    shown = restore("--from-plan", plan_id, "--pattern", f"{prefix}-.*")
    shown_at = time.perf_counter()
    done = restore("--id", shown["restore_id"], "--apply", "--approved-by", "ann")
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


def test_every_group_comes_back(
    full: bool,
    tell: Callable[[str], None],
    session: ClusterSession,  # noqa: F811
    there: ClientConfig,  # noqa: F811
    tmp_path: Path,
    restore: Callable[..., dict[str, Any]],  # noqa: F811
) -> None:
    figures = drill(session, there, tmp_path, 1_000 if full else 25, restore)
    tell(", ".join(f"{name} {number}" for name, number in figures.items()))
