"""What a difference between replicas means: its kind, which replica is right, and what shows it.

Pure rules about each replica's values of a key or a group (`sides`) and about the remaining tombstones and markers
(`evidence`). They rest on what Kafka's log cleaner may remove: a value only if the log has a later record of its key,
or if its transaction was aborted; a tombstone only after every older value of its key; a marker only after every value
of its transaction. So a replica that has neither a value nor a later record of its key has cleaned a tombstone away or
lost the value. And if a replica lacks a value but has an older value of the key, the missing value was aborted, not
superseded.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import partial

from sexton.as_text import DAY_MS
from sexton.replicas.evidence import GroupKey, ReplicaEvidence, Sighting
from sexton.replicas.sides import ReplicaSide, Row, Sides

_Transaction = tuple[int, int | None]
_Names = tuple[str, ...]
FORGOTTEN_MS = 7 * DAY_MS
"""Kafka's default of transactional.id.expiration.ms: after that time without a transaction, the next producer with the
same transactional id gets another producer id."""


@dataclass(frozen=True, slots=True)
class ReplicaDifference:
    """A key (or a group, if topic is None) for which the `wrong` replicas would answer differently from the `right`
    ones."""

    key: GroupKey
    sides: Sides
    kinds: tuple[str, ...]
    wrong: tuple[str, ...]
    right: tuple[str, ...]
    proof: str
    evidence: str
    log_offsets: tuple[int, ...] = ()
    since: Sighting | None = None
    next_commit: int | None = None
    next_abort: int | None = None
    needs_unclean_election: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The outcome of a transaction that is still open on some replicas; `kind` is COMMIT, ABORT, or "" without
    evidence."""

    kind: str
    proof: str
    evidence: str
    marker: Sighting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaJudge:
    """The rules, applied to one comparison; `last_gap` is the highest log_offset that no replica has any more."""

    evidence: ReplicaEvidence
    last_gap: int
    newest_ms: int
    behind: frozenset[str] = frozenset()
    """Replicas whose own bytes end below the compared end."""
    without_leader: tuple[int, ...] = ()
    """First log_offsets of leader epochs whose preceding number is missing: there was no leader for some time, which an
    unclean election may have ended."""

    def judge(self, found: Mapping[GroupKey, Sides]) -> list[ReplicaDifference]:
        """The differences of keys and of groups; those of a group depend on those of its keys."""
        fates, aborted = self._fates(found), self._aborted(found)
        differences: list[ReplicaDifference] = []
        by_group: dict[str, list[ReplicaDifference]] = {}
        for key, sides in found.items():
            if key[1] is None:
                of_group = self._group(key, sides, by_group.get(key[0], []))
                differences += [of_group] if of_group is not None else []
                continue
            mine = self._offset(key, sides, fates, aborted)
            by_group.setdefault(key[0], []).extend(mine)
            differences += mine
        return differences

    # --- offsets

    def _offset(
        self, key: GroupKey, sides: Sides, fates: Mapping[int, Fate], aborted: Set[_Transaction]
    ) -> list[ReplicaDifference]:
        of_transactions = [
            difference
            for producer_id in sorted({producer for side in sides.values() for producer in side.pending})
            if (difference := self._pending(key, sides, producer_id, fates[producer_id])) is not None
        ]
        committed = self._committed(key, sides, aborted)
        joined = []
        for difference in of_transactions:
            older = [
                part for part in committed if set(part.wrong) <= set(difference.wrong) and "lost" not in part.kinds
            ]
            committed = [part for part in committed if part not in older]
            joined.append(_joined(difference, older))
        return joined + committed

    def _committed(self, key: GroupKey, sides: Sides, aborted: Set[_Transaction]) -> list[ReplicaDifference]:
        """The differences of a key's committed value."""
        held = {name: side.committed for name, side in sides.items() if side.committed is not None}
        newest = _newest(sides)
        if newest is None:
            return []
        at = newest["log_offset"]
        holders = tuple(name for name, row in held.items() if row["log_offset"] == at)
        # A replica where the same value is pending is left out: `_pending` judges it with its transaction.
        lackers = [
            name
            for name, side in sides.items()
            if name not in holders and all(row["log_offset"] != at for row in side.pending.values())
        ]
        short = tuple(name for name in lackers if sides[name].reach <= at)
        found = []
        if short:
            value = newest["committed_offset"]
            text = f"{_names(short)} end{_s(short)} before log_offset {at}, where {value} was committed"
            found.append(ReplicaDifference(key, sides, ("lost",), short, holders, "behind", text, log_offsets=(at,)))
        older = tuple(name for name in lackers if name not in short and name in held)
        without = tuple(name for name in lackers if name not in short and name not in held)
        if not older and not without:
            return found
        is_aborted = self._transaction(newest) in aborted
        found.append(self._removed_or_lost(key, sides, newest, is_aborted, holders, older, without))
        return found

    def _removed_or_lost(
        self, key: GroupKey, sides: Sides, row: Row, is_aborted: bool, holders: _Names, older: _Names, without: _Names
    ) -> ReplicaDifference:
        at, value = row["log_offset"], row["committed_offset"]
        differs = partial(ReplicaDifference, key, sides, log_offsets=(at,))
        wrong, lackers = (*holders, *older), (*older, *without)
        tombstone = self.evidence.tombstone_after(key, at)
        if tombstone is not None:
            text = f"{value} at log_offset {at} was deleted: {tombstone}"
            return differs(("resurrected",), wrong, without, "tombstone", text, since=tombstone)
        if is_aborted:
            text = f"{value} at log_offset {at} belongs to a transaction that {_names(lackers)} cleaned away as aborted"
            return differs(("aborted_to_committed",), holders, lackers, "value", text)
        if without and self.last_gap > at:
            text = (
                f"{_names(without)} had {value} at log_offset {at} and cleaned it away with the tombstone that came "
                f"after it; {_names(wrong)} never saw that tombstone{self._doubt(at)}"
            )
            return differs(("resurrected",), wrong, without, "cleaned", text)
        if without:
            text = f"nothing was written after log_offset {at} that could have removed {value}"
            return differs(("lost",), lackers, holders, "no_gap", text)
        verbs = f"serve{_s(lackers)} an older value and lack{_s(lackers)}"
        text = f"{_names(lackers)} {verbs} log_offset {at}, where {value} was committed"
        return differs(("lost",), lackers, holders, "value", text)

    def _doubt(self, log_offset: int) -> str:
        """Text that says why the value at a log_offset may be lost rather than deleted; "" without such a reason."""
        without = [at for at in self.without_leader if at > log_offset]
        if not without:
            return ""
        return (
            f" (nobody led for some time before log_offset {without[0]}: if an unclean election ended that, it may "
            f"have been lost instead; an archive would show it)"
        )

    # --- transactions

    def _aborted(self, found: Mapping[GroupKey, Sides]) -> set[_Transaction]:
        """Transactions that some replicas took for committed while other replicas cleaned them away as aborted.

        Those other replicas lack the value but still have an older value of its key, which a committed value would have
        superseded.
        """
        aborted: set[_Transaction] = set()
        for sides in found.values():
            newest = _newest(sides)
            if newest is None or newest["producer_id"] < 0 or self.last_gap <= newest["log_offset"]:
                continue
            at = newest["log_offset"]
            if any(
                side.committed is not None and side.committed["log_offset"] < at < side.reach
                for side in sides.values()
                if all(row["log_offset"] != at for row in side.pending.values())
            ):
                aborted.add(self._transaction(newest))
        return aborted

    def _transaction(self, row: Row) -> _Transaction:
        """The producer id of a committed value, and the log_offset of its transaction's marker if one still exists."""
        marker = self.evidence.marker_after(row["producer_id"], row["log_offset"])
        return row["producer_id"], None if marker is None else marker.log_offset

    def _fates(self, found: Mapping[GroupKey, Sides]) -> dict[int, Fate]:
        """The outcome of each transaction that is open on some replica; evidence from one key applies to all of its
        keys."""
        fates: dict[int, Fate] = {}
        for key, sides in found.items():
            for producer_id in {producer for side in sides.values() for producer in side.pending}:
                fate = self._fate(key, sides, producer_id)
                known = fates.get(producer_id)
                if known is None or (fate.kind and (not known.kind or fate.marker is not None)):
                    fates[producer_id] = fate
        return fates

    def _fate(self, key: GroupKey, sides: Sides, producer_id: int) -> Fate:
        at = max(side.pending[producer_id]["log_offset"] for side in sides.values() if producer_id in side.pending)
        marker = self.evidence.marker_after(producer_id, at)
        if marker is not None:
            return Fate(kind=marker.kind, proof="marker", evidence=str(marker), marker=marker)
        ended = {name: side for name, side in sides.items() if producer_id not in side.pending and side.reach > at}
        for name, side in ended.items():
            if side.committed is not None and side.committed["log_offset"] == at:
                return Fate(kind="COMMIT", proof="value", evidence=f"{name} serves its value of {_said(key)}")
        for name, side in ended.items():
            if side.committed is not None and side.committed["log_offset"] < at:
                text = f"{name} still has an older value of {_said(key)}, which a committed one would have replaced"
                return Fate(kind="ABORT", proof="value", evidence=text)
        return Fate(kind="", proof="cleaned", evidence="where its marker was cleaned, all its values were superseded")

    def _pending(self, key: GroupKey, sides: Sides, producer_id: int, fate: Fate) -> ReplicaDifference | None:
        """The difference made by a transaction that is open on some replicas and ended on others."""
        rows = {name: side.pending[producer_id] for name, side in sides.items() if producer_id in side.pending}
        at = max(row["log_offset"] for row in rows.values())
        ended = tuple(name for name, side in sides.items() if name not in rows and side.reach > at)
        if not ended:
            return None
        holders = tuple(rows)
        differs = partial(ReplicaDifference, key, sides, log_offsets=(at,))
        value, row = rows[holders[0]]["committed_offset"], rows[holders[0]]
        if fate.kind == "" and self.last_gap <= at:
            text = f"no marker can have ended the transaction of {value}: nothing is missing after log_offset {at}"
            return differs(("lost",), ended, holders, "no_gap", text)
        kinds = self._kinds(sides, holders, ended, fate, at, row)
        stored = sides[holders[0]].committed
        before = None if stored is None else stored["committed_offset"]
        wins = stored is None or at > stored["log_offset"]
        next_commit, next_abort = (value if wins else before), before
        text = (
            f"{value} at log_offset {at} of producer {producer_id} is pending on {_names(holders)}, its transaction "
            f"ended on {_names(ended)} ({_FATES[fate.kind]}: {fate.evidence}). The next COMMIT of this producer serves "
            f"{_offset_text(next_commit)}, its next ABORT {_offset_text(next_abort)}"
        )
        return differs(
            kinds, holders, ended, fate.proof, text, since=fate.marker, next_commit=next_commit, next_abort=next_abort
        )

    def _kinds(self, sides: Sides, holders: _Names, ended: _Names, fate: Fate, at: int, row: Row) -> tuple[str, ...]:
        if fate.kind == "ABORT":
            kind = "aborted_to_committed"
        else:
            served = any(
                (committed := sides[name].committed) is not None and committed["log_offset"] == at for name in ended
            )
            kind = "committed_to_aborted" if served else "committed_hidden"
        is_forgotten = self.newest_ms - row["commit_timestamp_ms"] >= FORGOTTEN_MS
        # A producer that cannot return neither commits nor aborts. And a replica whose log ends inside an aborted
        # transaction only lacks the marker.
        is_stuck_first = is_forgotten or (fate.kind == "ABORT" and self.behind.issuperset(holders))
        return ("stuck", kind) if is_stuck_first else (kind, "stuck")

    # --- groups

    def _group(self, key: GroupKey, sides: Sides, of_keys: list[ReplicaDifference]) -> ReplicaDifference | None:
        having = tuple(name for name, side in sides.items() if side.group is not None)
        missing = tuple(name for name in sides if name not in having)
        if not missing:
            return self._members(key, sides)
        at = max(_group_offset(sides[name]) for name in having)
        text = f"the group exists on {_names(having)} and not on {_names(missing)}"
        if of_keys and all(part.kinds[0] in _ABORTED and set(part.wrong) >= set(having) for part in of_keys):
            # An aborted transaction leaves the group on the right replicas, too, until their next sweep.
            return None
        # A difference of the group's offsets explains the difference of the group.
        differs = partial(ReplicaDifference, key, sides, evidence=text)
        for part in of_keys:
            if set(part.wrong) >= set(missing) and "lost" in part.kinds:
                return differs(("lost",), missing, having, part.proof, log_offsets=part.log_offsets)
            if set(part.wrong) >= set(having) and "lost" not in part.kinds:
                return differs(
                    ("resurrected",), having, missing, part.proof, log_offsets=part.log_offsets, since=part.since
                )
        if at < 0:  # the group exists only because of offsets that do not differ
            return None
        if any(sides[name].reach <= at for name in missing):
            return differs(("lost",), missing, having, "behind", log_offsets=(at,))
        return self._left_or_lost(key, sides, having, missing, at, "resurrected", text)

    def _members(self, key: GroupKey, sides: Sides) -> ReplicaDifference | None:
        """The difference of a group that exists on all replicas, with different members or in different states."""
        everyone = {member for side in sides.values() for member in side.members}
        extra = tuple(name for name, side in sides.items() if side.members.keys() == everyone)
        fewer = tuple(name for name in sides if name not in extra)
        if everyone and extra and fewer:
            at = max(_group_offset(sides[name]) for name in sides)
            gone = sorted(everyone - set[str].intersection(*(set(side.members) for side in sides.values())))
            text = f"members {', '.join(gone)} are on {_names(extra)} and not on {_names(fewer)}"
            return self._left_or_lost(key, sides, extra, fewer, at, "ghost_member", text)
        newest = max(_group_offset(side) for side in sides.values())
        right = tuple(name for name, side in sides.items() if _group_offset(side) == newest)
        wrong = tuple(name for name in sides if name not in right)
        differs = partial(ReplicaDifference, key, sides, log_offsets=(newest,))
        if not wrong:  # the last record is the same: older records differ
            text = "the last record of the group is the same, an older one is not everywhere"
            return differs(("ghost_member",), tuple(sides), (), "unknown", text)
        text = f"{_names(wrong)} lack{_s(wrong)} the group's record at log_offset {newest}"
        return differs(("lost",), wrong, right, "value", text)

    def _left_or_lost(
        self, key: GroupKey, sides: Sides, more: _Names, less: _Names, at: int, kind: str, text: str
    ) -> ReplicaDifference:
        """The difference of a group with values that only the replicas `more` have: whether the replicas `less` removed
        or lost them."""
        differs = partial(ReplicaDifference, key, sides, log_offsets=(at,))
        tombstone = self.evidence.tombstone_after(key, 0 if kind == "ghost_member" else at)
        if tombstone is not None:
            return differs((kind,), more, less, "tombstone", f"{text}: {tombstone}", since=tombstone)
        if kind == "ghost_member" or self.last_gap > at:
            text = f"{text}: the tombstone was cleaned away on {_names(less)}, {_names(more)} never saw it"
            return differs((kind,), more, less, "cleaned", text)
        text = f"{text}; nothing was written after log_offset {at} that could have removed it"
        return differs(("lost",), less, more, "no_gap", text)


