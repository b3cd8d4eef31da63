"""UTF-8 as Java reads it: `new String(bytes, UTF_8)`, which Kafka calls for every string of a record.

Malformed bytes become U+FFFD, one for each longest sequence that could begin a character. Python does the same with one
exception: a surrogate encoded in three bytes (CESU-8, as old JVM tools write it) is three errors in Python and one in
Java.
"""

import codecs

REPLACE_LIKE_JAVA = "sexton.replace_like_java"
"""The name of the error handler, for str() and bytes.decode()."""


def decode_utf8(data: bytes) -> str:
    """Decode `data` exactly as Java's `new String(data, UTF_8)`; never raises."""
    return data.decode("utf-8", REPLACE_LIKE_JAVA)


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start, end = error.object, error.start, error.end
    # Java takes the whole encoded surrogate, ED A0..BF and one more continuation byte when there is one, as one error.
    if data[start] == 0xED and _is_continuation(data, start + 1):
        end = start + (3 if _is_continuation(data, start + 2) else 2)
    return "\ufffd", end


def _is_continuation(data: bytes, index: int) -> bool:
    return index < len(data) and data[index] & 0xC0 == 0x80


codecs.register_error(REPLACE_LIKE_JAVA, _replace_like_java)
