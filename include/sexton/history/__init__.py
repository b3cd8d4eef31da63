"""What changed: rows of an interval for the table offset_changes, and the same told to people (explain, diff).

rows.py       offset_changes of one log partition, a step of replay_groups
scan.py       the batches of a log that are about a group
events.py     what happened to a group, in words
story.py      a group over time, from segments or an archive
published.py  the same from the published tables
diff.py       two instants compared
"""
