"""The names of a segment and of its manifest in the archive, in the folder of their lineage."""

import re

MANIFEST_FILE = re.compile(r"(\d{20})-(\d{20})-(\d{1,19})\.json")


def segment_path(folder: str, first_log_offset: int) -> str:
    """The file of a segment, named as Kafka names it."""
    return f"{folder}/{first_log_offset:020d}.log"


def manifest_path(folder: str, first_log_offset: int, next_log_offset: int, size_bytes: int) -> str:
    """The manifest of a segment; its name says what is in the segment, so that listing a folder is enough."""
    return f"{folder}/{first_log_offset:020d}-{next_log_offset:020d}-{size_bytes}.json"
