"""Expectations of offset_changes. An audit of one instant has no such table.

The changes must end in the values that the state tables of the same run have.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.quality.cross_table_expectations import KEY, VALUE, KeyIndex, Tables
from sexton.quality.declared_expectations import Expectation
from sexton.quality.measure import Measures, count_true

TABLE = "offset_changes"
NEEDS = (TABLE, "committed_offsets", "unreachable_offsets")
_SET = pa.array(["set", "restored"])


def _expect(measure: str, sentence: str) -> Expectation:
    return Expectation(table=TABLE, measure=measure, sentence=sentence)


CHANGE_EXPECTATIONS: tuple[Expectation, ...] = (
    _expect("no_change", "an offset that was set has another committed_offset than before"),
    _expect("not_gone", "an offset that disappeared had a value and has none"),
    _expect("not_due", "nothing expired before it was due"),
    _expect("candidates", "candidates are recorded where a change is ambiguous, and only there"),
    _expect("other_end", "the changes end in what committed_offsets and unreachable_offsets hold"),
    _expect("set_twice", "no offset is set twice in an interval"),
)


def measure_changes(found: Measures, tables: Tables) -> None:
    """Count what breaks CHANGE_EXPECTATIONS, over whole log partitions of the tables in NEEDS."""
    changes = tables[TABLE]
    is_set = pc.is_in(changes["kind"], value_set=_SET)
    were_set, gone = changes.filter(is_set), changes.filter(pc.invert(is_set))
    same = pc.equal(were_set["old_committed_offset"], were_set["new_committed_offset"])
    found.put(TABLE, "no_change", count_true(same) + were_set["new_committed_offset"].null_count)
    found.put(
        TABLE,
        "not_gone",
        count_true(pc.or_(pc.is_null(gone["old_committed_offset"]), pc.is_valid(gone["new_committed_offset"]))),
    )
    expired = changes.filter(pc.equal(changes["kind"], "expired"))
    found.put(TABLE, "not_due", count_true(pc.greater(expired["due_at_ms"], expired["timestamp_ms"])))
    is_ambiguous = pc.equal(changes["kind"], "ambiguous")
    has_candidates = pc.fill_null(pc.greater(pc.list_value_length(changes["candidates"]), 1), False)
    found.put(TABLE, "candidates", count_true(pc.not_equal(is_ambiguous, has_candidates)))
    _measure_end(found, tables, were_set, gone)


def _measure_end(found: Measures, tables: Tables, were_set: pa.Table, gone: pa.Table) -> None:
    """Compare the offsets that were set with the final state, which must lack those that disappeared."""
    stored = pa.concat_tables([tables[name].select([*KEY, *VALUE]) for name in NEEDS[1:]])
    by_key = KeyIndex([stored, were_set, gone], KEY)
    of_stored, of_set, _ = by_key.rows
    stored_count, set_count, gone_count = (by_key.count(rows) for rows in by_key.rows)
    found.put(TABLE, "set_twice", int(np.count_nonzero(set_count > 1)))
    differs = (set_count > 0) & (stored_count == 0)
    for name, new in (("log_offset", "log_offset"), ("committed_offset", "new_committed_offset")):
        there, changed = by_key.values(of_stored, stored[name]), by_key.values(of_set, were_set[new])
        differs |= (set_count > 0) & (there != changed)
    differs |= (gone_count > 0) & (set_count == 0) & (stored_count > 0)
    found.put(TABLE, "other_end", int(np.count_nonzero(differs)))
