"""The memory layout of a fold: column numbers of every kind of row, and the arrays that compiled code reads and writes.

`FoldState` is the state of a fold: int64 rows with one row for each key, pending value, group, producer and group
record, and byte arenas for their strings. `key_bytes` only grows; `text_bytes` (metadata) is compacted when most of
it is garbage (`growth`). A hash slot holds the upper half of the hash and the row number plus one; 0 is empty
(`index`).

Import it as `from sexton.kernels import layout as L`. Nothing here knows what a record means: `offsets` does.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import pointer, rows

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_Array = TypeVar("_Array", npt.NDArray[np.int64], npt.NDArray[np.uint8])

NONE = -(1 << 63)
"""Stands for a missing log_offset: damaged batches may carry any other number."""

# counts: used rows and bytes of each array, event counters, the profile's rules, the arrays' lengths
(
    KEYS,
    KEY_BYTES,
    TEXT_BYTES,
    TEXT_LIVE,
    GROUPS,
    PRODUCERS,
    PENDING,
    FREE_PENDING,
    RECORDS,
    RECORD_BYTES,
    NEED,
    TOMBSTONED,
    ABORTED,
    SEEN_RECORDS,
    SEEN_CONTROL,
    SEEN_VALUES,
    SEEN_TOMBSTONES,
    SEEN_LEGACY,
    SEEN_V4,
    MAX_COMMIT_MS,
    PENDING_RULE,
    TOMBSTONES_CANCEL_PENDING,
    SKIPS_UNKNOWN_TYPES,
    HIGHEST_VERSION,
    HIGHEST_LEGACY_VERSION,
    LEAKS_OPEN_TRANSACTIONS,
    KEEPS_EXPIRE_OF_MINUS_1,
    READS_TOPIC_IDS,
    KEY_LIMIT,
    GROUP_LIMIT,
    PRODUCER_LIMIT,
    PENDING_LIMIT,
    RECORD_LIMIT,
    KEY_BYTES_LIMIT,
    TEXT_BYTES_LIMIT,
    RECORD_BYTES_LIMIT,
    KEY_MASK,
    GROUP_MASK,
    PRODUCER_MASK,
    PENDING_MASK,
    FIRST_HASH_KEY,
    SECOND_HASH_KEY,
    COUNTS,
) = range(43)
FIRST_RULE, RULES_END = PENDING_RULE, READS_TOPIC_IDS + 1
"""The range of `counts` that holds the profile's rules (`profile_flags`). A highest version of -1: the type is not
read."""
PENDING_NEVER, PENDING_WITH_PRODUCER_ID, PENDING_IF_TRANSACTIONAL = range(3)

# keys: one row per (group, topic, partition), two cache lines long. The lower half of KEY_SIZES is the size of the key,
# the upper half that of its group id
KEY_AT, KEY_SIZES, KEY_GROUP, KEY_PENDING, LAST_TOMBSTONE, SINCE, LOG_OFFSET, PRODUCER_ID = range(8)
VALUE = 8
"""First of the columns of a value, in `keys` and in `pending` alike."""
COMMITTED, LEADER_EPOCH, TEXT_AT, TEXT_SIZE, COMMIT_MS, EXPIRE_MS, TOPIC_ID_HIGH, TOPIC_ID_LOW = range(8, 16)
VALUE_END = 16
KEY_COLUMNS = VALUE_END

# pending: the newest pending value of one producer and key; PENDING_VALUES is the number of values that it replaced,
# plus one. Rows are linked per producer, per key, and per slot of `pending_slots`. A row whose PENDING_VALUES is LEAKED
# has no value: it records that Kafka 4.0.0 leaves the producer's transaction open for the key's group, because a
# tombstone has cancelled the value. There is at most one such row per producer and group, in the slot of that pair
PENDING_KEY, PENDING_PRODUCER, NEXT_OF_PRODUCER, PREV_OF_PRODUCER, NEXT_OF_KEY, PREV_OF_KEY = range(6)
PENDING_LOG_OFFSET, PENDING_VALUES = range(6, 8)
LEAKED = -1
PENDING_TIMESTAMP, PENDING_EPOCH, NEXT_OF_SLOT = range(VALUE_END, VALUE_END + 3)
PENDING_COLUMNS = VALUE_END + 3

# groups: every group id seen; LAST_VALUE is the log_offset of its last offset value, stored or pending, COMMITS the
# number of its offset values
GROUP_AT, GROUP_LENGTH, LAST_VALUE, COMMITS = range(4)
GROUP_COLUMNS = 4

# producers: what is open since the last end marker, and the first marker (-1: none)
P_ID, P_EPOCH, P_FIRST, P_LAST, P_FIRST_MS, P_CANCELLED, P_PENDING, P_MARKER, P_MARKER_AT = range(9)
PRODUCER_COLUMNS = 9
MARKER_ABORT, MARKER_COMMIT = 0, 1

# records: group records in log order; the value's bytes follow the key's (R_VALUE_SIZE -1: a tombstone)
R_LOG_OFFSET, R_BASE_OFFSET, R_GROUP, R_LAST_VALUE, R_AT, R_KEY_SIZE, R_VALUE_SIZE = range(7)
RECORD_COLUMNS = 7


ROW_TABLES = {"keys": KEYS, "groups": GROUPS, "producers": PRODUCERS, "pending": PENDING, "records": RECORDS}
ARENAS = {"key_bytes": KEY_BYTES, "text_bytes": TEXT_BYTES, "record_bytes": RECORD_BYTES}
USED = ROW_TABLES | ARENAS
"""The index in `counts` of the number of rows or bytes in use, by array. From KEY_LIMIT on, `counts` has the limits of
these arrays in the same order."""

# columns of a batch of the block. B_BODY and B_BODY_END are positions in the source or in the arena of inflated batches
# (B_SOURCE). B_ORIGIN_OFFSET is the base offset of the batch in the log, even if the slow path split that batch
(
    B_SOURCE,
    B_BODY,
    B_BODY_END,
    B_BASE_OFFSET,
    B_ATTRIBUTES,
    B_BASE_MS,
    B_MAX_MS,
    B_PRODUCER,
    B_EPOCH,
    B_COUNT,
    B_LAST_DELTA,
    B_ORIGIN_OFFSET,
    B_POSITION,
    B_SIZE,
) = range(14)
BATCH_COLUMNS = 14
IN_PLACE, IN_ARENA, BY_READER = 0, 1, 2
"""Where a batch's records are; BY_READER: the slow path has to read the whole batch."""

APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20

# cursor: the next record to read (C_AT is -1 before the first of a batch), and how much of the queue is replayed
C_BATCH, C_AT, C_DONE, C_DELTA, C_QUEUED, C_TAKEN = range(6)
CURSOR_COLUMNS = 6
FINISHED, FULL, FALLBACK, NO_ROOM = range(4)

# columns of a queued record; positions are those in the source or arena of its batch
(
    Q_KIND,
    Q_BATCH,
    Q_LOG_OFFSET,
    Q_TIMESTAMP,
    Q_KEY,
    Q_KEY_SIZE,
    Q_VALUE,
    Q_VALUE_SIZE,
    Q_GROUP_SIZE,
    Q_TOPIC_SIZE,
    Q_HASH,
    Q_LEADER_EPOCH,
    Q_TEXT_AT,
    Q_TEXT_SIZE,
    Q_COMMIT_MS,
    Q_EXPIRE_MS,
    Q_TOPIC_ID,
    Q_ROW,
    Q_START,
    Q_STOP,
) = range(20)
QUEUE_COLUMNS = 20
QUEUE_ROWS = 64
"""Enough records for their memory loads to overlap; few enough for the queue to stay in the L1 cache."""
KIND_OFFSET, KIND_TOMBSTONE, KIND_MARKER, KIND_GROUP_RECORD, KIND_UNKNOWN = range(5)
"""Kinds of queued records. For KIND_MARKER Q_VALUE is the marker, for KIND_UNKNOWN the record type."""

GROUP_TYPES = 64
"""The size of the flags by record type (`profile_flags.group_types_of`); higher types are unknown."""
MAX_STRING_BYTES = 0x7FFF

# batch counters: what is known of a log partition from its batches, mostly from their headers
# READ_NEXT is the log_offset after the last batch according to its header. READ_REACHED is the same, unless the header
# has a last offset below its base offset (then the base offset counts) or the CRC is bad (then the records count).
# READ_TORN is the size of a truncated batch at the end, READ_LEFT_OUT the number of undecodable records that have no
# row, READ_LEFT_OUT_VALUES the number of offset values among them
(
    READ_BYTES,
    READ_BATCHES,
    READ_LARGEST,
    READ_FIRST,
    READ_NEXT,
    READ_REACHED,
    READ_TORN,
    READ_MAX_MS,
    READ_FUTURE,
    READ_MAGIC_0,
    READ_MAGIC_1,
    READ_LEFT_OUT,
    READ_LEFT_OUT_VALUES,
    READ_COUNTERS,
) = range(14)

READ_ADDED = [
    READ_BYTES,
    READ_BATCHES,
    READ_FUTURE,
    READ_MAGIC_0,
    READ_MAGIC_1,
    READ_LEFT_OUT,
    READ_LEFT_OUT_VALUES,
]
"""Counts that are added up over the slices of a log."""
READ_COUNTS = [*READ_ADDED, READ_LARGEST, READ_TORN]
"""Counts that are never negative."""

ALL_READ, STOPPED_AT_CUT, FALLBACK_FRAME = range(3)


class FoldState(NamedTuple):
    """All arrays of one fold, passed to compiled functions as one argument."""

    counts: Int64s
    key_slots: Int64s
    keys: Int64s
    key_bytes: Bytes
    text_bytes: Bytes
    group_slots: Int64s
    groups: Int64s
    producer_slots: Int64s
    producers: Int64s
    pending_slots: Int64s
    pending: Int64s
    records: Int64s
    record_bytes: Bytes
    unknown_types: Int64s
    """The number of records of each type that the coordinator does not know; the index is the type as a uint16."""


View = FoldState
"""A state with pointers in place of the arrays (`view_of`); made once per call of an entry function."""


@compiled
def view_of(state: FoldState) -> View:
    """Pointers into the arrays of `state`."""
    return View(
        pointer(state.counts),
        pointer(state.key_slots),
        rows(state.keys, KEY_COLUMNS),
        pointer(state.key_bytes),
        pointer(state.text_bytes),
        pointer(state.group_slots),
        rows(state.groups, GROUP_COLUMNS),
        pointer(state.producer_slots),
        rows(state.producers, PRODUCER_COLUMNS),
        pointer(state.pending_slots),
        rows(state.pending, PENDING_COLUMNS),
        rows(state.records, RECORD_COLUMNS),
        pointer(state.record_bytes),
        pointer(state.unknown_types),
    )


def sealed(array: _Array) -> _Array:
    """A read-only view: compiled code would be compiled twice if it were given both writable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


@inlined
def batches_of(array: Any) -> Any:
    """Pointer to rows of batches."""
    return rows(array, BATCH_COLUMNS)


@inlined
def queue_of(array: Any) -> Any:
    """Pointer to rows of queued records."""
    return rows(array, QUEUE_COLUMNS)
