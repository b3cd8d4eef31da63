"""Why an offset changed or disappeared between two instants of a log partition, in plain Python.

model.py     the input (writes, the state before them, evidence) and the output (rows of offset_changes)
replay.py    the plain replay that finds the writes of an interval (compiled: sexton/kernels/changes/replay.py)
rules.py     the operations that could have written a group's tombstones in a write
explain.py   the operations that explain the whole write, as rows with their evidence in words
group_removal_causes.py  why a group itself was removed

sexton.tables.change_causes lists the kinds and causes of a change; a Profile has the operations of a release.
"""
