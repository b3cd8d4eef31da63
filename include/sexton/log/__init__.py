"""Kafka's log format: segments, framing, batch headers, record batches, message sets, codecs, checksums.

What records mean is in `records`. No network, no clock.
"""
