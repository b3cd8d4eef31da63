"""`sexton fetch --in-flight`: commits that are not in the log yet, and the answers once they are appended or failed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sexton.cli.options import parse_exact_partition
from sexton.errors import UsageError

if TYPE_CHECKING:
    from sexton.coordinator.api.fetch import FetchAnswer, FetchedOffset
    from sexton.coordinator.offsets import StoredOffset

Flying = Mapping[tuple[str, int], int | None]
"""The committed offset by partition; None if the option gave none."""
COLUMNS = ("TOPIC", "PARTITION", "ONCE APPENDED", "IF THE APPEND FAILS")
MARKER_COLUMNS = ("ONCE COMMITTED", "ONCE ABORTED")
_UNKNOWN = -1


def commit_in_flight(text: str) -> tuple[tuple[str, int], int | None]:
    """The partition of `TOPIC:PARTITION[=OFFSET]`, and the offset if there is one."""
    partition, equals, offset = text.partition("=")
    if equals and not (offset.isascii() and offset.isdigit()):
        raise UsageError(f"not TOPIC:PARTITION=OFFSET: {text!r}", where="--in-flight", fix="such as orders:0=42")
    return parse_exact_partition(partition), int(offset) if equals else None


def in_flight_offsets(flying: Flying) -> "dict[tuple[str, int], StoredOffset]":
    """The commits as a coordinator holds them before they are in the log."""
    from sexton.coordinator.offsets import StoredOffset

    return {
        key: StoredOffset(
            log_offset=_UNKNOWN,
            committed_offset=_UNKNOWN if offset is None else offset,
            leader_epoch=None,
            metadata="",
            commit_timestamp_ms=_UNKNOWN,
            expire_timestamp_ms=None,
            topic_id=None,
            producer_id=_UNKNOWN,
        )
        for key, offset in flying.items()
    }


def outcomes(flying: Flying, *answers: "FetchAnswer") -> list[dict[str, Any]]:
    """The later answers for each partition: an offset, or the name of an error; None if the option gave no offset.

    `answers`: after the append, and if it fails; for a transaction, also after COMMIT and after ABORT.
    """
    found = [{(one.topic, one.partition): one for one in answer.offsets} for answer in answers]
    names = ("if_appended", "if_failed", "if_committed", "if_aborted")
    return [
        {"topic": key[0], "partition": key[1]}
        | {
            name: _answer(then.get(key), is_named=offset is not None or name in ("if_failed", "if_aborted"))
            for name, then in zip(names, found, strict=False)
        }
        for key, offset in flying.items()
    ]


def _answer(one: "FetchedOffset | None", *, is_named: bool) -> int | str | None:
    if one is not None and one.error:
        return one.error.name
    if not is_named:
        return None
    return _UNKNOWN if one is None else one.committed_offset
