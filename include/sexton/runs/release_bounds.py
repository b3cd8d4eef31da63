"""The possible releases of a broker, from what it wrote and when; every bound has its reason.

Dates are those of release tags, up to eight days before the announcement. Earlier builds and release candidates are
ignored. The broker's clock is trusted unless it is contradicted: no broker wrote record format 2 before 0.11.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sexton.coordinator.profile import Release

FIRST_WITHOUT_ZOOKEEPER: Release = (4, 0)
ZOOKEEPER: Release = (3, 9)
"""The last release with ZooKeeper."""
_GROUP_VALUES_OF_2_3 = 3
"""Version of the group value that 2.3 and all later releases write."""
_DATES = """
0.11 2017-06-28  1.0 2017-10-31  1.1 2018-03-28  2.0 2018-07-28  2.1 2018-11-20  2.2 2019-03-22  2.3 2019-06-24
2.4 2019-12-14   2.5 2020-04-14  2.6 2020-08-03  2.7 2020-12-19  2.8 2021-04-18  3.0 2021-09-20  3.1 2022-01-21
3.2 2022-05-09   3.3 2022-09-28  3.4 2023-02-06  3.5 2023-06-13  3.6 2023-10-03  3.7 2024-02-26  3.8 2024-07-26
3.9 2024-11-06   4.0 2025-03-18  4.1 2025-09-02  4.2 2026-02-16  4.3 2026-05-20
"""
_LEVELS = """
3.0 1  3.1 2  3.2 3  3.3 4  3.4 8  3.5 9  3.6 12  3.7 15  3.8 20  3.9 21  4.0 22  4.1 26  4.2 28  4.3 30  4.4 31
"""


def _table(text: str) -> dict[str, Release]:
    """The text after each release -> the release."""
    return {what: tuple(map(int, name.split("."))) for name, what in re.findall(r"(\S+) +(\S+)", text)}


_TAGGED = _table(_DATES)
"""Later releases are not in the table: what was written after the last date may come from any of them."""
_METADATA_VERSIONS = {int(level): release for level, release in _table(_LEVELS).items()}
"""The first level of each release (MetadataVersion)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseBounds:
    """Minor releases from `lowest` to `highest` (None: unbounded), each with its reason."""

    lowest: Release | None = None
    highest: Release | None = None
    lowest_why: str = ""
    highest_why: str = ""

    def and_from(self, release: Release, why: str) -> "ReleaseBounds":
        """These bounds with `release` as the lowest; unchanged if they are already tighter, or contradict it."""
        if (self.lowest is not None and release < self.lowest) or (self.highest is not None and release > self.highest):
            return self
        return replace(self, lowest=release, lowest_why=self.lowest_why if release == self.lowest else why)

    def and_to(self, release: Release, why: str) -> "ReleaseBounds":
        """These bounds with `release` as the highest; unchanged if they are already tighter, or contradict it."""
        if (self.highest is not None and release > self.highest) or (self.lowest is not None and release < self.lowest):
            return self
        also = f"{self.highest_why}, {why}" if release == self.highest else why
        return replace(self, highest=release, highest_why=also)

    def and_log(self, *, newest_ms: int, group_versions: Collection[int]) -> "ReleaseBounds":
        """These bounds, narrowed by the newest record of a log of format 2 and the versions of its group values."""
        found, newest = self, release_at(newest_ms)
        if group_versions and max(group_versions) < _GROUP_VALUES_OF_2_3:
            release, whose = ((2, 2), "2.1 and 2.2") if 2 in group_versions else ((2, 0), "releases before 2.1")
            why = f"no group value is above version {max(group_versions)}, as in the inter-broker protocol of {whose}"
            found = found.and_to(release, why)
        return found if newest is None else found.and_to(newest, f"the newest record is of {day_of(newest_ms)}")

    @property
    def leaves_one_coordinator(self) -> bool:
        """Whether all releases are before 4.0, or all from 4.0 on."""
        is_before = self.highest is not None and self.highest < FIRST_WITHOUT_ZOOKEEPER
        return is_before or (self.lowest is not None and self.lowest >= FIRST_WITHOUT_ZOOKEEPER)


UNBOUNDED = ReleaseBounds()


def release_at(instant_ms: int) -> Release | None:
    """The newest release that existed at the time of a record of format 2; None if that is not known, or if the clock
    was wrong."""
    day = day_of(instant_ms)
    is_dated = min(_TAGGED) <= day < max(_TAGGED)
    return max(release for since, release in _TAGGED.items() if since <= day) if is_dated else None


def release_of_level(metadata_version: int) -> tuple[Release | None, bool]:
    """(release that introduced a level of metadata.version, whether it is exactly that release); None below 1.

    The last known level or a higher one may be of a later release.
    """
    release = max((release for level, release in _METADATA_VERSIONS.items() if level <= metadata_version), default=None)
    return release, release is not None and metadata_version < max(_METADATA_VERSIONS)


def highest_metadata_version(release: Release) -> int:
    """The highest level of metadata.version that a release supports, as far as later releases are known."""
    later = [level for level, since in _METADATA_VERSIONS.items() if since > release[:2]]
    return min(later) - 1 if later else max(_METADATA_VERSIONS)


def text_of(release: Release) -> str:
    """The release as text, such as `4.3`."""
    return ".".join(map(str, release))


def day_of(instant_ms: int) -> str:
    """The day of an instant in ISO 8601; empty if the instant is beyond the calendar."""
    try:
        return datetime.fromtimestamp(instant_ms / 1000, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return ""
