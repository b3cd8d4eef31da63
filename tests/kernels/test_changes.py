"""The compiled changes equal those of the plain replay, and lead from the beginning of the interval to its end."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.coordinator.changes.model import ChangeEvidence, OwnAction, TopicsAt
from sexton.coordinator.changes.replay import changes
from sexton.coordinator.loading import load
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.kernels.changes.replay import changes_between
from sexton.log.batch import encode_batch
from sexton.log.message_set import encode_message_set
from sexton.log.segment import Segment, plan_fold_tasks
from tests.campaign.histories import histories
from tests.kernels.compare import CAP_BYTES, PROFILES, fold_bytes, slice_of
from tests.log_builder import (
    ABORT,
    BASE_MS,
    COMMIT,
    PARTITIONS,
    TOPIC_IDS,
    TOPICS,
    BatchSpec,
    classic_fields,
    commit,
    encode_batches,
    group_entry,
    offset_key,
    offset_value,
    subscription,
    tombstone,
)

SOME = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
MINUTE_MS = 60_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABw"
_ACT = OwnAction(plan_id="p", intent_at_ms=BASE_MS - MINUTE_MS, outcome_at_ms=BASE_MS + MINUTE_MS)
KNOWN = st.sampled_from(
    [
        ChangeEvidence(),
        ChangeEvidence(retentions_ms=(MINUTE_MS,)),
        ChangeEvidence(retentions_ms=(2 * MINUTE_MS, 4 * MINUTE_MS)),
        ChangeEvidence(
            retentions_ms=(MINUTE_MS,),
            before=TopicsAt(taken_at_ms=BASE_MS - 2 * MINUTE_MS, ids={"u": None}),
            after=TopicsAt(taken_at_ms=BASE_MS + 9 * MINUTE_MS, ids={"t": TOPIC_ID, "u": None}),
        ),
        ChangeEvidence(removed={("a", "t", 0): [_ACT]}, restored={("a", "t", 1): [_ACT], ("b", "t", 0): [_ACT]}),
    ]
)


KEYS = [(group_id, topic, partition) for group_id in ("a", "b") for topic in TOPICS for partition in PARTITIONS]
_keys = st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=5)
_instants = st.integers(-4, 4).map(lambda step: BASE_MS + step * MINUTE_MS)


@st.composite
def _commits(draw: st.DrawFn) -> list[BatchSpec]:
    """Commits of some minutes ago, plain or in a transaction that may end at once."""
    entries = []
    for key in draw(_keys):
        options = {"commit_timestamp_ms": draw(_instants), "version": draw(st.sampled_from([0, 1, 3, 4]))}
        options |= {"expire_timestamp_ms": draw(_instants)} if options["version"] == 1 else {}
        options |= {"topic_id": draw(st.sampled_from(TOPIC_IDS))} if options["version"] == 4 else {}
        entries.append(commit(key[0], draw(st.integers(0, 2)), *key[1:], **options))
    batch = BatchSpec(entries=tuple(entries), timestamp_ms=BASE_MS)
    if draw(st.integers(0, 4)):
        return [batch]
    producer_id = draw(st.sampled_from((1, 2)))
    ends = [BatchSpec(producer_id=producer_id, transactional=True, control=(kind,)) for kind in (COMMIT, ABORT)]
    return [
        replace(batch, producer_id=producer_id, transactional=True),
        *draw(st.sampled_from([[], ends[:1], ends[1:]])),
    ]


@st.composite
def _group_values(draw: st.DrawFn) -> list[BatchSpec]:
    """What a group becomes: empty or with members, of the classic kind or not."""
    group_id = draw(st.sampled_from("ab"))
    members = draw(st.sampled_from([[], [], [("m1", subscription("t"))]]))
    fields = classic_fields(
        *members,
        protocol_type=draw(st.sampled_from(["consumer", "connect"])),
        state_timestamp_ms=draw(st.one_of(st.just(-1), _instants)),
        generation=draw(st.integers(0, 2)),
    )
    classic, modern = group_entry(2, group_id, fields), group_entry(3, group_id, {"epoch": 1})
    return [BatchSpec(entries=(draw(st.sampled_from([classic, classic, modern])),), timestamp_ms=BASE_MS)]


@st.composite
def _writes(draw: st.DrawFn) -> list[BatchSpec]:
    """What sweeps and requests leave: tombstones that share a timestamp, in a batch or two."""
    keys = sorted(draw(_keys))
    if draw(st.booleans()):  # all that a group may have
        keys = [key for key in KEYS if key[0] in {name for name, _, _ in keys}]
    entries: list[Any] = []
    for group_id in dict.fromkeys(name for name, _, _ in keys):
        entries += [tombstone(*key) for key in keys if key[0] == group_id]
        entries += [group_entry(2, group_id, None)] if draw(st.booleans()) else []
    border = draw(st.one_of(st.just(0), st.integers(0, len(entries))))
    options: dict[str, Any] = {"timestamp_ms": draw(_instants)}
    if not draw(st.integers(0, 9)):
        options |= {"producer_id": 1, "transactional": draw(st.booleans())}
    parts = [part for part in (entries[:border], entries[border:]) if part]
    return [BatchSpec(entries=tuple(part), **options) for part in parts]


@st.composite
def _mixed(draw: st.DrawFn) -> list[BatchSpec]:
    """Neighbours of one batch."""
    first, last = draw(_commits()), draw(_writes())
    return [replace(last[0], entries=(*first[0].entries, *last[0].entries, *first[0].entries[:1]))]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytes], int]:
    """The batches of a log, and how many of them come before the interval."""
    parts = [_commits(), _commits(), _writes(), _writes(), _group_values(), _mixed()]
    steps = draw(st.lists(st.one_of(*parts), min_size=1, max_size=10))
    if not draw(st.integers(0, 2)):  # anything at all
        steps.insert(draw(st.integers(0, len(steps))), draw(histories(max_size=6)))
    history = [spec for step in steps for spec in step]
    if draw(st.integers(0, 3)):  # as a broker writes it
        history = [replace(spec, gap=0, holes=(), crc_ok=True) for spec in history]
    batches = encode_batches(history, codec=draw(st.integers(0, 4)))
    return batches, draw(st.integers(0, len(batches)))


def plain(batches: Sequence[bytes], border: int, known: ChangeEvidence, profile: Profile) -> list[dict[str, Any]]:
    before = load(batches[:border], cap_bytes=CAP_BYTES, profile=profile)
    return [row.to_row() for row in changes(before, batches[border:], known=known, cap_bytes=CAP_BYTES)]


def compiled(
    batches: Sequence[bytes], border: int, known: ChangeEvidence, profile: Profile, *, target_bytes: int = 1 << 30
) -> list[dict[str, Any]]:
    """The whole log is given: what lies before the interval has to be passed over."""
    data = b"".join(batches)
    start = fold_bytes(b"".join(batches[:border]), profile=profile) if border else None
    segment = Segment(log_partition=0, path="", size_bytes=len(data), base_offset=0)
    slices = tuple(span for task in plan_fold_tasks([segment], target_bytes=target_bytes) for span in task.slices)
    options = {"known": known, "profile": profile, "cap_bytes": CAP_BYTES}
    return changes_between(start, [data] * len(slices), slices=slices, cut=None, **options).to_pylist()


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@SOME
@given(logs(), KNOWN)
def test_equal_the_plain_replay(profile: Profile, log: tuple[list[bytes], int], known: ChangeEvidence) -> None:
    batches, border = log
    assert compiled(batches, border, known, profile) == plain(batches, border, known, profile)


@SOME
@given(logs(), KNOWN, st.integers(1, 400))
def test_equal_in_pieces(log: tuple[list[bytes], int], known: ChangeEvidence, target_bytes: int) -> None:
    batches, border = log
    found = compiled(batches, border, known, NEWEST, target_bytes=target_bytes)
    assert found == plain(batches, border, known, NEWEST)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@SOME
@given(logs(), KNOWN)
def test_lead_from_the_beginning_to_the_end(profile, log, known):
    batches, border = log
    state = {
        key: offset.committed_offset
        for key, offset in load(batches[:border], cap_bytes=CAP_BYTES, profile=profile).offsets.items()
    }
    rows = compiled(batches, border, known, profile)
    for row in sorted(rows, key=lambda row: row["new_committed_offset"] is not None):  # what was set is how it ended
        key = (row["group_id"], row["topic"], row["partition"])
        if row["new_committed_offset"] is None:
            state.pop(key, None)
        else:
            assert state.get(key) == row["old_committed_offset"]
            assert row["old_committed_offset"] != row["new_committed_offset"]
            state[key] = row["new_committed_offset"]
    end = load(batches, cap_bytes=CAP_BYTES, profile=profile)
    assert state == {key: offset.committed_offset for key, offset in end.offsets.items()}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
def test_old_record_formats(profile: Profile, magic: int, codec: int) -> None:
    of_type = {"record_type": profile.offset_key_type}
    records = [(offset_key(name, **of_type), offset_value(at, version=0, **of_type)) for at, name in enumerate("abcd")]
    removed = [(offset_key(name, **of_type), None) for name in "abc"]
    parts = [
        encode_message_set(records, base_offset=0, magic=magic, timestamp_ms=BASE_MS, codec=codec),
        encode_message_set(removed, base_offset=4, magic=magic, timestamp_ms=BASE_MS + MINUTE_MS, codec=codec),
    ]
    known = ChangeEvidence(retentions_ms=(MINUTE_MS,))
    found = compiled(parts, 1, known, profile)
    assert found == plain(parts, 1, known, profile)
    assert len(found) == (3 if profile.newest_format >= magic else 0)


BARE: dict[str, Any] = {"known": ChangeEvidence(), "profile": NEWEST, "cap_bytes": CAP_BYTES}


def test_stops_at_the_cut() -> None:
    batches = encode_batches([BatchSpec(entries=(commit("a", number),)) for number in range(5)])
    data = b"".join(batches)
    for cut in range(1, 6):
        table = changes_between(fold_bytes(batches[0]), [data], slices=[slice_of(data)], cut=cut, **BARE)
        assert table["new_committed_offset"].to_pylist() == ([cut - 1] if cut > 1 else [])


def test_many_keys_are_found_by_group() -> None:
    """More keys than are searched without an index, and groups that come in many places."""
    names = [f"g{number % 97}" for number in range(40_000)]
    entries = [commit(name, 1, "t", number) for number, name in enumerate(names)]
    first = [encode_batch(entries[at : at + 500], base_offset=at, timestamp_ms=BASE_MS) for at in range(0, 40_000, 500)]
    wanted = [number for number, name in enumerate(names) if name == "g5"]
    removed = [tombstone("g5", "t", number) for number in wanted]
    batches = [*first, encode_batch(removed, base_offset=40_000, timestamp_ms=BASE_MS + 1)]
    for border in (0, 3, len(first)):
        rows = compiled(batches, border, ChangeEvidence(), NEWEST)
        gone = [row for row in rows if row["kind"] != "set"]
        assert [row["partition"] for row in gone] == wanted
        assert {row["evidence"] for row in gone} == {f"all {len(wanted)} offsets of the group"}
        assert len(rows) - len(gone) == (40_000 - len(wanted) if border < 3 else 0) or border == 3


def test_a_read_only_log_of_no_bytes() -> None:
    table = changes_between(None, [np.zeros(0, np.uint8)], slices=[slice_of(b"")], cut=None, **BARE)
    assert table.num_rows == 0
