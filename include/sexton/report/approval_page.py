"""What people read before they approve a plan, a restore or a standing approval: Markdown in which names from the log
are harmless.

Anybody may choose the letters of a group id. A name is shown as a code span, without markup or links, and every letter
with a meaning in Markdown's code spans and tables, in HTML or in a template engine is spelled out (`‹U+003C›`), as
`names` does with invisible letters. So the text is safe wherever it is shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.as_text import count, duration, instant, size
from sexton.execution.restore.restore_plan import RestorePlan
from sexton.execution.standing_approval import Terms
from sexton.plans.plan import Losses, Plan
from sexton.policy import Match, Policy
from sexton.policy.field_types import FOREVER_MS
from sexton.report.meanings import beyond_broker_sentence
from sexton.report.names import harmless, short

GROUPS_SHOWN = 50
OFFSETS_SHOWN = 50
SENTENCES_SHOWN = 20
_SENTENCE_CHARS = 400
_OFFSET_RECORDS = pa.array([0, 1], pa.int32())
_MEANT = "`<>&{}|\\\"'$"
_SPELLED = {ord(char): f"‹U+{ord(char):04X}›" for char in _MEANT}
_PLAN_QUESTION = "Approving deletes what this plan names from the cluster, by the sink `{}`."
PLAN_QUESTIONS = {
    "coordinator": _PLAN_QUESTION.format("coordinator"),
    "log": _PLAN_QUESTION.format("log") + "\n\n**Sink `log`**: tombstones are written into the offsets topic itself, "
    "past the group coordinators. They go on answering from memory until they load the log partition again. A "
    "coordinator of Kafka 4.x does so at the next commit to it, and answers that commit NOT_COORDINATOR.",
}
"""Sink -> the sentence that an approver reads above the plan."""
RESTORE_QUESTION = "Approving commits these offsets again."
KEEP_QUESTION = (
    "Approving lets every run of `keep_offsets` carry out these holds without asking again, until the end: offsets "
    "that the broker would expire are committed once more as they are, Empty groups are joined and left."
)


def span(name: str | None) -> str:
    """A name from the log as a code span; `-` for None. Long names keep both ends."""
    return "-" if name is None else f"`{short(name).translate(_SPELLED)}`"


def sentence_span(text: str) -> str:
    """A sentence that may quote names from the log, as a code span."""
    cut = text if len(text) <= _SENTENCE_CHARS else f"{text[:_SENTENCE_CHARS]}…"
    return f"`{harmless(cut).translate(_SPELLED).strip() or '-'}`"


def plan_text(plan: Plan) -> str:
    """A plan: what it deletes that the broker would keep, its size, losses by rule and owner, groups and warnings."""
    record, counts = plan.record, plan.record.counts
    most = "unknown" if record.max_message_bytes is None else size(record.max_message_bytes)
    facts = {
        "plan": f"`{record.plan_id}`",
        "sha256": f"`{plan.sha256}`",
        "cluster": span(record.cluster_id),
        "as of": instant(record.as_of_ms),
        "tombstones": f"{count(counts['tombstones'])} ({count(counts['offsets'])} committed offsets)",
        "groups affected": f"{count(counts['groups_losing'])} of {count(counts['groups_total'])}",
        "groups deleted as a whole": count(counts["groups_deleted"]),
        "retention": duration(record.retention_ms),
        "policy": "none" if record.policy_sha256 is None else f"`{record.policy_sha256}`",
        "largest batch": f"{size(record.largest_batch_bytes)}, maximum {most}",
        "made by": span(record.code_version),
        "kept in": sentence_span(plan.folder),
    }
    if record.basis.sentence is not None:
        facts["coverage"] = record.basis.sentence
    return _joined(
        f"**{beyond_broker_sentence(record)}**",
        _facts(facts),
        _titled("Over the limits: this plan is never applied", map(sentence_span, record.over_limits)),
        _titled("Warnings", map(sentence_span, record.warnings)),
        _table("By rule and owner", ("rule", "owner", "offsets", "groups", "whole groups", "reason", "ticket"),
               [_loss(loss) for loss in record.losses]),
        _table("Groups, the largest losses first", ("group", "offsets", "other records"), _groups(plan),
               most=GROUPS_SHOWN),
    )  # fmt: skip


def restore_text(restore: RestorePlan) -> str:
    """A restore: the number of offsets of each kind, and the offsets that would be written."""
    facts = {
        "restore": f"`{restore.restore_id}`",
        "cluster": span(restore.cluster_id),
        "values from": sentence_span(restore.source),
        "would be written": f"{count(len(restore.items))} of {count(len(restore.rows))} offsets",
        "overwrites newer commits": "yes" if restore.overwrites else "no",
        "moves offsets into the log": "yes" if restore.clamps else "no",
    }
    rows = [
        [span(row.group_id), span(row.topic), str(row.partition),
         "-" if row.now is None else str(row.now.committed_offset),
         "-" if row.put is None else str(row.put.committed_offset), row.what.value.replace("_", " ")]
        for row in restore.items
    ]  # fmt: skip
    kinds = [[what.replace("_", " "), count(number)] for what, number in restore.counts().items()]
    return _joined(
        _facts(facts),
        "What a restore cannot bring back: commit timestamps (retention starts again), and a group's type, generation "
        "and members.",
        _titled("Warnings", map(sentence_span, restore.warnings)),
        _table("By kind", ("kind", "offsets"), kinds),
        _table("Offsets", ("group", "topic", "partition", "now", "then", "kind"), rows, most=OFFSETS_SHOWN),
    )


def terms_text(terms: Terms, policy: Policy) -> str:
    """The terms of a standing approval, and the holds that it lets runs carry out."""
    facts = {
        "cluster": span(terms.cluster_id),
        "policy": f"`{terms.policy_sha256}`",
        "groups": ", ".join(map(span, terms.patterns)),
        "offsets an hour, at most": count(terms.max_offsets_per_hour),
        "joins an hour, at most": count(terms.max_joins_per_hour),
        "ends": f"{terms.days} days after the answer, with another policy, or when it is revoked",
    }
    rows = [
        [span(hold.name), span(hold.owner), sentence_span(_match_text(hold.match)),
         "always" if hold.keep_ms == FOREVER_MS else f"{duration(hold.keep_ms)} after the last commit",
         "yes" if hold.restore else "no", span(hold.reason), span(hold.ticket)]
        for hold in policy.holds
        if hold.keep_ms is not None
    ]  # fmt: skip
    return _joined(
        _facts(facts),
        _table("Holds", ("hold", "owner", "match", "keeps", "restores", "reason", "ticket"), rows),
    )


def _match_text(match: Match) -> str:
    keys = match.model_dump(exclude_none=True)
    return "; ".join(f"{name}: {' or '.join(words)}" for name, words in keys.items())


def _groups(plan: Plan) -> list[list[str]]:
    """A row for each group: how many of its committed offsets and other records are deleted."""
    is_offset = pc.cast(pc.is_in(plan.tombstones["record_type"], value_set=_OFFSET_RECORDS), pa.int64())
    rows = pa.table({"group_id": plan.tombstones["group_id"], "is_offset": is_offset})
    counted = rows.group_by("group_id").aggregate([("is_offset", "sum"), ("is_offset", "count")])
    ordered = counted.sort_by([("is_offset_count", "descending"), ("group_id", "ascending")])
    return [
        [span(row["group_id"]), count(row["is_offset_sum"]), count(row["is_offset_count"] - row["is_offset_sum"])]
        for row in ordered.to_pylist()
    ]


def _loss(loss: Losses) -> list[str]:
    numbers = [count(loss.offsets), count(loss.groups), count(loss.deleted_groups)]
    return [span(loss.cause), span(loss.owner), *numbers, span(loss.reason), span(loss.ticket)]


def _facts(facts: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())])


def _titled(title: str, lines: Iterable[str]) -> str:
    items = list(lines)
    if not items:
        return ""
    return "\n".join(
        [f"**{title}**", "", *(f"- {line}" for line in items[:SENTENCES_SHOWN]), *_more(items, SENTENCES_SHOWN)]
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, most: int | None = None) -> str:
    if not rows:
        return ""
    shown = rows[:most]
    lines = [" | ".join(columns), "|".join("---" for _ in columns), *(" | ".join(row) for row in shown)]
    return "\n".join([f"**{title}**", "", *(f"| {line} |" for line in lines), *_more(rows, len(shown))])


def _more(items: Sequence[Any], shown: int) -> list[str]:
    left = len(items) - shown
    return ["", f"and {count(left)} more"] if left > 0 else []


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
