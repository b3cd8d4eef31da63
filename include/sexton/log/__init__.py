"""Bytes of `__consumer_offsets`: record batches, codecs, checksums, segment files, and our archive of them.

Knows Kafka's log format and nothing of what the records mean (that is `records`). No network, no clock.
"""
