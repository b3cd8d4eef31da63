"""Finds what changed in a log partition between two cuts: `coordinator.changes.replay`, compiled for whole segments.

replay         the changes of an interval
marks          which batches hold tombstones of offsets
state_view     the state before a write, for coordinator.changes
value_changes  offsets whose value at the end of the interval differs from that at its start

Compiled code does not find why an offset disappeared: `coordinator.changes.explain` decides that for each write.
"""
