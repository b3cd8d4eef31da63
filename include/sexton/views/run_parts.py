"""Log partitions of a run folder, from the tables that the run has left."""

import pyarrow as pa

from sexton.coordinator.api.coordinator import Shard, shard_after_load
from sexton.coordinator.api.tables_view import TABLES, TablesView
from sexton.coordinator.api.view import EmptyView
from sexton.coordinator.endless import NEVER_ENDS
from sexton.coordinator.profile import AfterFailure
from sexton.coordinator.profiles import profile_of
from sexton.errors import UsageError
from sexton.runs.folder import RunFolder, RunRecord
from sexton.views.part import Part


class RunParts:
    """The log partitions of a finished run."""

    def __init__(self, folder: RunFolder, record: RunRecord) -> None:
        self.profile = profile_of(record.profile)
        self.read: dict[int, Part] = {}
        self._folder = folder
        self._written = frozenset(record.log_partitions)

    def shard(self, log_partition: int) -> Shard:
        """The log partition as its coordinator would have loaded it.

        Raises UsageError where a coordinator serves what it had read before its load failed: a run keeps the whole.
        """
        part = self.read[log_partition] = self._part(log_partition)
        failed = part.load_failure is not None
        if failed and not part.never_ends and self.profile.after_failure is AfterFailure.PREFIX:
            raise UsageError(
                f"a coordinator of log partition {log_partition} serves what it had read before its load failed, "
                "which the run does not tell",
                where=self._folder.root,
                fix="ask the segments: --segments DIR",
            )
        return shard_after_load(part.held, profile=self.profile, load_failed=failed, never_ends=part.never_ends)

    def _part(self, log_partition: int) -> Part:
        if log_partition not in self._written:
            return Part(held=EmptyView())
        profile = self._table("load_profile", log_partition).to_pylist()[0]
        return Part(
            held=TablesView({name: self._table(name, log_partition) for name in TABLES}),
            load_failure=(profile["load_failure"] or "no reason told") if profile["load_would_fail"] else None,
            never_ends=profile.get("load_outcome") == NEVER_ENDS,
            undecodable=self._table("undecodable_records", log_partition).num_rows,
            next_log_offset=profile["next_log_offset"] or 0,
        )

    def _table(self, name: str, log_partition: int) -> pa.Table:
        try:
            return self._folder.read_table(name, log_partition)
        except OSError:
            path = self._folder.table_file(name, log_partition)
            raise UsageError("not there", where=path, fix="is the run complete?") from None
