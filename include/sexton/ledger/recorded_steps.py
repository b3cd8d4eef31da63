"""State derived from all entries of a ledger: each step with its results, and the offsets that plans removed or
restored."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.files import child_folders
from sexton.archive.folder import filesystem
from sexton.as_text import DAY_MS, HOUR_MS
from sexton.coordinator.changes.model import OwnAction
from sexton.coordinator.offsets import OffsetKey
from sexton.errors import SextonError
from sexton.ledger.entries import EMPTY_SINCE, WRITTEN, Action, Claim, Entry, Intent, Item, ItemId, Result, StepOutcome
from sexton.ledger.ledger import Ledger, ledgers_folder
from sexton.runs.folder import RunRecord
from sexton.settings import settings
from sexton.verdicts.keeping import NOTHING_DONE, KeepStep, KeepSteps

_LATEST_MS = HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """An intent and its outcome: the result of each item, with the entry that has it.

    If an item has several results (from the intent's attempt and from attempts that settled it), a written outcome
    counts, else the last result.
    """

    entry: Entry
    intent: Intent
    results: Mapping[ItemId, tuple[Result, Entry]]

    @property
    def is_open(self) -> bool:
        """Whether any of its items has no outcome yet."""
        return any(map(self.is_open_for, self.intent.items))

    def is_open_for(self, item: Item) -> bool:
        """Whether an item of the intent has no outcome yet."""
        known = self.results.get(item.item_id)
        return known is None or known[0].outcome == "unknown"

    def is_doubtful_for(self, item: Item) -> bool:
        """Whether the item's outcome is known only from admin snapshots, and these show a newer offset in its place."""
        known = self.results.get(item.item_id)
        return known is not None and known[0].outcome == "not_done" and known[0].found is not None


def recorded_steps(entries: Sequence[Entry]) -> list[RecordedStep]:
    """Every intent of a ledger with its results, in order."""
    results: dict[tuple[int, int], dict[ItemId, tuple[Result, Entry]]] = {}
    for entry in entries:
        if isinstance(entry.body, StepOutcome):
            of_step = results.setdefault((entry.body.of_attempt, entry.body.step), {})
            for result in entry.body.items:
                if result.item_id not in of_step or of_step[result.item_id][0].outcome not in WRITTEN:
                    of_step[result.item_id] = result, entry
    return [
        RecordedStep(entry=entry, intent=entry.body, results=results.get((entry.attempt, entry.body.step), {}))
        for entry in entries
        if isinstance(entry.body, Intent)
    ]


def results_beyond(entries: Iterable[Entry]) -> Iterator[tuple[Item, Result, Entry]]:
    """Every item with a result that no intent names, its result, and the entry that has both."""
    for entry in entries:
        if isinstance(entry.body, StepOutcome):
            results = {result.item_id: result for result in entry.body.items}
            yield from ((item, results[item.item_id], entry) for item in entry.body.beyond)


def _ledgers(
    fs: pafs.FileSystem, root: str, cluster_id: str, since_ms: int | None
) -> Iterator[tuple[str, list[Entry]]]:
    """The plan id and the entries of each ledger, without those that were closed before `since_ms`."""
    for plan_id in child_folders(fs, ledgers_folder(root, cluster_id)):
        ledger = Ledger(fs, root, cluster_id, plan_id)
        if since_ms is None or not ledger.is_over(before_ms=since_ms):
            yield plan_id, ledger.entries()


def own_actions(
    fs: pafs.FileSystem, root: str, cluster_id: str, *, since_ms: int | None = None
) -> tuple[dict[OffsetKey, list[OwnAction]], dict[OffsetKey, list[OwnAction]]]:
    """All offsets that plans of Sexton removed and restored: (removed, restored), each by offset.

    The instant of an action is the broker's timestamp where the record is in the log, else the writer's clock. An
    intended action without an outcome, or with a doubtful one, may have taken effect up to an hour later: no broker
    keeps a request for longer. A ledger that was closed before `since_ms` is not read.
    """
    removed: dict[OffsetKey, list[OwnAction]] = {}
    restored: dict[OffsetKey, list[OwnAction]] = {}
    for plan_id, entries in _ledgers(fs, root, cluster_id, since_ms):
        for action, key, own in _own_actions(plan_id, entries):
            actions = removed if action == "tombstone" else restored
            if own not in actions.setdefault(key, []):
                actions[key].append(own)
    return removed, restored


def keep_steps(
    fs: pafs.FileSystem, root: str, cluster_id: str, *, since_ms: int | None = None, until_ms: int | None = None
) -> KeepSteps:
    """What `sexton keep` has done up to an instant. A ledger that was closed before `since_ms` is not read.

    A repeated commit without an outcome is recognized by its producer id; a join without an outcome counts as a
    client's.
    """
    commits: dict[tuple[OffsetKey, int], int] = {}
    by_log_offset: dict[tuple[OffsetKey, int], int] = {}
    states: dict[tuple[str, int], int] = {}
    last: dict[OffsetKey, KeepStep] = {}

    def take(key: OffsetKey, result: Result | None, at_ms: int) -> None:
        if key not in last or last[key].at_ms <= at_ms:
            is_known = result is not None and result.outcome != "unknown"
            outcome, error = (result.outcome if is_known else None, result.error) if result else (None, None)
            last[key] = KeepStep(at_ms=at_ms, outcome=outcome, error=error)

    for _, every in _ledgers(fs, root, cluster_id, since_ms):
        entries = [entry for entry in every if until_ms is None or entry.at_ms <= until_ms]
        if not entries or action_of(entries) != "keep":
            continue
        for item, result, entry in results_beyond(entries):
            if item.key:
                take(item.key, result, entry.at_ms)
        for step in recorded_steps(entries):
            checks = step.intent.checks
            for item in step.intent.items:
                known, entry = step.results.get(item.item_id, (None, step.entry))
                if item.key is None:
                    continue
                take(item.key, known, entry.at_ms)
                value = item.after or item.before
                client_ms = None if value is None else value.commit_timestamp_ms
                place = None if known is None else known.written_log_offset
                if client_ms is not None and checks.get("producer_id") is not None:
                    commits[item.key, checks["producer_id"]] = client_ms
                    if place is not None:
                        by_log_offset[item.key, place] = client_ms
                if place is not None and checks.get(EMPTY_SINCE) is not None:
                    states[item.group_id, place] = checks[EMPTY_SINCE]
    return KeepSteps(commits=commits, by_log_offset=by_log_offset, states=states, last=last)


def keep_steps_of(record: RunRecord) -> KeepSteps:
    """What `sexton keep` did to the offsets of a run, as far back as the broker's retention at the run's instant goes.

    Read from the run's archive, else from the archive of the settings; nothing if there is no archive.
    """
    since_ms = record.as_of_ms - max(record.retention_ms, record.broker_retention_ms or 0) - DAY_MS
    try:
        fs, root = filesystem(record.source if record.positions else settings().archive_uri)
        return keep_steps(fs, root, record.cluster_id, since_ms=since_ms, until_ms=record.as_of_ms)
    except (SextonError, OSError):
        if record.positions:
            raise
        return NOTHING_DONE


def action_of(entries: Sequence[Entry]) -> str:
    """The action of a plan or restore, from its first claim; a claim that names none is for a deletion."""
    claim = entries[0].body
    return str(claim.about.get("action", "tombstone")) if isinstance(claim, Claim) else "tombstone"


def _own_actions(plan_id: str, entries: Sequence[Entry]) -> Iterator[tuple[Action, OffsetKey, OwnAction]]:
    """Yield the actions that took effect, and those that may have. No intent names offsets that only a race removed.

    When a call was repeated, the first call may have been late and may be the one that took effect. Therefore the first
    intent counts.
    """
    steps = recorded_steps(entries)
    items = {item.item_id: (step.intent.action, item) for step in steps for item in step.intent.items}
    first_ms = {item.item_id: step.entry.at_ms for step in reversed(steps) for item in step.intent.items}
    for step in steps:
        for item in step.intent.items:
            if item.key is not None and (step.is_open_for(item) or step.is_doubtful_for(item)):
                begun_ms, action = step.entry.at_ms, step.intent.action
                yield action, item.key, _own_action(plan_id, action, begun_ms, begun_ms + _LATEST_MS)
    for entry in entries:
        if not isinstance(entry.body, StepOutcome):
            continue
        beyond = {item.item_id: item for item in entry.body.beyond}
        for result in entry.body.items:
            action, item = items.get(result.item_id) or ("tombstone", beyond[result.item_id])
            if item.key is None or result.outcome not in WRITTEN:
                continue
            at_ms = result.written_timestamp_ms
            span = (first_ms.get(item.item_id, entry.at_ms), entry.at_ms) if at_ms is None else (at_ms, at_ms)
            yield action, item.key, _own_action(plan_id, action, *span)


def _own_action(plan_id: str, action: Action, first_ms: int, last_ms: int) -> OwnAction:
    return OwnAction(plan_id=plan_id, intent_at_ms=first_ms, outcome_at_ms=last_ms, keeps=action == "keep")
