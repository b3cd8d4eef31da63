"""Profiles by name: `group_coordinator`, `group_metadata_manager:2.8`, `offset_manager:0.9.0.1`."""

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from sexton.coordinator.dated_rules import group_coordinator, group_metadata_manager, offset_manager
from sexton.coordinator.groups.groups import Groups, ScalaGroups
from sexton.coordinator.offsets import LeakingOffsets, Offsets, ScalaOffsets
from sexton.coordinator.profile import DatedRules, Profile, Release
from sexton.coordinator.releases import is_beyond, reaches
from sexton.errors import UsageError

_MODULES: Mapping[str, ModuleType] = {
    module.NAME: module for module in (group_coordinator, group_metadata_manager, offset_manager)
}
NAMES = tuple(_MODULES)
RECORDED = tuple(sorted(release for module in _MODULES.values() for release in module.RECORDED))
"""Releases that were recorded for the tests."""


@cache
def profile_of(text: str) -> Profile:
    """The profile of `NAME` or `NAME:RELEASE`; UsageError for an unknown one.

    A release without a patch number, such as 4.0, means its newest patch.
    """
    name, colon, release_text = text.partition(":")
    if name not in _MODULES:
        raise UsageError(f"unknown profile {name!r}", where=text, fix=f"one of {', '.join(NAMES)}")
    changes, last = _MODULES[name].DATED_RULES, _MODULES[name].LAST_RELEASE
    release = _release(text, release_text) if colon else _MODULES[name].DEFAULT_RELEASE
    if not reaches(release, changes[0][0], last=last) or is_beyond(release, last):
        first = ".".join(map(str, changes[0][0]))
        raise UsageError(
            f"{name} is not the coordinator of Kafka {release_text}",
            where=text,
            fix=f"it served Kafka {first} to {'.'.join(map(str, last))}",
        )
    rules = _rules(changes, release, last)
    is_proven = any(
        recorded[: len(release)] == release and _rules(changes, recorded, last) == rules
        for recorded in _MODULES[name].RECORDED
    )
    return Profile(name=name, release=release, is_proven=is_proven, **rules)


def _rules(changes: DatedRules, release: Release, last: Release) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for since, new in changes:
        if reaches(release, since, last=last):
            rules |= new
    return rules


def _release(text: str, release: str) -> Release:
    parts = release.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"not a release: {release!r}", where=text, fix="such as 2.8 or 4.0.0")
    return tuple(map(int, parts))


def of_broker(release: str | None) -> Profile:
    """The profile of the coordinator in a broker of `release`; the newest where the release is unknown.

    A broker only shows its minor release: for the minor release of a profile's default, the default is used.
    """
    if release is None:
        return NEWEST
    parts = _release(release, release)
    firsts = {name: module.DATED_RULES[0][0] for name, module in _MODULES.items()}
    firsts[group_coordinator.NAME] = group_coordinator.FIRST_BY_DEFAULT
    name = next(name for name in NAMES if firsts[name] <= parts or name == NAMES[-1])
    is_default = _MODULES[name].DEFAULT_RELEASE[: len(parts)] == parts
    return profile_of(name if is_default else f"{name}:{release}")


NEWEST = profile_of(group_coordinator.NAME)


def new_offsets(profile: Profile) -> Offsets:
    """An empty set of offsets that follows the rules of `profile`."""
    if profile.leaks_open_transactions:
        return LeakingOffsets()
    return Offsets() if profile.tombstones_cancel_pending else ScalaOffsets()


def new_groups(profile: Profile) -> Groups:
    """An empty set of groups that follows the rules of `profile`."""
    return ScalaGroups(profile) if profile.offsets_hold_groups else Groups(profile)
