"""Where the values of a restore come from: they are what was there, whichever way they are asked for."""

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter, itemgetter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs as pafs

from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.partitioner import partition_of
from sexton.errors import NoCoverage, Refused, UsageError
from sexton.execution.restore.restore_plan import Then
from sexton.execution.restore.selection import Selection
from sexton.execution.restore.sources import RestoreRequest, of_archive, of_ledger, source_of
from sexton.job_params import ReplayRequest
from sexton.ledger.entries import Intent, Item, Result, StepOutcome, Value
from sexton.ledger.ledger import Ledger
from sexton.plans.read_plan import own_plan, read_plan
from sexton.plans.write_plan import keep_plan
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.views.coordinator_view import open_view
from tests.archived import CLUSTER, Archive
from tests.execution.restore.simulated_cluster import value
from tests.log_builder import commit, tombstone
from tests.pipeline.archive_runs import LATER_MS, instant, minute
from tests.plans.plan_runs import archive_of_commits, planned

LOCAL = pafs.LocalFileSystem()
EVERYTHING = Selection(patterns=(".*",))
PARTITIONS = 3


def request(archive: Archive, **options: object) -> RestoreRequest:
    return RestoreRequest(archive=archive.root, **options)


def values_of(archive: Archive, **options: object) -> Mapping[tuple[str, str, int], Then]:
    return source_of(request(archive, **options), taken_at_ms=LATER_MS).values


def key_of(group_id: str, topic: str = "t", partition: int = 0) -> tuple[str, str, int]:
    return group_id, topic, partition


# --- the archive at an instant

actions = st.tuples(
    st.sampled_from(["a", "b", "c", "группа"]),
    st.sampled_from(["t", "u"]),
    st.integers(0, 1),
    st.integers(0, 9),
    st.booleans(),
)


@settings(max_examples=25)
@given(
    first=st.lists(actions, min_size=1, max_size=8), second=st.lists(actions, max_size=8), at=st.sampled_from([1, 2])
)
def test_an_instant_has_what_a_client_could_fetch_then(tmp_path_factory, first, second, at) -> None:
    """Group by group the answers of the desk, which `sexton fetch` gives."""
    archive = Archive(tmp_path_factory.mktemp("archive"), partitions=PARTITIONS)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for number, taken in ((1, first), (2, second)):
        new = {}
        for part in range(PARTITIONS):
            own = [
                tombstone(group, topic, partition) if is_gone else commit(group, offset, topic, partition)
                for group, topic, partition, offset, is_gone in taken
                if partition_of(group, PARTITIONS) == part
            ]
            if own:
                new[part] = minute(number, *own, first=ends[part])
                ends[part] += len(own)
        archive.snapshot(instant(number) + 2_000, new)
    archive.snapshot(instant(9), {})
    found = of_archive(archive.root, cluster_id=None, as_of_ms=instant(at), selection=EVERYTHING, taken_at_ms=LATER_MS)
    view = open_view(ReplayRequest(archive=archive.root, as_of_ms=instant(at), taken_at_ms=LATER_MS))
    told = {
        key_of(group, answer.topic, answer.partition): (answer.committed_offset, answer.metadata)
        for group in ("a", "b", "c", "группа")
        for answer in fetch(view.coordinator, group).offsets
    }
    assert {key: (then.value.committed_offset, then.value.metadata) for key, then in found.values.items()} == told
    by_name = Selection(group_ids=("a", "группа"))
    named = of_archive(archive.root, cluster_id=None, as_of_ms=instant(at), selection=by_name, taken_at_ms=LATER_MS)
    assert dict(named.values) == {key: then for key, then in found.values.items() if key[0] in by_name.group_ids}


def test_topics_of_then_are_known_by_the_facts_of_then(tmp_path: Path) -> None:
    """A value says itself which topic it was committed for, or the facts do; a later topic of its name is another."""
    archive = Archive(tmp_path / "archive", topics=[{"topic": "t", "id": "then", "partitions": [[0, 9]]}])
    archive.snapshot(instant(1) - 1_000, {0: minute(1, commit("g"), first=0)})
    archive.topics = [{"topic": "t", "id": "now", "partitions": [[0, 9]]}]
    archive.snapshot(instant(3), {})
    (then,) = values_of(archive, as_of_ms=instant(1), selection=EVERYTHING).values()
    assert then.topic_id == "then"


def test_an_instant_that_is_not_archived(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    archive.snapshot(instant(1), {0: minute(1, commit("g"), first=0)})
    with pytest.raises(NoCoverage):
        values_of(archive, as_of_ms=instant(1), selection=EVERYTHING)
    with pytest.raises(UsageError, match="select what to put back"):
        values_of(archive, as_of_ms=instant(1))


# --- a plan

VALUE = ("committed_offset", "leader_epoch", "metadata")


@pytest.fixture(scope="module")
def plan_archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Archive, str]:
    """An archive that keeps a plan, and its plan_id."""
    folder = tmp_path_factory.mktemp("plans")
    archive = archive_of_commits(folder / "archive")
    with SerialEngine(quiet=True) as engine:
        planned(engine, folder / "run", archive)
    record = own_plan(RunFolder(folder / "run")).record
    keep_plan(RunFolder(folder / "run"), record, archive.root)
    return archive, record.plan_id


