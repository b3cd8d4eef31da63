"""The history of a group from admin snapshots: what changed between one admin snapshot and the next, and what is due
when.

An admin snapshot does not show when a change happened, only that it happened since the last admin snapshot with an
answer. Removals have all possible causes, from `admin_difference`.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import groupby

from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotSeries
from sexton.as_text import MINUTE_MS
from sexton.coordinator.expiry import CHECK_INTERVAL, DEFAULT_CHECK_INTERVAL_MS
from sexton.coordinator.profile import Profile
from sexton.history.admin_difference import Observation, Seen, add_causes, judge_snapshot, observations
from sexton.history.events import COMMITTED, NOWHERE, SHORT_ID, Event, NextVerdict, Story

_SHOWN = 6


def admin_story(
    series: SnapshotSeries,
    snapshot: AdminSnapshot,
    group_id: str,
    *,
    is_requested: Callable[[str, int], bool],
    retention_minutes: int | None,
    profile: Profile,
) -> Story:
    """The history of a group up to `snapshot`, from all earlier admin snapshots, too; UsageError when `snapshot` is
    damaged.

    `retention_minutes` is the requested retention; None: the broker's retention in the admin snapshots.
    """
    own = series.of_groups([group_id])
    last = Seen(own.rows(snapshot))
    seen = [last, *map(Seen, own.before(snapshot.taken_at_ms))][::-1]
    found = [one for one in observations(seen, group_id) if one.key is None or is_requested(*one.key)]
    asked_ms = None if retention_minutes is None else retention_minutes * MINUTE_MS
    add_causes(own, found, retention_ms=asked_ms, profile=profile)
    shown_ms = (snapshot.metadata.retention_minutes or profile.default_retention_minutes) * MINUTE_MS
    interval_ms = int(snapshot.metadata.settings.get(CHECK_INTERVAL, DEFAULT_CHECK_INTERVAL_MS))
    judged, groups = judge_snapshot(
        own,
        snapshot,
        retention_ms=asked_ms or shown_ms,
        sweep_ms=None if asked_ms else interval_ms,
        profile=profile,
    )
    return Story(
        state=last.there(group_id).words,
        events=[_event([*alike]) for _, alike in groupby(sorted(filter(_is_shown, found), key=_order), key=_order)],
        next_verdicts=[
            NextVerdict.from_row(row)
            for row in judged.sort_by([("topic", "ascending"), ("partition", "ascending")]).to_pylist()
            if is_requested(row["topic"], row["partition"])
        ],
        log_partition=groups["home_log_partition"][0].as_py() if groups.num_rows else None,
        notes=[
            f"coverage {series.coverage}: {series.source}, the log is not read: {snapshot.reason}",
            *(f"an admin snapshot is left out: {why}" for why in own.damaged.values()),
        ],
    )


def _is_shown(one: Observation) -> bool:
    """Whether the story includes an observation: repeated commits of the same offset are left out, and changes of a
    group that do not change its words."""
    part = 1 if one.key is None else 0
    before, after = ("" if each is None else each[part] for each in (one.before, one.after))
    return bool(before != after)


def _order(one: Observation) -> tuple[int, int, list[str], list[str]]:
    """The key by which observations are sorted and joined into events: the admin snapshot, and in it the group's new
    state, commits, removals by cause, and the end of the group."""
    part = 1 + one.is_gone if one.key is not None else 0 if one.after[1] else 3
    causes = (one.candidates, one.plan_ids) if one.is_gone else ([], [])
    return one.has.snapshot.taken_at_ms, part, *causes


def _event(some: list[Observation]) -> Event:
    first = some[0]
    if first.key is None:
        what = "removed" if not first.after[1] else "became" if first.before and first.before[1] else "appeared"
        detail = first.after[1] or "the group is gone"
    else:
        what = " or ".join(first.candidates) if first.is_gone else COMMITTED
        plans = "".join(f"; plan {plan_id[:SHORT_ID]} may have" for plan_id in first.plan_ids)
        values = [f"{key[0]}-{key[1]} at {(one.after or one.before)[0]}" for one in some if (key := one.key)]
        more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
        detail = f"{', '.join(values[:_SHOWN])}{more}{plans}"
    since_ms = min((one.had.snapshot.taken_at_ms for one in some if one.had is not None), default=None)
    after = (
        ", at the first admin snapshot" if since_ms is None else f", since the admin snapshot of {_instant(since_ms)}"
    )
    return Event(
        timestamp_ms=first.changed_by_ms,
        log_offset=NOWHERE,
        what=what,
        detail=f"{detail}{after}",
        causes=tuple(first.candidates) if first.is_gone else (),
    )


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
