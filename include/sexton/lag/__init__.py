"""Lag of consumer groups in time instead of records: how long the first unread record has waited.

measure_lag   asks brokers when the log of a partition reached an instant, and joins that with committed offsets
time_lag      the bounds of a group's lag from archived points
lag_growth    how fast a lag grows, and when the group loses unread messages
"""
