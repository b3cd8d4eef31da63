"""The kinds of an offset change: the values of offset_changes.kind, declared once.

The four causes of a disappearance are kinds too. Which cause a disappearance has is decided in
`coordinator.changes.rules` (what is possible) and `coordinator.changes.explain` (which explanation is smallest).
"""

from enum import StrEnum


class ChangeKind(StrEnum):
    """A value of offset_changes.kind."""

    SET = "set"
    """A commit gave the offset another value."""
    EXPIRED = "expired"
    """The broker's sweep removed the offset."""
    DELETED = "deleted"
    """OffsetDelete removed the offset, or a producer that bypassed the coordinator did."""
    GROUP_DELETED = "group_deleted"
    """DeleteGroups removed the offset's group."""
    TOPIC_DELETED = "topic_deleted"
    """The offset's topic was deleted."""
    RESTORED = "restored"
    """A plan of Sexton committed the offset again."""
    AMBIGUOUS = "ambiguous"
    """The offset disappeared, and more than one cause fits the log."""


CAUSES = (ChangeKind.EXPIRED, ChangeKind.DELETED, ChangeKind.GROUP_DELETED, ChangeKind.TOPIC_DELETED)
"""Causes that can remove an offset, in the order in which candidates are listed."""
DISAPPEARANCES = frozenset({*CAUSES, ChangeKind.AMBIGUOUS})
