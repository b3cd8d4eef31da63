"""Kafka's log format: segments, framing, batch headers, record batches, message sets, codecs, checksums.

The layouts of keys and values are in `records`. Uses neither network nor clock.
"""
