"""Every table, declared once. `TABLES` is the contract with whoever reads the Parquet files or the Iceberg tables."""

from collections.abc import Iterable

from sexton.tables.apply_ledger import APPLY_LEDGER
from sexton.tables.commit_counts import COMMIT_COUNTS
from sexton.tables.committed_offsets import COMMITTED_OFFSETS
from sexton.tables.dq_results import DQ_RESULTS
from sexton.tables.expiry_forecast import EXPIRY_FORECAST, HORIZON_DAYS
from sexton.tables.expiry_sweeps import EXPIRY_SWEEPS
from sexton.tables.groups import GROUPS
from sexton.tables.load_profile import FATES, LOAD_PROFILE
from sexton.tables.members import MEMBERS
from sexton.tables.offset_changes import OFFSET_CHANGES
from sexton.tables.offset_verdicts import OFFSET_VERDICTS
from sexton.tables.open_transactions import OPEN_TRANSACTIONS
from sexton.tables.pending_offsets import PENDING_OFFSETS
from sexton.tables.replica_differences import REPLICA_DIFFERENCES
from sexton.tables.replica_state import REPLICA_STATE
from sexton.tables.runs import RUNS
from sexton.tables.table import PARTITION_COLUMNS, RUN_COLUMNS, Column, Origin, Severity, Table, is_filled
from sexton.tables.time_lag import TIME_LAG
from sexton.tables.tombstones import TOMBSTONES
from sexton.tables.topic_partitions import TOPIC_PARTITIONS
from sexton.tables.transactional_ids import TRANSACTIONAL_IDS
from sexton.tables.transactions import TRANSACTIONS
from sexton.tables.undecodable_records import UNDECODABLE_RECORDS
from sexton.tables.unreachable_offsets import UNREACHABLE_OFFSETS

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        *(COMMITTED_OFFSETS, UNREACHABLE_OFFSETS, PENDING_OFFSETS, GROUPS, MEMBERS),
        *(OFFSET_VERDICTS, EXPIRY_FORECAST, TOMBSTONES),
        *(OPEN_TRANSACTIONS, UNDECODABLE_RECORDS, LOAD_PROFILE),
        *(OFFSET_CHANGES, EXPIRY_SWEEPS, COMMIT_COUNTS),
        *(TOPIC_PARTITIONS, APPLY_LEDGER),
        *(REPLICA_STATE, REPLICA_DIFFERENCES, TRANSACTIONS, TRANSACTIONAL_IDS, TIME_LAG),
        *(DQ_RESULTS, RUNS),
    )
}
SNAPSHOT_TABLES: tuple[Table, ...] = tuple(table for table in TABLES.values() if table.kind == "snapshot")
"""Tables that every run writes, in its run folder and in the lake."""

ROWS_OF_RUNS: tuple[Table, ...] = (*SNAPSHOT_TABLES, TIME_LAG)
"""Tables whose rows describe a published run and are deleted with it."""

INTERVAL_TABLES: tuple[Table, ...] = tuple(table for table in TABLES.values() if table.kind == "interval")
"""Tables of changes since an earlier instant, which a run with an interval writes, too."""


IN_MEMORY = frozenset(
    table.name
    for table in (
        *(COMMITTED_OFFSETS, UNREACHABLE_OFFSETS, PENDING_OFFSETS, GROUPS, MEMBERS),
        *(OFFSET_VERDICTS, OPEN_TRANSACTIONS),
    )
)
"""Tables of state that coordinators have in memory. For a log partition whose load fails, the rows show only what
Sexton decoded."""


def interval_tables(origins: Iterable[Origin]) -> tuple[Table, ...]:
    """The INTERVAL_TABLES that a run with evidence from `origins` writes."""
    return tuple(table for table in INTERVAL_TABLES if is_filled(table.known_from, origins))


__all__ = [
    "COMMITTED_OFFSETS",
    "FATES",
    "HORIZON_DAYS",
    "INTERVAL_TABLES",
    "IN_MEMORY",
    "LOAD_PROFILE",
    "PARTITION_COLUMNS",
    "REPLICA_DIFFERENCES",
    "REPLICA_STATE",
    "ROWS_OF_RUNS",
    "RUN_COLUMNS",
    "SNAPSHOT_TABLES",
    "TABLES",
    "TIME_LAG",
    "TRANSACTIONAL_IDS",
    "TRANSACTIONS",
    "Column",
    "Severity",
    "Table",
]
