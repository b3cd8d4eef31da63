"""How late consumer groups are in time: not how many records behind, but since when.

measure_lag   asks brokers when the log of a partition reached an instant, and joins that with committed offsets
time_lag      the bounds of a group's lag from points that are known
lag_growth    how fast a lag grows, and when the group loses unread messages
"""
