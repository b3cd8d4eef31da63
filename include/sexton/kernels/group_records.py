"""Replays the group records that a fold kept, by `coordinator.groups`, which the plain replay uses too: there are few.

Those that cannot be decoded or replayed become rows and failures, as in `coordinator.group_coordinator`.
"""

import struct
from dataclasses import dataclass, field

from sexton.coordinator import decoding
from sexton.coordinator.decoding import Decoded, Undecodable
from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import new_groups
from sexton.errors import LogError, TransitionError
from sexton.kernels.layout import (
    GROUP_AT,
    GROUP_LENGTH,
    LAST_VALUE,
    NONE,
    R_AT,
    R_BASE_OFFSET,
    R_GROUP,
    R_KEY_SIZE,
    R_LAST_VALUE,
    R_LOG_OFFSET,
    R_VALUE_SIZE,
    RECORDS,
    State,
)
from sexton.kernels.slow_path import Found, keep, log_order
from sexton.log.batch import Record
from sexton.records import decode_key

_CLASSIC = b"\0\2"


@dataclass(slots=True)
class GroupRecords:
    """The group records of a fold, replayed."""

    profile: Profile
    groups: Groups
    rows_of: dict[str, int] = field(default_factory=dict)
    """Row in the fold's `groups` of every group with a record of its own, there or removed."""
    undecodable: Found = field(default_factory=list)
    undecodable_count: int = 0
    """With those that have no row."""
    failures: list[tuple[int, str]] = field(default_factory=list)
    live_records: dict[bytes, bool] = field(default_factory=dict)
    tombstones: int = 0

    def removed_classic(self) -> list[str]:
        """Classic groups whose last record of their own (type 2) is a tombstone."""
        return [
            decode_key(key)[1]["group_id"]
            for key, is_live in self.live_records.items()
            if not is_live and key[:2] == _CLASSIC
        ]


def replay_group_records(state: State, profile: Profile) -> GroupRecords:
    """Replay the group records; an offset value between two of a group's own makes it anew where it was removed."""
    replay = GroupRecords(profile, new_groups(profile))
    last_own: dict[int, int] = {}
    names = GroupNames(state)
    for row in state.records[: state.counts[RECORDS]].tolist():
        group, log_offset, last_value = row[R_GROUP], row[R_LOG_OFFSET], row[R_LAST_VALUE]
        if last_value > last_own.get(group, NONE):
            replay.groups.ensure_simple_group(names[group])
        last_own[group] = log_offset
        _replay_record(replay, state, row)
    for group in last_own:
        replay.rows_of[names[group]] = group
        if state.groups[group, LAST_VALUE] > last_own[group]:
            replay.groups.ensure_simple_group(names[group])
    return replay


@dataclass(slots=True)
class GroupNames:
    """Group ids by their row."""

    state: State

    def __getitem__(self, group: int) -> str:
        at, size = self.state.groups[group, [GROUP_AT, GROUP_LENGTH]].tolist()
        return self.state.key_bytes[at : at + size].tobytes().decode()


def _replay_record(replay: GroupRecords, state: State, row: list[int]) -> None:
    at, middle = row[R_AT], row[R_AT] + row[R_KEY_SIZE]
    key = state.record_bytes[at:middle].tobytes()
    value = None if row[R_VALUE_SIZE] < 0 else state.record_bytes[middle : middle + row[R_VALUE_SIZE]].tobytes()
    log_offset, base_offset = row[R_LOG_OFFSET], row[R_BASE_OFFSET]
    record = Record(log_offset=log_offset, timestamp_ms=-1, key=key, value=value)
    judged = decoding.decode(record, base_offset=base_offset, profile=replay.profile)
    if isinstance(judged, Undecodable):
        _tell(replay, log_offset, judged)
        return
    assert isinstance(judged, Decoded), "the loop keeps known types alone"
    replay.tombstones += value is None
    try:
        replay.groups.replay(judged.record_type, judged.key, judged.value, log_offset=log_offset)
    except TransitionError as error:
        if len(replay.failures) < decoding.MOST_UNDECODABLE:
            replay.failures.append((log_order(log_offset), f"log_offset {log_offset}: {error}"))
    except LogError as error:
        (record_type,) = struct.unpack_from(">h", key)
        refused = decoding.undecodable(
            record, error.reason, error.detail, base_offset=base_offset, record_type=record_type
        )
        _tell(replay, log_offset, refused)
    else:
        replay.live_records[key] = value is not None


def _tell(replay: GroupRecords, log_offset: int, row: Undecodable) -> None:
    replay.undecodable_count += 1
    keep(replay.undecodable, log_order(log_offset), row)
