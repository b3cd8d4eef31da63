"""Finds replicas of `__consumer_offsets` that disagree: the keys that clients would read differently if another replica
led.

Each broker's log cleaner works independently. A tombstone or marker that was written and cleaned away while a replica
was offline never reaches that replica: once it leads, deleted offsets are back and ended transactions are open
(KAFKA-20716 and related issues).

    folders         the replicas on brokers' disks
    records         whether replicas have the same record at each log_offset (fingerprints: compiled)
    states          what each replica would answer if it led
    sides, judging  what differs, and which replica is right (evidence: the remaining tombstones and markers)
    compare         one log partition, or all; advice: what to do about it; warm_up compiles ahead of time
"""

from sexton.replicas.archived import archived_logs
from sexton.replicas.compare import ReplicaComparison, compare, compare_partition, work_of
from sexton.replicas.folders import ReplicaFolder, ReplicaLog, open_replicas

__all__ = [
    "ReplicaComparison",
    "ReplicaFolder",
    "ReplicaLog",
    "archived_logs",
    "compare",
    "compare_partition",
    "open_replicas",
    "work_of",
]
