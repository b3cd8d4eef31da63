"""Sexton keeps the graveyard of Kafka's consumer offsets: exact replay, explained expiry, published history."""

__version__ = "0.1.0"
