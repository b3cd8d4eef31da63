"""What is proven by order and footers is what SQL finds unbroken, on sound runs and on ones that are changed anywhere.

`world.judged` compares both for every other test of expectations, too.
"""

import random
from typing import Any

import pytest

from sexton.quality.duckdb_checks import count_broken
from sexton.quality.suites import suites_of
from tests.quality import world
from tests.quality.world import RUN, Rows, proofs_of, row, tables_of

GROUPS = {part: sorted(world.group_at(part, f"group{number}-") for number in range(8)) for part in RUN.cuts}
BY_ROWS = {
    ("committed_offsets", "unique"),
    *(("offset_verdicts", name) for name in ("unique", "missing_verdicts", "without_offset")),
    *(("tombstones", name) for name in ("unique", "positions", "planned_twice", "left_out", "other_target")),
    *(("tombstones", name) for name in ("without_expire", "kept_or_held", "group_with_offsets")),
}
CHANGED = ("committed_offsets", "unreachable_offsets", "pending_offsets", "offset_verdicts", "tombstones", "groups")


def sound(drawn: random.Random) -> Rows:
    """Groups of some offsets, in the order of the tables; in one of three runs a share group, too, whose offsets the
    sweep finds behind all others."""
    rows = world.sound()
    for name in (*CHANGED, "members", "expiry_forecast"):
        rows[name] = []
    for part, groups in GROUPS.items():
        shared = drawn.choice([drawn.choice(groups), None, None])
        position, held = 0, []
        for group_id in groups:
            verdicts = [drawn.choice(("keep", "expire")) for _ in range(drawn.randrange(4))]
            for number, verdict in enumerate(verdicts):
                at = (group_id, part, 10 * groups.index(group_id) + number)
                if group_id == shared:
                    rows["unreachable_offsets"].append(world.offset("unreachable_offsets", *at, reason="share_group"))
                    held.append((*at, verdict))
                else:
                    rows["committed_offsets"].append(world.offset("committed_offsets", *at))
                    rows["offset_verdicts"].append(world.verdict(*at, verdict))
                if verdict == "expire":
                    rows["tombstones"].append(world.tombstone(position, at[2], log_partition=part, group_id=group_id))
                    position += 1
            if verdicts and "keep" not in verdicts:
                rows["tombstones"].append(world.tombstone(position, None, log_partition=part, group_id=group_id))
                position += 1
            if "expire" in verdicts:
                rows["expiry_forecast"].append(row("expiry_forecast", group_id=group_id, log_partition=part))
            rows["groups"].append(world.group(group_id, part, offset_count=0 if group_id == shared else len(verdicts)))
        rows["offset_verdicts"] += [world.verdict(*each) for each in held]
    return rows


@pytest.mark.parametrize("divided_at", ["", GROUPS[1][4]], ids=["whole", "buckets"])
def test_a_sound_run_is_proven(divided_at: str) -> None:
    for seed in range(6):
        rows = sound(random.Random(seed))
        found = proofs_of(tables_of(rows), divided_at="" if rows["unreachable_offsets"] else divided_at)
        suites = suites_of(RUN)
        assert found >= BY_ROWS, seed
        for table in CHANGED:
            kinds = {each.name for each in suites[table] if each.rule not in (None, "written", "columns", "unique")}
            assert {(table, kind) for kind in kinds if kind not in ("share_group",)} <= found, (seed, table)


def test_nothing_that_is_broken_is_proven(drawn: int, full: bool) -> None:
    """A value, a row or the order of rows is changed anywhere."""
    suites, refuted = suites_of(RUN), 0
    for number in range(20_000 if full else 60):
        seed = drawn * 1_000_000 + number
        source = random.Random(seed)
        rows = sound(source)
        change(rows, source)
        tables = tables_of(rows)
        claimed = proofs_of(tables, divided_at=source.choice(["", "", GROUPS[1][4]]))
        asked = {name: [each for each in suite if (name, each.name) in claimed] for name, suite in suites.items()}
        assert not any(count_broken(tables, asked, RUN).values()), seed
        refuted += len(BY_ROWS - claimed)
    assert refuted


def change(rows: Rows, source: random.Random) -> None:
    name = source.choice([name for name in CHANGED if len(rows[name]) > 1])
    table = rows[name]
    first, second = (source.randrange(len(table)) for _ in range(2))
    match source.randrange(5):
        case 0:
            table.pop(first)
        case 1:
            table.insert(second, dict(table[first]))
        case 2:
            table[first], table[second] = table[second], table[first]
        case _:
            column = source.choice(list(table[first]))
            table[first][column] = source.choice([None, table[second][column], _next(table[first][column])])


def _next(value: Any) -> Any:
    return value + 1 if type(value) is int else value
