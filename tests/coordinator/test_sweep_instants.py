"""To the millisecond: what the sweeps of real brokers took at their own instant, and what they left (>= and not >).

A broker reads its clock for a sweep, looks at the offsets, and stamps the tombstones that it appends after that: the
stamp is the sweep's instant, or a little later. So is, up to 3.9, the time of the line that it logs less how long it
says it took. Offsets fall due in every millisecond. So a sweep whose newest tombstone is of an offset that was due at
the very stamp, or at that time, has taken what is due in the millisecond of its instant. What is due one millisecond
later stays: no sweep has taken an offset due after either.
"""

import gzip
import hashlib
import json
from dataclasses import replace
from functools import cache

import pyarrow.compute as pc
import pytest

from sexton.coordinator.loading import load
from sexton.coordinator.profiles import of_broker
from sexton.kernels.results import finish
from sexton.verdicts.expiry import held_offsets
from tests import plain_sweep
from tests.coordinator.golden import CAP_BYTES, GOLDEN
from tests.coordinator.sweep_instants import RETENTION_MS, Ladder, Sweep, batches_by_stamp
from tests.kernels.compare import fold_bytes
from tests.verdicts.whole_judge import judge

FOLDER = GOLDEN / "sweep-instants"
RELEASES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
_FEW = 5
"""Sweeps of a log partition by which whole tables are judged."""


@cache
def recorded(release):
    """(ladder, its sweeps behind the first, SHA-256 of its segment) of each log partition."""
    found = []
    for line in (FOLDER / f"{release}.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
        part = json.loads(line)
        names = ("stamp_ms", "oldest_due_ms", "newest_due_ms")
        sweeps = [Sweep(**dict(zip(names, row, strict=True))) for row in part.pop("sweeps")]
        digest = part.pop("segment_sha256")
        found.append((Ladder(**part), sweeps[1:], digest))
    return found


@cache
def logged(release):
    """When sweeps began, by the broker's log; none from 4.0 on, where the lines tell less."""
    head, *_ = (FOLDER / f"{release}.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(head)["instants_ms"]


def separating(release, sweeps):
    """The sweeps that have taken an offset which was due in the millisecond of their stamp, or of their log line."""
    instants = set(logged(release))
    return [sweep for sweep in sweeps if sweep.newest_due_ms == sweep.stamp_ms or sweep.newest_due_ms in instants]


def test_there_are_recordings_of_both_coordinators():
    assert {of_broker(release).name for release in RELEASES} == {"group_coordinator", "group_metadata_manager"}


@pytest.mark.parametrize("release", RELEASES)
def test_sweeps_take_what_is_due_at_their_instant_and_nothing_later(release):
    for kind in ("expire", "commit"):
        sweeps = [sweep for ladder, found, _ in recorded(release) if ladder.kind == kind for sweep in found]
        assert all(sweep.newest_due_ms <= sweep.stamp_ms for sweep in sweeps)
        assert separating(release, sweeps)


@pytest.mark.parametrize("release", [name for name in RELEASES if logged(name)])
def test_no_sweep_takes_what_is_due_after_its_log_line_says_it_began(release):
    newest = sorted({sweep.newest_due_ms for _, sweeps, _ in recorded(release) for sweep in sweeps})
    began = logged(release)[-len(newest) :]
    assert all(due_ms <= began_ms for due_ms, began_ms in zip(newest, began, strict=True))


@pytest.mark.parametrize("release", RELEASES)
def test_the_bytes_that_were_kept_are_those_sweeps(release):
    for ladder, sweeps, digest in recorded(release):
        assert hashlib.sha256(ladder.segment()).hexdigest() == digest
        kept = gzip.decompress((FOLDER / f"{release}-{ladder.log_partition}.log.gz").read_bytes())
        taken = batches_by_stamp(kept, ladder)
        assert taken
        by_stamp = {sweep.stamp_ms: sweep for sweep in sweeps}
        for stamp_ms, due_ms in taken.items():
            sweep = by_stamp[stamp_ms]
            assert sorted(due_ms) == [*range(sweep.oldest_due_ms, sweep.newest_due_ms + 1)]


@pytest.mark.parametrize("release", RELEASES)
def test_plain_rules(release):
    """Of the two offsets on both sides of a sweep's border, the one that went, at the instant when it was due."""
    profile = of_broker(release)
    for ladder, sweeps, _ in recorded(release):
        for sweep in sweeps:
            border = replace(ladder, first_due_ms=sweep.newest_due_ms, count=2)
            loaded = load([border.segment()], cap_bytes=CAP_BYTES, profile=profile)
            swept = plain_sweep.sweep(loaded, retention_ms=RETENTION_MS, now_ms=sweep.newest_due_ms)
            assert [tombstone.partition for tombstone in swept] == [0]


@pytest.mark.parametrize("release", RELEASES)
def test_kernels(release):
    """Every offset of a log partition of each kind, at the instants of some sweeps that separate."""
    profile = of_broker(release)
    for ladder, sweeps, _ in {ladder.kind: (ladder, *rest) for ladder, *rest in recorded(release)}.values():
        tables = finish(fold_bytes(ladder.segment(), profile=profile), log_partition=0, partition_count=None)
        offsets = held_offsets(tables["committed_offsets"], tables["unreachable_offsets"])
        state = offsets, tables["groups"], tables["pending_offsets"]
        for sweep in separating(release, sweeps)[:_FEW]:
            judged = judge(*state, retention_ms=RETENTION_MS, now_ms=sweep.newest_due_ms, profile=profile)
            expired = judged.filter(pc.equal(judged["broker_verdict"], "expire"))["partition"].to_pylist()
            assert sorted(expired) == [*range(sweep.newest_due_ms - ladder.first_due_ms + 1)]
