"""Values and log partitions of a size that nobody plans for, in a worker of less than 2 GiB.

Each log is folded from its file in chunks, merged and finished in another process, as tasks of a run do it; what is
measured is the peak of that process, everything that it has loaded included. Full: 100,000 members, 1,000,000
partitions of one group, 10,000,000 records in one log partition, each log in a process of its own.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexton.archive.folder import Folder
from sexton.kernels.fold import PartialFold, fold_task, merge_all
from sexton.kernels.results import finish
from sexton.log import codec as codecs
from sexton.log.batch import encode_batch
from sexton.log.segment import Segment, plan_fold_tasks
from sexton.settings import Settings
from tests.bench.generate import Shape, generate
from tests.faults.memory import PeakMemory, needs_proc, peak_bytes, run_alone
from tests.kernels.compare import assert_equal, loaded
from tests.log_builder import BASE_MS, TOPIC_IDS, Entry, classic_fields, commit, group_entry, subscription

pytestmark = pytest.mark.thorough

MAX_BYTES = 2 << 30
LOAD_BUFFER_BYTES = 5 << 20  # offsets.load.buffer.size
CHUNK_BYTES = Settings.model_fields["fold_task_bytes"].default
CAP_BYTES = Settings.model_fields["inflated_cap_bytes"].default


def fold_files(paths: list[str]) -> list[dict[str, Any]]:
    """What `fold_file` says of each, with the peak of the process during it."""
    found = []
    for path in paths:
        with PeakMemory():
            told = fold_file(path)
        found.append({**told, "peak_bytes": peak_bytes()})
    return found


def fold_file(path: str) -> dict[str, Any]:
    """Fold a segment chunk by chunk and finish it; the merged fold is left in the folder beside it."""
    size_bytes = Path(path).stat().st_size
    segment = Segment(log_partition=0, path=path, size_bytes=size_bytes, base_offset=0)
    folds = (
        fold_task(
            [np.memmap(path, dtype=np.uint8, mode="r")],
            task=task,
            cap_bytes=CAP_BYTES,
            as_of_ms=None,
            taken_at_ms=None,
        ).to_bytes()
        for task in plan_fold_tasks([segment], target_bytes=CHUNK_BYTES)
    )
    fold = merge_all(PartialFold.from_bytes(part) for part in folds)
    fold.write_parquet(Folder(Path(path).with_suffix(".fold")))
    tables = finish(fold, log_partition=0, partition_count=1)
    profile = tables["load_profile"].to_pylist()[0]
    return {
        "rows": {name: table.num_rows for name, table in tables.items()},
        "largest_batch_bytes": profile["largest_batch_bytes"],
        "records": profile["records"],
        "failure": profile["load_failure"],
    }


# --- the logs


def batches_of(entries: Iterator[Entry], *, a_batch: int = 500, **fields: Any) -> bytes:
    log, at = [], 0
    while some := list(islice(entries, a_batch)):
        log.append(encode_batch(some, base_offset=at, timestamp_ms=BASE_MS, **fields))
        at += len(some)
    return b"".join(log)


def a_megabyte_of_metadata(count: int) -> bytes:
    """Groups of one member each whose subscription has a megabyte of user data."""
    data = subscription("t")[:-4] + (1 << 20).to_bytes(4, "big") + bytes(1 << 20)
    return batches_of((group_entry(2, f"g{n}", classic_fields(("m", data))) for n in range(count)), a_batch=1)


def members_of_one_record(count: int) -> bytes:
    data = subscription("t", "u")
    fields = classic_fields(*((f"consumer-{n:06d}-f81d4fae-7dec-11d0-a765", data) for n in range(count)))
    return batches_of(iter([group_entry(2, "g", fields)]))


def members_of_many_records(count: int) -> bytes:
    """A KIP-848 group: three records for each member."""
    member = {
        "client_id": "c", "client_host": "/h", "rack_id": None, "instance_id": None, "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None, "rebalance_timeout_ms": 9, "server_assignor": None,
        "classic_member_metadata": None,
    }  # fmt: skip
    epochs = {"member_epoch": 1, "previous_member_epoch": 0, "state": 0, "partitions_pending_revocation": []}

    def entries() -> Iterator[Entry]:
        yield group_entry(3, "g", {"epoch": 1})
        for number in range(count):
            own = [{"topic_id": TOPIC_IDS[1], "partitions": [number]}]
            parts = {"member_id": f"member-{number}"}
            yield group_entry(5, "g", member, **parts)
            yield group_entry(7, "g", {"topic_partitions": own}, **parts)
            yield group_entry(8, "g", {**epochs, "assigned_partitions": own}, **parts)
        yield group_entry(6, "g", {"assignment_epoch": 1})

    return batches_of(entries())


def partitions_of_one_group(count: int) -> bytes:
    return batches_of((commit("g", n, "t", n) for n in range(count)), codec=codecs.ZSTD)


def one_large_batch(count: int) -> bytes:
    return batches_of((commit("g", n, "t", n, metadata="m" * 60) for n in range(count)), a_batch=count)


def long_log_partition(count: int) -> bytes:
    shape = Shape(records=count, keys=count // 10, tombstone_share=0.1, metadata_bytes=9)
    return bytes(generate(shape)[0].data)


CASES: dict[str, tuple[Callable[[int], bytes], dict[bool, int], str]] = {
    "a megabyte of metadata": (a_megabyte_of_metadata, {False: 8, True: 200}, "groups"),
    "members in one record": (members_of_one_record, {False: 2_000, True: 100_000}, "members"),
    "members of KIP-848": (members_of_many_records, {False: 1_000, True: 100_000}, "members"),
    "partitions of one group": (partitions_of_one_group, {False: 10_000, True: 1_000_000}, "committed_offsets"),
    "one batch over the load buffer": (one_large_batch, {False: 52_000, True: 400_000}, "committed_offsets"),
    "a long log partition": (long_log_partition, {False: 20_000, True: 10_000_000}, "records"),
}


def measured(paths: list[Path], *, full: bool) -> list[dict[str, Any]]:
    """In one process, which takes its time to start; the full sizes in one each."""
    names = [str(path) for path in paths]
    return [run_alone(fold_files, [name])[0] for name in names] if full else run_alone(fold_files, names)


@needs_proc
def test_huge(tmp_path: Path, full: bool, tell) -> None:
    paths = []
    for number, (make, counts, _) in enumerate(CASES.values()):
        paths.append(tmp_path / str(number) / f"{0:020d}.log")
        paths[-1].parent.mkdir()
        paths[-1].write_bytes(make(counts[full]))
    for (case, (_, counts, what)), path, found in zip(CASES.items(), paths, measured(paths, full=full), strict=True):
        mebibytes = [size / (1 << 20) for size in (path.stat().st_size, found["peak_bytes"])]
        tell(f"{case}: {counts[full]:,} in {mebibytes[0]:,.0f} MiB, at most {mebibytes[1]:,.0f} MiB")
        assert (found["failure"], found["rows"]["undecodable_records"]) == (None, 0), case
        assert (found["records"] if what == "records" else found["rows"][what]) == counts[full], case
        assert found["peak_bytes"] < MAX_BYTES, case
        assert "load buffer" not in case or found["largest_batch_bytes"] > LOAD_BUFFER_BYTES
        if not full:
            fold = PartialFold.read_parquet(Folder(path.with_suffix(".fold")))
            assert_equal(fold, loaded(path.read_bytes()), partition_count=1)
