"""Feature levels in a metadata log with which a release does not start, even if they were lowered again.

A KRaft broker loads the newest snapshot of `__cluster_metadata`, applies every later FeatureLevelRecord, and exits at
the first level that it does not support (FeatureControlManager.replay). The supported levels here are a release's
production levels (Feature and MetadataVersion in its sources).
"""

from dataclasses import dataclass

from sexton.archive.folder import filesystem
from sexton.archive.metadata_log import METADATA_VERSION, MetadataLog, read_metadata_log
from sexton.coordinator.profile import Profile, Release
from sexton.errors import LogError
from sexton.runs.release_bounds import highest_metadata_version
from sexton.settings import settings

_SINCE: dict[str, tuple[tuple[Release, int], ...]] = {
    "group.version": (((4, 0), 1),),
    "transaction.version": (((4, 0), 2),),
    "eligible.leader.replicas.version": (((4, 0), 1),),
    "share.version": (((4, 1), 1),),
    "streams.version": (((4, 2), 1),),
}
"""Feature -> (release, highest level from that release on); 0 in earlier releases."""
_LEAST_METADATA_VERSION = 7
"""The lowest metadata.version that releases from 4.0 on support: 3.3-IV3."""
GROUP_VERSION = "group.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLevel:
    """A feature level that a release does not support."""

    name: str
    level: int
    supported: str
    is_lowered: bool


def metadata_of(roots: list[str], as_of_ms: int | None) -> MetadataLog | None:
    """The metadata log of a broker's log directories; None if they have none that can be read."""
    for root in roots:
        fs, path = filesystem(root)
        try:
            found = read_metadata_log(fs, path, as_of_ms=as_of_ms, cap_bytes=settings().inflated_cap_bytes)
        except LogError:
            continue  # the warnings of the input report it
        if found is not None:
            return found
    return None


def refused_levels(log: MetadataLog, profile: Profile) -> list[RefusedLevel]:
    """The levels in the metadata log with which a broker of the release does not start."""
    found = []
    for name, levels in sorted(log.levels.items()):
        lowest, highest = _supported(name, profile.release)
        for level in sorted(levels):
            if level > highest or (level < lowest and level == log.features.get(name)):
                supported = f"{lowest} to {highest}" if highest else "0"
                is_lowered = log.features.get(name) != level
                found.append(RefusedLevel(name=name, level=level, supported=supported, is_lowered=is_lowered))
    return found


def _supported(name: str, release: Release) -> tuple[int, int]:
    if name == METADATA_VERSION:
        return (_LEAST_METADATA_VERSION if release >= (4, 0) else 1), highest_metadata_version(release)
    known = [level for since, level in _SINCE.get(name, ()) if release >= since]
    return 0, max(known, default=0)
