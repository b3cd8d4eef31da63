import pytest

from sexton.coordinator.partitioner import fitting_partition_counts, java_hash, partition_of, proven_partition_count


@pytest.mark.parametrize(
    "group_id, hashed, log_partition",
    [
        ("", 0, 0),
        ("my-group", -1906497762, 12),
        ("console-consumer-1234", 836395459, 9),
        ("connect-cluster", 1440343063, 13),
        ("日本", 835047, 47),
        ("😀", 1772899, 49),
        ("polygenelubricants", -2147483648, 0),
    ],
)
def test_a_group_lies_where_java_hashes_it(group_id, hashed, log_partition):
    assert java_hash(group_id) == hashed
    assert partition_of(group_id, 50) == log_partition


def _found(partition_count, *, groups=60, keep=lambda log_partition: True):
    found = {}
    for number in range(groups):
        group_id = f"группа-{number}"
        log_partition = partition_of(group_id, partition_count)
        if keep(log_partition):
            found.setdefault(log_partition, []).append(group_id)
    return found


@pytest.mark.parametrize(
    ("found", "highest", "proven"),
    [
        (_found(50), 49, 50),
        (_found(50, groups=400, keep=lambda log_partition: log_partition in (3, 17, 41)), 41, 50),
        (_found(10_000), 40, 10_000),
        (_found(50, keep=lambda log_partition: log_partition < 10), 9, None),
        (_found(50, groups=1), 49, None),
        ({**_found(50), 7: ["stray"]}, 49, 50),
        ({**_found(50, groups=8), 7: ["stray"]}, 49, None),
        (_found(50, groups=9), 49, None),
        (_found(3, groups=30), 9, None),
        ({0: [], 1: []}, 1, None),
        (_found(50), 10_000, None),
    ],
    ids=[
        *("all", "some", "the highest count", "might be ten", "one name", "one of many elsewhere"),
        *("one of few elsewhere", "few", "a smaller count", "none", "too many"),
    ],
)
def test_a_count_is_proven_where_no_other_is_possible(found, highest, proven):
    assert proven_partition_count(found, highest) == proven


def test_an_earlier_count_is_found_by_the_groups_that_it_left_behind():
    left = _found(16, groups=8)
    assert 16 in fitting_partition_counts(left, range(max(left) + 1, 50))
    assert fitting_partition_counts({**left, 49: ["группа-0"]}, range(50, 100)) == []