_ABORTED = ("aborted_to_committed", "stuck")
_FATES = {"COMMIT": "committed", "ABORT": "aborted", "": "committed or aborted, nothing is left that says which"}


def _joined(main: ReplicaDifference, others: list[ReplicaDifference]) -> ReplicaDifference:
    """One difference from `main`, about a pending value, and `others`, about older values that are back with it."""
    for other in others:
        main = replace(
            main,
            kinds=tuple(dict.fromkeys((*main.kinds, *other.kinds))),
            log_offsets=tuple(sorted({*main.log_offsets, *other.log_offsets})),
            evidence=f"{main.evidence}. And {other.evidence}",
            since=main.since or other.since,
        )
    return main


def _newest(sides: Sides) -> Row | None:
    """The committed value with the highest log_offset on any replica."""
    held = [side.committed for side in sides.values() if side.committed is not None]
    return max(held, key=lambda row: row["log_offset"]) if held else None


def _group_offset(side: ReplicaSide) -> int:
    if side.group is None or side.group["log_offset"] is None:
        return -1
    return int(side.group["log_offset"])


def _names(replicas: _Names) -> str:
    return " and ".join(replicas)


def _s(replicas: _Names) -> str:
    """The letter s for a verb if there is only one replica."""
    return "s" if len(replicas) == 1 else ""


def _said(key: GroupKey) -> str:
    group_id, topic, partition = key
    return f"group {group_id}" if topic is None else f"{group_id} {topic}-{partition}"


def _offset_text(value: int | None) -> str:
    return "nothing" if value is None else str(value)
