"""What Sexton makes of one log partition: a log of many histories by the kernels, of one by the plain rules.

So a load of thousands of histories is judged in bulk, and what the loads of single ones come to (they fail, or their
sweeps do), and what a difference is narrowed to, by the oracle of the kernels. tests/campaign holds both against each
other on the same histories.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sexton.coordinator.api.coordinator import CoordinatorShard, shard_after_load
from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.api.unloading import unexpected_unloads
from sexton.coordinator.loading import load
from sexton.coordinator.profile import Profile
from sexton.kernels.results import finish
from tests.campaign.broker.logs import RETENTION_MS
from tests.campaign.checks import Tables
from tests.kernels.compare import CAP_BYTES, fold_bytes, planned
from tests.oracle import removed_groups
from tests.plain_sweep import Tombstone, sweep

Keys = Mapping[str, frozenset[bytes]]
"""Keys of tombstones by group id."""
_FAILED_AT = re.compile(r"log_offset (\d+):")


class Known(ABC):
    """A loaded log partition of a broker with `partition_count` of them."""

    failure: str | None
    """Why the load fails; None where it does not."""
    unexpected_unloads: Sequence[str]
    shard: CoordinatorShard

    def __init__(self, log_partition: int, log: bytes, profile: Profile, partition_count: int) -> None:
        self.log_partition, self.log, self.profile, self.partition_count = log_partition, log, profile, partition_count
        self._plans: dict[int, Keys] = {}
        self._after: Known = self

    @property
    def fails(self) -> bool:
        return self.failure is not None

    @property
    def failed_at(self) -> int | None:
        """The log_offset of the record where the load fails."""
        found = _FAILED_AT.match(self.failure or "")
        return int(found[1]) if found else None

    def planned(self, now_ms: int) -> Keys:
        """What a sweep at that instant writes."""
        if self.fails:
            return {}
        if now_ms not in self._plans:
            self._plans[now_ms] = _keys(self._swept(now_ms))
        return self._plans[now_ms]

    def after(self, appended: bytes) -> "Known":
        """The log partition when that is at the end of its log."""
        log = self.log + appended
        if self._after.log != log:
            self._after = type(self)(self.log_partition, log, self.profile, self.partition_count)
        return self._after

    @abstractmethod
    def _swept(self, now_ms: int) -> Iterable[Tombstone]: ...


class KnownByKernels(Known):
    def __init__(self, log_partition: int, log: bytes, profile: Profile, partition_count: int) -> None:
        super().__init__(log_partition, log, profile, partition_count)
        fold = fold_bytes(log, profile=profile)
        self._tables: Tables = finish(fold, log_partition=log_partition, partition_count=partition_count)
        (found,) = self._tables["load_profile"].to_pylist()
        self.failure = found["load_failure"] if found["load_would_fail"] else None
        self.unexpected_unloads = self._tables["unexpected_unloads"]["group_id"].to_pylist()
        self.shard = shard_after_load(_IndexedView(self._tables), found["load_outcome"], profile=profile)

    def _swept(self, now_ms: int) -> Iterable[Tombstone]:
        rows = planned(self._tables, retention_ms=RETENTION_MS, now_ms=now_ms, profile=self.profile)
        return [Tombstone(**row) for row in rows.to_pylist()]


class KnownByRules(Known):
    def __init__(self, log_partition: int, log: bytes, profile: Profile, partition_count: int) -> None:
        super().__init__(log_partition, log, profile, partition_count)
        self._loaded = load([log], cap_bytes=CAP_BYTES, profile=profile)
        self.failure = self._loaded.load_failure
        self.unexpected_unloads = ()
        view = PlainView(self._loaded)
        if not profile.is_java and not self.fails:
            removed = removed_groups([log], cap_bytes=CAP_BYTES)
            self.unexpected_unloads = unexpected_unloads(view, removed=removed, profile=profile)
        self.shard = shard_after_load(view, self._loaded.load_outcome, profile=profile)

    def _swept(self, now_ms: int) -> Iterable[Tombstone]:
        return sweep(self._loaded, retention_ms=RETENTION_MS, now_ms=now_ms)


class _IndexedView(TablesView):
    """Every group is asked for: its rows are looked up, not searched for."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._found: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def _rows(self, table: str, group_id: str) -> list[dict[str, Any]]:
        if table not in self._found:
            rows: dict[str, list[dict[str, Any]]] = {}
            for row in self._tables[table].to_pylist():
                rows.setdefault(row["group_id"], []).append(row)
            self._found[table] = rows
        return self._found[table].get(group_id, [])


def _keys(tombstones: Iterable[Tombstone]) -> Keys:
    found: dict[str, set[bytes]] = {}
    for one in tombstones:
        found.setdefault(one.group_id, set()).add(one.key)
    return {group_id: frozenset(keys) for group_id, keys in found.items()}
