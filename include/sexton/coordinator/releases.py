"""Since which release of Kafka a rule holds, asked of a profile."""

from sexton.coordinator import group_coordinator, group_metadata_manager, offset_manager
from sexton.coordinator.profile import Profile, Release

_LAST = {module.NAME: module.LAST_RELEASE for module in (group_coordinator, group_metadata_manager, offset_manager)}
_ANY_PATCH = 1 << 16


def is_since(profile: Profile, release: Release) -> bool:
    """Whether the profile's release is `release` or later; one told in part, such as 0.10, stands for its newest."""
    newest, last = (*profile.release, _ANY_PATCH), _LAST[profile.name]
    return (last if newest[: len(last)] > last else newest) >= release
