"""Finds what changed in a log partition between two cuts, compiled: `coordinator.changes.replay` over whole segments.

replay         the changes of an interval
marks          which batches hold tombstones of offsets
state_view     the state before a write, for coordinator.changes
value_changes  offsets that end the interval with another value

Why an offset disappeared is not compiled: `coordinator.changes.explain` decides that for each write found here.
"""
