"""Properties of one record type of `__consumer_offsets`: its number, its layouts, and the brokers that read it."""

from dataclasses import dataclass

from sexton.records.schema import Release, Schema


@dataclass(frozen=True, slots=True)
class Releases:
    """The Kafka releases from `first` to `last`, each (major, minor); `last` None means up to the newest."""

    first: tuple[int, int]
    last: tuple[int, int] | None = None

    def __contains__(self, release: Release) -> bool:
        minor = release[:2]
        return self.first <= minor and (self.last is None or minor <= self.last)


@dataclass(frozen=True, slots=True)
class RecordType:
    """One record type.

    `name` is Kafka's, `versions` are the accepted versions of the value. `read_by` are the releases whose default
    coordinators decode it, None where no release does; for other releases it is an unknown record type, which
    coordinators skip (from 4.0 on) or fail to load (before).
    """

    number: int
    name: str
    key: Schema
    value: Schema
    read_by: Releases | None
    versions: range = range(1)

    def is_read_by(self, release: Release) -> bool:
        """Whether the coordinator of Kafka `release`, such as (4, 3) or (4, 0, 1), decodes this type."""
        return self.read_by is not None and release in self.read_by
