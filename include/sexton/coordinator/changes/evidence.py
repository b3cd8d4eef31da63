"""What the log shows of a disappearance, in words: the column `evidence` of offset_changes."""

from collections.abc import Sequence

from sexton.coordinator.changes.change import Kind
from sexton.coordinator.changes.rules import Case, Scene, is_due, since_unknown, topics_around
from sexton.log.entry import NO_PRODUCER_ID


def evidence_of(case: Case, told: Sequence[Kind], scene: Scene, *, fits: bool) -> str:
    """What the log shows, as a sentence."""
    write, count = scene.write, len(case.removed)
    total = count + len(case.kept)
    whole = "the only offset of the group" if count == 1 else f"all {count} offsets of the group"
    parts = [f"{count} of the group's {total} offsets" if case.kept else whole]
    if case.has_group_tombstone:
        parts[0] += " and the group itself"
    if len(scene.cases) > 1:
        others = len(scene.cases) - 1
        parts.append(f"in one write with {others} other group{'s' if others > 1 else ''}")
    if write.producer_id != NO_PRODUCER_ID:
        parts.append(f"written by producer {write.producer_id}: no coordinator writes tombstones so")
    elif not fits:
        release = scene.profile.text
        parts.append(f"no operation of {release} writes that: another release did (--profile), or a producer past it")
    elif not write.is_whole:
        parts.append("records are missing before it, so that little can be ruled out")
    parts.append(_dueness(case, scene))
    if Kind.TOPIC_DELETED in told:
        _, after = topics_around(scene)
        gone = sorted({topic for topic, _ in case.removed if after is not None and topic not in after.ids})
        if gone:
            parts.append(f"gone since: {', '.join(gone)}")
    return "; ".join(part for part in parts if part)


def _dueness(case: Case, scene: Scene) -> str:
    at_ms, retentions, group = scene.write.timestamp_ms, scene.known.retentions_ms, case.group
    if at_ms is None:
        return "without a timestamp nobody can tell what was due"
    if group is None or not retentions or not scene.write.is_whole:
        return ""
    if any(since_unknown(offset, group, scene.profile) for offset in case.removed.values()):
        return "the log does not say since when the group was empty"
    due = sum(
        any(is_due(key, offset, case, group, scene, retention_ms, at_ms) for retention_ms in retentions)
        for key, offset in case.removed.items()
    )
    left = sum(
        all(is_due(key, offset, case, group, scene, retention_ms, at_ms) for retention_ms in retentions)
        for key, offset in case.kept.items()
    )
    told = "due" if due == len(case.removed) else f"{due} of them due" if due else "not due"
    return f"{told}, and {left} more that stayed" if left else told
