"""Changes: rows of offset_changes for an interval, the history of a group, and the difference of two instants.

interval.py         the interval of a run: where it starts, and the tables it fills
offset_changes.py   offset_changes of one log partition
interval_counts.py  sweeps and commits of an interval
log_story.py        a group over time, from segments or an archive; group_batches.py finds its batches
published_story.py  a group over time, from published tables
admin_story.py      a group over time, from admin snapshots
events.py           the events of all three stories
difference.py       two instants compared
admin_difference.py  two admin snapshots compared, with those between them
"""
