"""Why an offset changed or disappeared between two instants of a log partition, in plain Python: the oracle of kernels.

change.py    the facts that go in and the rows that come out, in the words of the table offset_changes
replay.py    the plain replay that finds the writes of an interval
causes.py    from one write to its rows: the fewest operations that could have written it
rules.py     which operations could have written what stands there, and what speaks for each
powers.py    what a release can do
evidence.py  what the log shows of a disappearance, in words
"""
