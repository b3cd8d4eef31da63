"""The only place where releases of Kafka are compared.

A release without a patch number, such as 0.10, means its newest patch, at most the last that the coordinator had.
"""

from sexton.coordinator.profile import Release

_ANY_PATCH = 1 << 16


def reaches(release: Release, since: Release, *, last: Release) -> bool:
    """Whether `release` of a coordinator whose last release is `last` is `since` or later."""
    newest = (*release, _ANY_PATCH)
    return min(newest, (*last, _ANY_PATCH)) >= since


def is_beyond(release: Release, last: Release) -> bool:
    """Whether `release` is later than every patch of `last`."""
    return release[: len(last)] > last
