"""What must hold for every log: the serial replay, the kernels and the closed form tell the same."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator import expiry
from sexton.coordinator.loading import Loaded
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.kernels import fold as fold_module
from sexton.kernels.fold import PartialFold, merge
from sexton.kernels.results import finish
from sexton.tables import FATES
from sexton.verdicts.expiry import held_offsets, judge_unblocked, plan, sweep_block, under_block
from tests import plain_sweep
from tests.campaign.closed_form import Outcome, closed_form
from tests.campaign.compaction import compact
from tests.campaign.histories import is_old
from tests.campaign.packs import Pack, Placed
from tests.campaign.records import OffsetKey
from tests.fates import fates_of, load
from tests.kernels.compare import CAP_BYTES, UNORDERED, assert_equal, fold_bytes, fold_slices, tables_of
from tests.log_builder import BASE_MS
from tests.oracle import oracle_tables

Tables = Mapping[str, pa.Table]
NEWEST = profile_of("group_coordinator:4.3.1")
PROFILES = [
    NEWEST, profile_of("group_coordinator:4.4"), profile_of("group_coordinator:4.0.0"),
    profile_of("group_coordinator:3.9"), profile_of("group_metadata_manager:3.9"),
    profile_of("group_metadata_manager:2.8"), profile_of("group_metadata_manager:2.0"),
]  # fmt: skip
OLD_PROFILES = [
    NEWEST, profile_of("group_metadata_manager:2.8"), profile_of("group_metadata_manager:0.10.1"),
    profile_of("offset_manager:0.10.0"), profile_of("offset_manager:0.9"), profile_of("offset_manager:0.8.2"),
]  # fmt: skip
"""For logs in the record formats before transactions."""
RETENTIONS_MS = (1, 1_000, 5_000, 12_000)
FARTHEST_MS = (1 << 63) - 1
_MAX_BORDERS = 12
_SWEEPS = 3
_SHOWN = 3


class Difference(AssertionError):
    """Two ways of telling what a log holds that do not agree, and where."""


def check(whole: Pack, rng: Random) -> None:
    """Hold all ways of reading the pack against one another; raises Difference at the first that differs.

    The kernels are held against the closed form by every profile, and against the serial replay, which costs ten times
    as much, by the newest and one other.
    """
    profiles = OLD_PROFILES if is_old(whole.placed[0].history.index) else PROFILES
    replayed, partition_count = (NEWEST, rng.choice(profiles[1:])), rng.choice((None, 1, 4))
    for profile in profiles:
        fold = fold_bytes(whole.log, profile=profile)
        tables = finish(fold, log_partition=0, partition_count=partition_count)
        expected = closed_form(whole.placed, profile)
        _same(f"kernels and closed form, {profile.text}", _told_by_tables(tables), expected)
        if profile in replayed:
            _check_replay(whole, fold, tables, expected, partition_count, rng)
        if profile.folds_in_slices:
            _check_pieces(whole, tables, profile, partition_count, rng)
    _check_compaction(whole, rng)


def _check_replay(
    whole: Pack, fold: PartialFold, tables: Tables, expected: Outcome, partition_count: int | None, rng: Random
) -> None:
    """The serial replay against the closed form and the kernels, and what both sweeps make of it."""
    plain = load([whole.log], cap_bytes=CAP_BYTES, profile=fold.profile)
    where = plain.profile.text
    _same(f"serial replay and closed form, {where}", _told(plain), expected)
    if fates_of(plain).total() != plain.counters["read_values"]:
        raise Difference(f"not every value has one fate, {where}: {fates_of(plain)} of {plain.counters}")
    _same_tables(f"kernels and serial replay, {where}", fold, plain, partition_count)
    for _ in range(_SWEEPS):
        check_sweep(tables, plain, retention_ms=rng.choice(RETENTIONS_MS), now_ms=_instant(rng))


def _check_pieces(whole: Pack, tables: Tables, profile: Profile, partition_count: int | None, rng: Random) -> None:
    """Cut anywhere and merged in any grouping of neighbours, the folds of the pieces are that of the whole."""
    starts = [0, *accumulate(map(len, whole.batches))]
    borders = sorted(
        rng.choice(starts) if rng.random() < 0.5 else rng.randrange(len(whole.log) + 1)
        for _ in range(rng.randint(1, _MAX_BORDERS))
    )
    with patch.object(fold_module, "PRUNED_FROM_KEYS", rng.choice((0, fold_module.PRUNED_FROM_KEYS))):
        folds = fold_slices(whole.log, borders, profile=profile)
        while len(folds) > 1:
            at = rng.randrange(len(folds) - 1)
            folds[at : at + 2] = [merge(folds[at], folds[at + 1])]
    merged = finish(folds[0], log_partition=0, partition_count=partition_count)
    for name, table in tables.items():
        told, expected = _rows(merged[name], name), _rows(table, name)
        _same(f"merged pieces and one pass, {profile.text}: {name}, cut at {borders}", told, expected)


def _check_compaction(whole: Pack, rng: Random) -> None:
    """The cleaner takes nothing that the offsets of a 4.x coordinator depend on, nor its groups and their members."""
    before, after = (
        finish(fold_bytes(one.log), log_partition=0, partition_count=None) for one in (whole, compact(whole, rng))
    )
    expected, told = closed_form(whole.placed, NEWEST), _told_by_tables(after)
    _same("compacted log and closed form of the whole: committed", told.committed, expected.committed)
    _same("compacted log and closed form of the whole: pending", told.pending, expected.pending)
    # A record that no broker loads keeps the one before it in a table, until the cleaner takes that.
    clean = {str(index) for index, batches in whole.by_history().items() if _is_clean_and_loads(batches)}
    for name in ("groups", "members"):
        _same(f"compacted and whole log: {name}", _rows_of(after[name], clean), _rows_of(before[name], clean))


def _is_clean_and_loads(batches: Sequence[Placed]) -> bool:
    if not batches[0].history.is_clean:
        return False
    return not load([Pack(batches).log], cap_bytes=CAP_BYTES, profile=NEWEST).load_would_fail


def _rows_of(table: pa.Table, histories: Collection[str]) -> list[dict[str, Any]]:
    """Groups or members of some histories, without the places of their records.

    Simple groups without offsets are left out: the tombstones of their offsets keep them, which the cleaner may take.
    """
    rows = [{**row, "log_offset": None} for row in table.to_pylist() if row["group_id"].split("/")[0] in histories]
    return [row for row in rows if "protocol_type" not in row or not _is_simple_and_void(row)]


def _is_simple_and_void(group: Mapping[str, Any]) -> bool:
    is_simple = group["group_type"] == "Classic" and group["protocol_type"] is None and not group["member_count"]
    return is_simple and not group["offset_count"] + group["pending_count"]


def check_sweep(tables: Tables, plain: Loaded, *, retention_ms: int, now_ms: int) -> None:
    """The verdict on every offset that a group holds, and the plan."""
    profile = plain.profile
    rules = {"retention_ms": retention_ms, "now_ms": now_ms}
    block = expiry.sweep_block(plain, **rules)
    offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
    state = offsets, tables["groups"], tables["pending_offsets"]
    where = f"{profile.text}, retention {retention_ms} ms at {now_ms}"
    (profiles,) = tables["load_profile"].to_pylist()
    told = expiry.block_in(profiles) or sweep_block(*state, **rules, profile=profile)
    _same(f"what makes the sweep fail by kernels and serial rules, {where}", told, block)
    judged = judge_unblocked(*state, **rules, profile=profile)
    _check_verdicts(under_block(judged, told, now_ms=now_ms), plain, block, where=where, **rules)
    # One group is enough to make a sweep of thousands fail: what it would do without is compared as well.
    _check_verdicts(judged, plain, None, where=f"{where}, unblocked", **rules)
    expires = pc.equal(judged["broker_verdict"], "expire")
    planned = plan(offsets, expires, tables["groups"], tables["group_tombstones"], profile=profile)
    swept = plain_sweep.sweep_unblocked(plain, **rules)
    rows = [plain_sweep.Tombstone(**row) for row in planned.drop_columns(["target_row"]).to_pylist()]
    _same(f"plans of kernels and serial rules, {where}", rows, swept)
    is_failing = block is not None and block.is_on(now_ms)
    _same(f"the sweep, {where}", plain_sweep.sweep(plain, **rules), [] if is_failing else swept)


def _check_verdicts(
    judged: pa.Table,
    plain: Loaded,
    block: expiry.SweepBlock | None,
    *,
    retention_ms: int,
    now_ms: int,
    where: str,
) -> None:
    profile, groups, held = plain.profile, plain.groups.by_id, plain.state.pending_keys()
    verdicts = {tuple(row[:3]): tuple(row[3:]) for row in zip(*judged.to_pydict().values(), strict=True)}
    expected = {}
    for key, offset in plain.offsets.items():
        if key[0] in groups:
            found = expiry.verdict(
                offset, key[1], groups[key[0]], is_pending=key in held, retention_ms=retention_ms, now_ms=now_ms,
                profile=profile, block=block,
            )  # fmt: skip
            event = plain_sweep.changes_by(
                found, groups[key[0]], retention_ms=retention_ms, now_ms=now_ms, profile=profile
            )
            topics = groups[key[0]].subscribed_topics
            has_left = groups[key[0]].member_count > 0 and topics is not None and key[1] not in topics
            due = found.expires_at_ms, found.base_timestamp_ms
            expected[key] = (found.decision, found.reason, *due, event, has_left)
    _same(f"verdicts of kernels and serial rules, {where}", verdicts, expected)


def _instant(rng: Random) -> int:
    """An instant at which some of the offsets are due, mostly; on a whole second, so that many are just due."""
    if rng.random() < 0.05:
        return rng.choice((0, FARTHEST_MS))
    return BASE_MS + rng.randrange(40) * 1_000 + rng.choice((-1, 0, 0, 1))


# --- telling


def _told(plain: Loaded) -> Outcome:
    pending = {
        (producer_id, key): o.log_offset for producer_id, held in plain.pending.items() for key, o in held.items()
    }
    return Outcome(
        committed={key: offset.log_offset for key, offset in plain.offsets.items()},
        pending=pending,
        fates=_as_live(fates_of(plain)),
    )


def _told_by_tables(tables: Tables) -> Outcome:
    committed: dict[OffsetKey, int] = {}
    pending: dict[tuple[int, OffsetKey], int] = {}
    for name in ("committed_offsets", "unreachable_offsets"):
        committed.update(zip(_keys(tables[name]), tables[name]["log_offset"].to_pylist(), strict=True))
    rows = tables["pending_offsets"]
    for producer_id, key, log_offset in zip(
        rows["producer_id"].to_pylist(), _keys(rows), rows["log_offset"].to_pylist(), strict=True
    ):
        pending[producer_id, key] = log_offset
    (profile,) = tables["load_profile"].to_pylist()
    return Outcome(
        committed=committed, pending=pending, fates=_as_live(Counter({fate: profile[fate] for fate in FATES}))
    )


def _keys(table: pa.Table) -> list[tuple[str, str, int]]:
    return list(zip(*(table[name].to_pylist() for name in ("group_id", "topic", "partition")), strict=True))


def _as_live(fates: Counter[str]) -> Counter[str]:
    """The fates as the closed form tells them: what it has not got left out, unreachable offsets among the live."""
    told = Counter({fate: count for fate, count in fates.items() if count})
    told["live"] += told.pop("unreachable", 0)
    return +told


def _rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=repr) if name in UNORDERED else rows


def _same(what: str, told: object, expected: object) -> None:
    if told != expected:
        raise Difference(f"{what}\n{_unlike(told, expected)}")


def _same_tables(what: str, fold: PartialFold, plain: Loaded, partition_count: int | None) -> None:
    try:
        assert_equal(fold, plain, partition_count=partition_count)
    except AssertionError as error:
        got, want = tables_of(fold, partition_count=partition_count), oracle_tables(plain, 0, partition_count)
        unlike = _unlike(got.get(str(error)), want.get(str(error)))
        raise Difference(f"{what}: {error} of {partition_count}\n{unlike}") from error


def _unlike(told: object, expected: object) -> str:
    """Where the two differ, the first few places."""
    if isinstance(told, Outcome) and isinstance(expected, Outcome):
        pairs = [(getattr(told, name), getattr(expected, name)) for name in ("committed", "pending", "fates")]
        return "\n".join(_unlike(*pair) for pair in pairs if pair[0] != pair[1])
    if isinstance(told, dict) and isinstance(expected, dict):
        keys = [key for key in [*expected, *(told.keys() - expected.keys())] if told.get(key) != expected.get(key)]
        return "\n".join(f"  {key}: {told.get(key)} and {expected.get(key)}" for key in keys[:_SHOWN])
    if isinstance(told, list) and isinstance(expected, list):
        here, there = (
            [item for item in one if item not in other] for one, other in ((told, expected), (expected, told))
        )
        return "\n".join(
            f"  {side}: {item}" for side, items in (("here", here), ("there", there)) for item in items[:_SHOWN]
        )
    return f"  {told} and {expected}"
