import pytest

from sexton.coordinator.partitioner import infer_partition_count, java_hash, partition_of, proven_partition_count


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


def test_the_count_is_told_by_where_groups_lie():
    assert infer_partition_count(_found(50), 49) == 50
    assert infer_partition_count(_found(50), 30) == 50


def test_the_count_is_told_by_a_part_of_the_log_partitions():
    found = _found(50, groups=400, keep=lambda log_partition: log_partition in (3, 17, 41))
    assert infer_partition_count(found, 41) == 50


def test_a_few_stray_groups_do_not_hide_the_count():
    found = _found(50)
    found[7] = [*found.get(7, []), "stray"]
    assert partition_of("stray", 50) != 7
    assert infer_partition_count(found, 49) == 50


def test_of_few_groups_all_must_agree():
    assert infer_partition_count({0: ["a", "b", "c"], 1: ["a"]}, 1) is None


def test_without_groups_nothing_is_told():
    assert infer_partition_count({0: [], 1: []}, 1) is None


@pytest.mark.parametrize(
    ("found", "highest", "proven"),
    [
        (_found(50), 49, 50),
        (_found(50, keep=lambda log_partition: log_partition in (3, 17, 41)), 41, 50),
        (_found(10_000), 40, 10_000),
        (_found(50, keep=lambda log_partition: log_partition < 10), 9, None),
        (_found(50, groups=1), 49, None),
        ({**_found(50), 7: ["stray"]}, 49, None),
        ({0: [], 1: []}, 1, None),
        (_found(50), 10_000, None),
    ],
    ids=["all", "some", "the highest count", "might be ten", "one name", "one elsewhere", "none", "too many"],
)
def test_a_count_is_proven_where_no_other_is_possible(found, highest, proven):
    assert proven_partition_count(found, highest) == proven
