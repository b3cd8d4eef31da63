"""Feature levels in metadata logs of real brokers that other releases refuse as they start."""

import pytest

from sexton.archive.metadata_log import MetadataLog
from sexton.coordinator.profiles import of_broker
from sexton.records.cluster_metadata import FeatureLevel
from sexton.rehearsal.features import metadata_of, refused_levels
from tests.coordinator.golden import GOLDEN


def refused(log: MetadataLog, release: str) -> dict[str, tuple[int, str]]:
    return {one.name: (one.level, one.supported) for one in refused_levels(log, of_broker(release))}


def test_what_3_9_1_and_4_0_0_refuse_of_a_broker_of_4_2() -> None:
    """4.2.0 has formatted it; both were seen to end with such an error, 4.0.0 on streams.version."""
    log = metadata_of([str(GOLDEN / "cluster-metadata/4.2.0")], None)
    assert log is not None
    assert refused(log, "3.9.1")["group.version"] == (1, "0")
    assert refused(log, "3.9.1")["metadata.version"] == (29, "1 to 21")
    assert refused(log, "4.0.0")["streams.version"] == (1, "0")
    assert refused(log, "4.2.1") == refused(log, "4.3.1") == {}


def levels(*found: tuple[str, int]) -> MetadataLog:
    log = MetadataLog()
    for name, level in found:
        log.apply(FeatureLevel(name=name, feature_level=level))
    return log


def test_a_level_that_was_lowered_again_is_refused_all_the_same() -> None:
    (one,) = refused_levels(levels(("group.version", 1), ("group.version", 0)), of_broker("3.9.1"))
    assert (one.name, one.level, one.is_lowered) == ("group.version", 1, True)


@pytest.mark.parametrize(
    "name, level, taken, refuses",
    [
        ("metadata.version", 8, "3.4.0", None),
        ("metadata.version", 9, "3.5", "3.4.0"),
        ("metadata.version", 6, "3.9.1", "4.0.0"),
        ("metadata.version", 25, "4.0.0", "3.9.1"),
        ("group.version", 1, "4.0.0", "3.9.1"),
        ("transaction.version", 2, "4.0.0", "3.9.1"),
        ("share.version", 1, "4.1.0", "4.0.2"),
        ("streams.version", 1, "4.2.0", "4.1.2"),
        ("group.version", 0, "3.9.1", None),
        ("of.tomorrow", 1, "4.4.0", "4.4.0"),
    ],
)
def test_which_release_supports_which_level(name: str, level: int, taken: str, refuses: str | None) -> None:
    log = levels((name, level))
    assert refuses == taken or refused(log, taken) == {}
    assert refuses is None or name in refused(log, refuses)
