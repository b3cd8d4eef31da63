"""Compares releases of Kafka: whether a release has a dated rule, and whether it is later than a coordinator's last
one.

A release without a patch number, such as 0.10, means its newest patch, or the coordinator's last release if that is
earlier.
`profiles.of_broker` compares releases without this rule, to find the coordinator that a broker's release runs.
"""

from sexton.coordinator.profile import Release

_ANY_PATCH = 1 << 16
_NEW_FORMATS = ((0, 10), (0, 11))
"""The releases that brought record formats 1 and 2."""
_IGNORES_MESSAGE_FORMAT = (3, 0)
"""From this inter.broker.protocol.version on the newest format is always written (KIP-724)."""


def reaches(release: Release, since: Release, *, last: Release) -> bool:
    """Whether `release` of a coordinator whose last release is `last` is `since` or later."""
    newest = (*release, _ANY_PATCH)
    return min(newest, (*last, _ANY_PATCH)) >= since


def is_beyond(release: Release, last: Release) -> bool:
    """Whether `release` is later than every patch of `last`."""
    return release[: len(last)] > last


def message_format_of(configured: Release, protocol: Release) -> int | None:
    """The magic of a message.format.version, None where inter.broker.protocol.version overrides it."""
    return None if protocol >= _IGNORES_MESSAGE_FORMAT else sum(configured >= since for since in _NEW_FORMATS)
