"""The diff of a restore: what was, what is, what would happen, for every offset and by the cluster's own rules."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs as pafs

from sexton.errors import Refused, UsageError
from sexton.execution.restore.diff import make_restore
from sexton.execution.restore.restore_plan import (
    WRITTEN,
    OffsetValue,
    RestorePlan,
    Then,
    keep_restore,
    read_restore,
    restore_folder,
)
from sexton.execution.restore.selection import Selection
from sexton.execution.restore.sources import Source
from tests.execution.restore.simulated_cluster import Group, SimulatedCluster, value

KEY = ("t", 0)
LOCAL = pafs.LocalFileSystem()
RECREATED, LONG = "another", "x" * 4097


def source_of(values: dict[tuple[str, str, int], Then]) -> Source:
    return Source(name="as_of 5", cluster_id="cluster", values=values)


def restored(cluster: SimulatedCluster, then: Then, **options: bool) -> RestorePlan:
    return make_restore(source_of({("g", *KEY): then}), cluster, **options)


def cluster_with(group: Group | None = None, *, topic: str = "t", topic_id: str = "id", start: int = 0, end: int = 100):
    groups = {} if group is None else {"g": group}
    return SimulatedCluster(groups=groups, topics_now={topic: (topic_id, [(start, end)])})


THEN = Then(value=value(50, 3, "m"), topic_id="id")
TAKEN = ("restore", None, THEN.value)
SAME, NEWER = ("same", None, None), ("newer_now", None, None)
HAS_MEMBERS = ("group_has_members", "UNKNOWN_MEMBER_ID", None)
CUT = Group(offsets={KEY: value(49, None, "m")})
OVERWRITES, CLAMPS = {"overwrites": True}, {"clamps": True}
ANY_TOPIC, TOO_LONG = replace(THEN, topic_id=None), Then(value=value(50, None, LONG))
NO_PARTITIONS = SimulatedCluster(topics_now={"t": ("id", [])})


@pytest.mark.parametrize(
    ("cluster", "then", "options", "told"),
    [
        (cluster_with(), THEN, {}, TAKEN),
        (cluster_with(Group()), THEN, {}, TAKEN),
        (cluster_with(Group(group_type="Consumer")), THEN, {}, TAKEN),
        (cluster_with(Group(group_type="Streams")), THEN, {}, TAKEN),
        (cluster_with(Group(offsets={KEY: THEN.value})), THEN, {}, SAME),
        (cluster_with(Group(members=1, offsets={KEY: THEN.value})), THEN, {}, SAME),
        (cluster_with(Group(offsets={KEY: value(50, 4, "m")})), THEN, {}, NEWER),
        (cluster_with(Group(offsets={KEY: value(50, 3, "n")})), THEN, {}, NEWER),
        (cluster_with(Group(offsets={KEY: value(60)})), THEN, {}, NEWER),
        (cluster_with(Group(offsets={KEY: value(60)})), THEN, OVERWRITES, TAKEN),
        (cluster_with(Group(members=1)), THEN, {}, HAS_MEMBERS),
        (cluster_with(Group(group_type="Consumer", members=2)), THEN, {}, HAS_MEMBERS),
        (cluster_with(Group(group_type="Streams", members=1)), THEN, {}, HAS_MEMBERS),
        (cluster_with(Group(members=1, offsets={KEY: value(60)})), THEN, OVERWRITES, HAS_MEMBERS),
        (cluster_with(Group(group_type="Share")), THEN, {}, ("share_group", "GROUP_ID_NOT_FOUND", None)),
        (cluster_with(Group(pending={KEY})), THEN, {}, ("pending_transaction", "UNSTABLE_OFFSET_COMMIT", None)),
        (cluster_with(topic="other"), THEN, {}, ("topic_gone", "UNKNOWN_TOPIC_OR_PARTITION", None)),
        (cluster_with(topic_id=RECREATED), THEN, {}, ("topic_recreated", None, None)),
        (cluster_with(topic_id=RECREATED), ANY_TOPIC, {}, TAKEN),
        (NO_PARTITIONS, THEN, {}, ("partition_gone", "UNKNOWN_TOPIC_OR_PARTITION", None)),
        (cluster_with(), TOO_LONG, {}, ("metadata_too_large", "OFFSET_METADATA_TOO_LARGE", None)),
        (cluster_with(start=50, end=50), THEN, {}, TAKEN),
        (cluster_with(start=51), THEN, {}, ("below_log_start", None, THEN.value)),
        (cluster_with(end=49), THEN, {}, ("beyond_log_end", None, THEN.value)),
        (cluster_with(start=51), THEN, CLAMPS, ("clamped", None, value(51, None, "m"))),
        (cluster_with(end=49), THEN, CLAMPS, ("clamped", None, value(49, None, "m"))),
        (cluster_with(CUT, end=49), THEN, CLAMPS, SAME),
        (cluster_with(CUT, end=49), THEN, {}, NEWER),
        (cluster_with(), THEN, CLAMPS, TAKEN),
    ],
)
def test_what_would_happen(cluster, then, options, told) -> None:
    plan = restored(cluster, then, **options)
    (row,) = plan.rows
    assert (row.what, row.error, row.put) == told
    assert row.then == then
    assert row.now == (cluster.groups["g"].offsets.get(KEY) if "g" in cluster.groups else None)
    assert plan.items == ([row] if row.what in WRITTEN else [])
    assert cluster.commits == []


def test_the_log_is_told_where_a_value_lies_outside() -> None:
    (row,) = restored(cluster_with(start=60, end=80), THEN).rows
    assert (row.log_start_offset, row.log_end_offset) == (60, 80)
    (row,) = restored(cluster_with(), THEN).rows
    assert (row.log_start_offset, row.log_end_offset) == (None, None)


def test_another_cluster_is_refused() -> None:
    with pytest.raises(Refused, match="this is elsewhere"):
        restored(replace(cluster_with(), cluster_id="elsewhere"), THEN)


texts = st.text(max_size=3)
values = st.builds(
    OffsetValue,
    committed_offset=st.integers(0, 5),
    leader_epoch=st.none() | st.integers(0, 2),
    metadata=st.sampled_from(["", "m", LONG]),
)
keys = st.tuples(st.sampled_from("tu"), st.integers(0, 2))
groups = st.builds(
    Group,
    group_type=st.sampled_from(["Classic", "Consumer", "Streams", "Share"]),
    members=st.sampled_from([0, 0, 0, 1]),
    offsets=st.dictionaries(keys, values, max_size=4),
    pending=st.sets(keys, max_size=1),
)
clusters = st.builds(
    SimulatedCluster,
    groups=st.dictionaries(st.sampled_from("abc"), groups),
    topics_now=st.dictionaries(
        st.sampled_from("tu"),
        st.tuples(st.sampled_from(["id", "new"]), st.lists(st.sampled_from([(0, 5), (2, 4), (0, 0)]), max_size=3)),
    ),
)
thens = st.builds(Then, value=values, topic_id=st.sampled_from([None, "id"]))
wanted = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("tu"), st.integers(0, 2)), thens, max_size=8
)


@settings(max_examples=150)
@given(clusters, wanted, st.booleans(), st.booleans())
def test_what_is_promised_is_what_the_cluster_takes(cluster, values, overwrites, clamps) -> None:
    """Each item is taken when it is committed, and whatever the cluster would refuse is no item."""
    plan = make_restore(source_of(values), cluster, overwrites=overwrites, clamps=clamps)
    assert {row.key for row in plan.rows} == set(values)
    for row in plan.rows:
        answer = cluster._commit(row.group_id, (row.topic, row.partition), row.put or row.then.value)
        if row.put is not None:
            assert answer is None
        elif row.error is not None and row.what != "pending_transaction":
            assert answer == row.error
    written = {row.key: values[row.key] for row in plan.items}
    again = make_restore(source_of(written), cluster, overwrites=overwrites, clamps=clamps)
    assert {row.what for row in again.rows} <= {"same"}


@settings(max_examples=100)
@given(clusters, wanted, texts)
def test_a_restore_is_its_bytes(cluster, values, name) -> None:
    values |= {(name, "t", 0): THEN}
    plan = make_restore(source_of(values), cluster)
    assert RestorePlan.from_bytes(plan.to_bytes()) == plan
    assert make_restore(source_of(dict(reversed(values.items()))), cluster).restore_id == plan.restore_id
    other = replace(plan, rows=(replace(plan.rows[0], then=Then(value=value(77))), *plan.rows[1:]))
    assert other.restore_id != plan.restore_id


def test_what_is_kept_is_what_is_read(tmp_path: Path) -> None:
    plan = restored(cluster_with(), THEN)
    root = str(tmp_path)
    assert keep_restore(LOCAL, root, plan) == plan.restore_id
    assert read_restore(LOCAL, root, None, plan.restore_id) == plan
    path = Path(restore_folder(root, "cluster", plan.restore_id)) / "restore.jsonl"
    before = path.stat().st_mtime_ns
    keep_restore(LOCAL, root, plan)
    assert path.stat().st_mtime_ns == before


def test_what_was_changed_since_is_refused(tmp_path: Path) -> None:
    plan = restored(cluster_with(), THEN)
    restore_id = keep_restore(LOCAL, str(tmp_path), plan)
    path = Path(restore_folder(str(tmp_path), "cluster", restore_id)) / "restore.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"committed_offset":50', b'"committed_offset":51'))
    with pytest.raises(Refused, match="it is not what was shown"):
        read_restore(LOCAL, str(tmp_path), "cluster", restore_id)


@pytest.mark.parametrize("restore_id", ["", "..", "A" * 64, "f" * 63, "../" + "f" * 61])
def test_an_id_is_an_id(tmp_path: Path, restore_id: str) -> None:
    (tmp_path / "cluster").mkdir()
    with pytest.raises(UsageError, match="no restore_id"):
        read_restore(LOCAL, str(tmp_path), "cluster", restore_id)


def test_the_same_restore_once_more_is_another() -> None:
    first = restored(cluster_with(), THEN)
    second = make_restore(source_of({("g", *KEY): THEN}), cluster_with(), is_done=lambda plan: plan == first)
    assert (second.occurrence, second.rows) == (1, first.rows)
    assert second.restore_id != first.restore_id


@pytest.mark.parametrize(
    ("selection", "asked"),
    [
        (Selection(), {"a/t/0", "b/t/0", "ab/u/1"}),
        (Selection(group_ids=("a",)), {"a/t/0"}),
        (Selection(patterns=("a",)), {"a/t/0"}),
        (Selection(patterns=("a.*",)), {"a/t/0", "ab/u/1"}),
        (Selection(group_ids=("b",), patterns=("a.+",)), {"b/t/0", "ab/u/1"}),
        (Selection(topics=(("u", None),)), {"ab/u/1"}),
        (Selection(topics=(("u", 0), ("t", 0))), {"a/t/0", "b/t/0"}),
        (Selection(group_ids=("b",), topics=(("u", None),)), set()),
    ],
)
def test_selection(selection: Selection, asked: set[str]) -> None:
    is_asked = selection.test()
    every = [("a", "t", 0), ("b", "t", 0), ("ab", "u", 1)]
    assert {f"{g}/{t}/{p}" for g, t, p in every if is_asked((g, t, p))} == asked


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(UsageError, match="is not an RE2 regular expression"):
        Selection(patterns=("(",)).test()
