"""Why an offset changed or disappeared between two instants of a log partition, in plain Python.

model.py     what goes in (writes, the state before them, evidence) and what comes out (rows of offset_changes)
replay.py    the plain replay that finds the writes of an interval (compiled: sexton/kernels/changes/replay.py)
rules.py     which operations could have written what a write took from a group
explain.py   which of them explain the whole write, as rows with their evidence in words
group_removal_causes.py  why a group itself was removed

The kinds and causes of a change are listed in sexton.tables.change_kinds; what a release can do, in its Profile.
"""
