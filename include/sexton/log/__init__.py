"""Bytes of `__consumer_offsets`: record batches, codecs, checksums, segment files.

Knows Kafka's log format and nothing of what the records mean (that is `records`). No network, no clock.
"""
