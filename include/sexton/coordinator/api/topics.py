"""The topics of a cluster as the questions need them: names for ids, and where partitions end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name, as recorded beside the log; none at all where nothing was recorded (`is_known`)."""

    is_known: bool = False
    ids: Mapping[str, str] = field(default_factory=dict)
    """Topic name by topic id."""
    log_end_offsets: Mapping[str, list[int]] = field(default_factory=dict)
    """By topic name, one for each partition."""

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]] | None) -> "Topics":
        """Of rows {"topic", "id", "partitions": [[log start, log end], ...]}; None where there are none."""
        if rows is None:
            return cls()
        rows = list(rows)
        return cls(
            is_known=True,
            ids={row["id"]: row["topic"] for row in rows if row["id"]},
            log_end_offsets={row["topic"]: [end for _, end in row["partitions"]] for row in rows},
        )

    @property
    def partition_counts(self) -> Mapping[str, int] | None:
        """The number of partitions of every topic; None where the topics are not known."""
        return {topic: len(ends) for topic, ends in self.log_end_offsets.items()} if self.is_known else None

    def log_end_offset(self, topic: str, partition: int) -> int | None:
        """Where a partition ends; None where that, or the partition, is not known."""
        ends = self.log_end_offsets.get(topic, [])
        return ends[partition] if 0 <= partition < len(ends) else None
