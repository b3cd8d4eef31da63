"""The profiles by name and release, and the page that tells of them."""

import re
from pathlib import Path

import pytest

from sexton.coordinator import profiles
from sexton.coordinator.dated_rules import group_coordinator, group_metadata_manager, offset_manager
from sexton.coordinator.profile import AfterFailure, Expiry, Subscriptions
from sexton.coordinator.profiles import of_broker, profile_of
from sexton.errors import UsageError
from tests.coordinator.golden import RELEASES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coordinators.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", [group_coordinator, group_metadata_manager, offset_manager])
def test_the_page_has_every_release_at_which_rules_change(module):
    section = PAGE.partition(f"### {module.NAME}\n")[2].partition("\n### ")[0]
    told = [tuple(map(int, release.split("."))) for release in re.findall(r"^\| ([\d.]+) \|", section, re.MULTILINE)]
    assert told == [since for since, _ in module.DATED_RULES]
    assert told == sorted(told)


def test_the_page_and_the_recordings_name_the_same_brokers():
    sentence = PAGE.partition("answers match all of them:")[2].partition("Any other")[0]
    told = set(re.findall(r"\d+(?:\.\d+)+", sentence))
    assert told == set(RELEASES.values()) == {".".join(map(str, release)) for release in profiles.RECORDED}


@pytest.mark.parametrize("release", sorted(set(RELEASES.values())))
def test_recorded_releases_are_proven(release):
    assert of_broker(release).is_proven


@pytest.mark.parametrize(
    "text, is_proven",
    [
        ("group_coordinator", True),
        ("group_coordinator:4.0.0", True),
        ("group_coordinator:4.0", False),  # its newest patch has other rules than 4.0.0
        ("group_coordinator:4.2.0", False),
        ("group_coordinator:3.9", False),
        ("group_metadata_manager", True),
        ("group_metadata_manager:2.8", True),
        ("group_metadata_manager:2.2", False),
        ("offset_manager", True),
        ("offset_manager:0.8.2", False),
    ],
)
def test_other_releases_are_not(text, is_proven):
    assert profile_of(text).is_proven == is_proven


MANAGER = "group_metadata_manager"
KEEP_A_DAY = ("offset_manager:0.8.2", "offset_manager:0.10.0", f"{MANAGER}:0.10.1", f"{MANAGER}:1.1.1")
KEEP_A_WEEK = (f"{MANAGER}:2.0.0", MANAGER, "group_coordinator")


@pytest.mark.parametrize(
    "text, field, value",
    [
        ("group_coordinator:3.8", "early_consumer_groups", True),
        ("group_coordinator:3.9.1", "early_consumer_groups", True),
        ("group_coordinator:4.0.0", "early_consumer_groups", False),
        ("group_coordinator:4.0", "leaks_open_transactions", False),
        ("group_coordinator:4.0.0", "leaks_open_transactions", True),
        ("group_coordinator:4.1.0", "newer_owners_win", False),
        ("group_coordinator:4.0.2", "newer_owners_win", True),
        ("group_coordinator:4.3.1", "subscriptions", Subscriptions.FAIL),
        ("group_coordinator:4.2.2", "subscriptions", Subscriptions.UNKNOWN),
        ("group_metadata_manager:2.1.1", "keeps_expire_of_minus_1", True),
        ("group_metadata_manager:2.1", "expiry", Expiry.EMPTY_GROUPS),
        ("group_metadata_manager:2.6.0", "forgets_state_timestamp", True),
        ("group_metadata_manager:2.6", "forgets_state_timestamp", False),
        ("group_metadata_manager:3.4.0", "skips_unknown_types", False),
        ("group_metadata_manager:3.4", "skips_unknown_types", True),
        ("group_metadata_manager:0.10", "newest_format", 1),
        ("offset_manager:0.8.2.2", "after_failure", AfterFailure.PREFIX),
        *((text, "default_retention_minutes", 1_440) for text in KEEP_A_DAY),
        *((text, "default_retention_minutes", 10_080) for text in KEEP_A_WEEK),
    ],
)
def test_a_release_has_all_that_came_before_it(text, field, value):
    assert getattr(profile_of(text), field) == value


@pytest.mark.parametrize(
    "text, message",
    [
        ("coordinator", "unknown profile 'coordinator'"),
        ("group_coordinator:", "not a release"),
        ("group_coordinator:4.x", "not a release"),
        ("group_coordinator:3.7", "not the coordinator of Kafka 3.7"),
        ("group_coordinator:5.0", "not the coordinator of Kafka 5.0"),
        ("group_metadata_manager:0.10.0", "not the coordinator of Kafka 0.10.0"),
        ("offset_manager:0.8.1", "not the coordinator of Kafka 0.8.1"),
    ],
)
def test_what_is_no_profile(text, message):
    with pytest.raises(UsageError, match=message):
        profile_of(text)
