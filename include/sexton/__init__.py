"""Sexton shows which offsets Kafka deleted, when and why, what expires next, and cleans up with approval and undo."""

__version__ = "0.1.0"
