"""The topics of a cluster: names by id, and where partitions end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name, as recorded with the log; empty where nothing was recorded (`is_known`)."""

    is_known: bool = False
    ids: Mapping[str, str] = field(default_factory=dict)
    """Topic name by topic id."""
    log_end_offsets: Mapping[str, list[int]] = field(default_factory=dict)
    """By topic name, one for each partition."""

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]] | None) -> "Topics":
        """Topics from rows {"topic", "id", "partitions": [[log start, log end], ...]}; not `is_known` for None."""
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
        """The log end offset of a partition; None where it is not known."""
        ends = self.log_end_offsets.get(topic, [])
        return ends[partition] if 0 <= partition < len(ends) and ends[partition] >= 0 else None