def test_a_plan_has_every_value_that_it_would_remove(plan_archive: tuple[Archive, str]) -> None:
    archive, plan_id = plan_archive
    undo = read_plan(LOCAL, archive.root, None, plan_id).undo.to_pylist()
    found = values_of(archive, from_plan=plan_id)
    key_of, values = itemgetter("group_id", "topic", "partition"), itemgetter(*VALUE, "expire_timestamp_ms")
    assert {(*key, *attrgetter(*VALUE)(then.value), then.expire_timestamp_ms) for key, then in found.items()} == {
        (*key_of(row), *values(row)) for row in undo
    }
    assert len(found) == len(undo) > 3
    group_id, topic, _ = next(iter(found))
    some = Selection(group_ids=(group_id,), topics=((topic, None),))
    expected = {key: then for key, then in found.items() if key[:2] == (group_id, topic)}
    assert dict(values_of(archive, from_plan=plan_id, selection=some)) == expected


def test_a_plan_is_the_archive_at_its_instant(plan_archive: tuple[Archive, str]) -> None:
    archive, plan_id = plan_archive
    archive.snapshot(LATER_MS, {})
    by_instant = values_of(archive, as_of_ms=instant(3), selection=EVERYTHING)
    by_plan = values_of(archive, from_plan=plan_id)
    assert by_plan.items() <= by_instant.items()


def test_a_plan_that_was_changed_is_refused(plan_archive: tuple[Archive, str]) -> None:
    archive, plan_id = plan_archive
    undo = archive.folder / CLUSTER / "plans" / plan_id / "undo" / "0.parquet"
    data = undo.read_bytes()
    try:
        undo.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(Refused, match="SHA-256"):
            values_of(archive, from_plan=plan_id)
    finally:
        undo.write_bytes(data)


# --- a ledger

PLAN = "ab" * 32


@pytest.mark.parametrize(
    ("outcome", "found", "expected"),
    [
        ("done", None, 5), ("raced", 7, 7), ("raced", None, 5), (None, None, 5), ("unknown", None, 5),
        ("gone", None, None), ("changed_since", 9, None), ("refused", None, None), ("not_done", None, None),
    ],
)  # fmt: skip
def test_a_ledger_has_what_was_really_removed(
    tmp_path: Path, outcome: str | None, found: int | None, expected: int | None
) -> None:
    """Of what went together with a newer commit that commit; what nobody has told of may be gone."""
    ledger = Ledger(LOCAL, str(tmp_path), CLUSTER, PLAN)
    ledger.claim(at_ms=1, lease_ms=1, approved_by="ann", sink="coordinator", plan_sha256=PLAN)
    before = Value(committed_offset=5, leader_epoch=1, metadata="m", commit_timestamp_ms=3)
    item = Item(log_partition=0, position=0, group_id="g", topic="t", partition=0, before=before)
    ledger.intent(Intent(step=1, action="tombstone", items=[item]), at_ms=2)
    if outcome is not None:
        newer = None if found is None else Value(committed_offset=found, leader_epoch=1, metadata="m")
        result = Result(log_partition=0, position=0, outcome=outcome, found=newer)
        ledger.outcome(StepOutcome(step=1, of_attempt=1, items=[result]), at_ms=3)
    source = of_ledger(ledger.entries(), Selection(), {"t": "id"})
    then = None if expected is None else value(expected, 1, "m")
    assert {key: each.value for key, each in source.values.items()} == ({} if then is None else {key_of("g"): then})
    assert all(each.topic_id == "id" for each in source.values.values())


def test_what_a_race_took_along_is_there_too(tmp_path: Path) -> None:
    """It is in no intent: nobody knew of it before the call."""
    ledger = Ledger(LOCAL, str(tmp_path), CLUSTER, PLAN)
    ledger.claim(at_ms=1, lease_ms=1, approved_by="ann", sink="coordinator", plan_sha256=PLAN)
    item = Item(log_partition=0, position=0, group_id="g", topic="t", partition=0, before=Value(committed_offset=5))
    ledger.intent(Intent(step=1, action="tombstone", items=[item]), at_ms=2)
    along = item.model_copy(update={"position": 7, "partition": 1, "before": Value(committed_offset=6)})
    results = [Result(log_partition=0, position=position, outcome="done") for position in (0, 7)]
    ledger.outcome(StepOutcome(step=1, of_attempt=1, items=results, beyond=[along]), at_ms=3)
    source = of_ledger(ledger.entries(), Selection(), {})
    assert {key: each.value for key, each in source.values.items()} == {
        key_of("g"): value(5),
        key_of("g", "t", 1): value(6),
    }


def test_a_ledger_that_is_not_there(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    archive.snapshot(instant(1), {0: minute(1, commit("g"), first=0)})
    with pytest.raises(UsageError, match="it was never applied"):
        values_of(archive, from_ledger=PLAN)
    with pytest.raises(UsageError, match="give one of"):
        source_of(replace(request(archive), from_ledger=PLAN, from_plan=PLAN), taken_at_ms=LATER_MS)
