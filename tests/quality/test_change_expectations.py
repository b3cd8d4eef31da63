"""The laws of offset_changes hold for what an interval changed, and each sees what breaks it."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from sexton.quality.laws import CHANGE_LAWS
from sexton.tables import TABLES
from tests.quality.world import broken_laws

TABLE = "offset_changes"
Rows = dict[str, list[dict[str, Any]]]


def change(group_id: str, kind: str, old: int | None, new: int | None, log_offset: int, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group_id, "topic": "t", "partition": 0, "log_partition": 0, "old_committed_offset": old,
        "new_committed_offset": new, "kind": kind, "log_offset": log_offset, "timestamp_ms": 100, **more,
    }  # fmt: skip


def stored(group_id: str, committed_offset: int, log_offset: int) -> dict[str, Any]:
    where = {"group_id": group_id, "topic": "t", "partition": 0, "log_partition": 0, "log_offset": log_offset}
    return {**where, "committed_offset": committed_offset}


def world() -> Rows:
    """a was set; b expired; c was deleted and set again; d may have been either; e was put back, its group is gone."""
    return {
        TABLE: [
            change("a", "set", None, 5, 10),
            change("b", "expired", 5, None, 11, due_at_ms=100),
            change("c", "deleted", 5, None, 12),
            change("c", "set", None, 5, 13),
            change("d", "ambiguous", 5, None, 14, candidates=["expired", "deleted"]),
            change("e", "restored", 4, 5, 15, by_plan_id="p"),
        ],
        "committed_offsets": [stored("a", 5, 10), stored("c", 5, 13), stored("untouched", 1, 1)],
        "unreachable_offsets": [stored("e", 5, 15)],
    }


def counts(rows: Rows) -> dict[str, int]:
    tables = {
        name: pa.Table.from_pylist(own, schema=TABLES[name].arrow_schema(with_run=False)) for name, own in rows.items()
    }
    return {name: count for name, count in broken_laws(tables, CHANGE_LAWS).items() if count}


def test_the_laws_hold() -> None:
    assert counts(world()) == {}
    assert counts({name: [] for name in world()}) == {}


def _put(index: int, **values: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[TABLE][index].update(values)


BROKEN: dict[str, tuple[Callable[[Rows], object], dict[str, int]]] = {
    "set to what it was": (_put(5, old_committed_offset=5), {"no_change": 1}),
    "set to nothing": (_put(0, new_committed_offset=None), {"no_change": 1, "other_end": 1}),
    "gone with a new value": (_put(1, new_committed_offset=1), {"not_gone": 1}),
    "gone without an old one": (_put(1, old_committed_offset=None), {"not_gone": 1}),
    "expired too early": (_put(1, due_at_ms=101), {"not_due": 1}),
    "ambiguous without candidates": (_put(4, candidates=None), {"candidates": 1}),
    "ambiguous with one": (_put(4, candidates=["expired"]), {"candidates": 1}),
    "decided with candidates": (_put(2, candidates=["expired", "deleted"]), {"candidates": 1}),
    "another end": (_put(0, new_committed_offset=6), {"other_end": 1}),
    "another place": (_put(0, log_offset=9), {"other_end": 1}),
    "still there": (lambda rows: rows["committed_offsets"].append(stored("b", 5, 1)), {"other_end": 1}),
    "not there": (lambda rows: rows["committed_offsets"].pop(0), {"other_end": 1}),
    "set twice": (lambda rows: rows[TABLE].append(change("a", "set", None, 5, 10)), {"set_twice": 1}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_law_sees_what_breaks_it(name: str) -> None:
    rows = world()
    breaks, expected = BROKEN[name]
    breaks(rows)
    assert counts(rows) == expected


def test_every_law_is_broken_once() -> None:
    assert {measure for _, expected in BROKEN.values() for measure in expected} == {law.name for law in CHANGE_LAWS}
