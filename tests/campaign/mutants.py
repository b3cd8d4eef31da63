"""Recordings that somebody has changed, with sums that are right again: every way of reading tells the same of them.

    python -m tests.campaign.mutants --of log --count 1000000 --processes 2
    python -m tests.campaign.mutants --of metadata --seed 5 --only 1234

Header fields, bodies, codecs and the order of batches are changed, several at a time. Of `log` the plain rules, the
kernels over the whole and the kernels over pieces must tell the same; what the others give to is a result or an error
that says what is wrong. None may take MAX_S of the processor, or MAX_BYTES of memory. Without a seed one is drawn
and printed. Mutants of `log` lie TOGETHER in one log, each with groups of its own, because most of the time is the
price of a log, however short: `--only` takes the index of the first of them.
"""

import argparse
import hashlib
import json
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache, partial, reduce
from multiprocessing import get_context
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from sexton.archive.admin_snapshots import SCHEMAS, AdminSnapshots
from sexton.archive.metadata_log import read_bootstrap, read_metadata_log
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import DamagedFold, LogError, UsageError
from sexton.kernels.checkpoint.files import pack, unpack
from sexton.kernels.fold import PartialFold, merge
from sexton.kernels.results import finish
from sexton.log import codec as codecs
from sexton.log.batch import Batch, Record, encode_batch, read_batches, read_records
from sexton.log.entry import ATTRIBUTES_AT, HEADER_BYTES
from sexton.transactions.states import load_states, rules_of
from tests.archive.admin_snapshots import write_snapshot
from tests.archived import Archive
from tests.faults.logs import batches_of, every_kind, recordings, window
from tests.faults.memory import peak_bytes
from tests.kernels.compare import CAP_BYTES, assert_equal, fold_bytes, fold_slices, loaded
from tests.log.samples import batches_of as batches_in
from tests.log_builder import BASE_MS, sealed

GOLDEN = Path(__file__).parents[1] / "golden"
MAX_S, MAX_BYTES = 20, 2 << 30
A_TASK = 400
TOGETHER: Mapping[str, int] = {"log": 16}
"""How many mutants are in one log; 1 of every other kind."""
PROFILES = [
    profile_of(f"{name}:{release}")
    for name, release in (
        ("group_coordinator", "4.3.1"), ("group_coordinator", "4.0.0"), ("group_metadata_manager", "3.9"),
        ("group_metadata_manager", "2.8"), ("offset_manager", "0.9"),
    )
]  # fmt: skip
FIELDS = {  # of a batch of format 2: where, and how it is written
    0: ">q", 12: ">i", 21: ">h", 23: ">i", 27: ">q", 35: ">q", 43: ">q", 51: ">h", 53: ">i", 57: ">i",
}  # fmt: skip
"""Base offset, leader epoch, attributes, last offset delta, base and max timestamp, producer id and epoch, base
sequence, record count."""
_LOCAL = pafs.LocalFileSystem()
_WINDOW_BYTES = 1_000
_FAR = 1 << 40
"""A log_offset that no unchanged batch has: what follows it would be out of order."""


# --- changing


def mutant(log: bytes, rng: Random, other: Callable[[], bytes]) -> bytes:
    """The log with one to three changes; `other` gives another log, of which a splice takes a part."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        pieces = [bytes(one.data) for one in read_batches(log) if isinstance(one, Batch)] or [log]
        at = rng.randrange(len(pieces))
        change = rng.choice((_header, _header, _header, _body, _recompressed, None))
        if change is None:
            _splice(pieces, at, rng, other())
        elif len(pieces[at]) > HEADER_BYTES and pieces[at][16] == 2:
            pieces[at] = sealed(change(bytearray(pieces[at]), rng))
        log = b"".join(pieces)
    return log


def _header(batch: bytearray, rng: Random) -> bytearray:
    at, form = rng.choice(list(FIELDS.items()))
    (now,) = struct.unpack_from(form, batch, at)
    bits = 8 * struct.calcsize(form)
    wanted = rng.choice(
        (0, 1, -1, now + 1, now - 1, -now, now - rng.randrange(60), now ^ 1 << rng.randrange(bits), -1 << bits - 1,
         (1 << bits - 1) - 1, rng.getrandbits(bits))
    )  # fmt: skip
    batch[at : at + bits // 8] = (wanted % (1 << bits)).to_bytes(bits // 8)
    return batch


def _body(batch: bytearray, rng: Random) -> bytearray:
    at = rng.randrange(HEADER_BYTES, len(batch))
    end = at + rng.choice((0, 1, 1, 1, rng.randrange(9)))
    batch[at:end] = rng.choice((bytes([rng.choice((0, 1, 2, 127, 128, 255))]), rng.randbytes(end - at), b"\x80" * 9))
    return batch


def _recompressed(batch: bytearray, rng: Random) -> bytearray:
    """With another codec, whose name is mostly in the header."""
    codec, body = batch[ATTRIBUTES_AT + 1] & 7, bytes(batch[HEADER_BYTES:])
    try:
        body = codecs.inflate(codec, body, magic=2, cap_bytes=CAP_BYTES) if codec else body
    except LogError:
        return batch
    codec = rng.choice((0, 1, 2, 3, 4))
    batch[HEADER_BYTES:] = codecs.deflate(codec, bytes(body)) if codec else body
    named = codec if rng.random() < 0.9 else rng.randrange(8)
    batch[ATTRIBUTES_AT + 1] = batch[ATTRIBUTES_AT + 1] & ~7 | named
    return batch


def _splice(pieces: list[bytes], at: int, rng: Random, other: bytes) -> None:
    """Part of another log, the batch twice, the batch cut, or two batches in the other order."""
    cut = pieces[at][: rng.randrange(len(pieces[at]) + 1)]
    pieces[at : at + 2] = rng.choice(
        ([pieces[at], other], [other], [pieces[at]] * 2, [cut], [cut, other], pieces[at : at + 2][::-1])
    )


# --- reading


def check_log(rng: Random) -> None:
    """Mutants in one log, and every fourth time one of them alone, which no other keeps from being the last."""
    parts, profile = _parts(rng), rng.choice(PROFILES)
    for data in (b"".join(parts), rng.choice(parts))[: 2 if rng.random() < 0.25 else 1]:
        try:
            _check_log(data, profile, rng)
        except Exception as error:  # said again with the bytes that it is about
            raise AssertionError(f"{profile.text}, {type(error).__name__}: {error}: {data.hex()}") from error


def _check_log(data: bytes, profile: Profile, rng: Random) -> None:
    """The plain rules, the kernels whole and in pieces, some of which are handed on as bytes."""
    plain = loaded(data, profile=profile)
    assert_equal(fold_bytes(data, profile=profile).as_kept_by_broker(), plain, partition_count=4)
    if profile.folds_in_slices:
        borders = [rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 6))]
        folds = [
            PartialFold.from_bytes(one.to_bytes()) if rng.random() < 0.4 else one
            for one in fold_slices(data, borders, profile=profile)
        ]
        assert_equal(reduce(merge, folds).as_kept_by_broker(), plain, partition_count=4)


def _parts(rng: Random) -> list[bytes]:
    """Mutants of one log: each begins where the one before ends; those that end far away are the last."""
    near: list[bytes] = []
    far: list[bytes] = []
    end = 0
    for name in range(TOGETHER["log"]):
        logs = list(recordings().values()) if name or rng.random() < 0.8 else [every_kind()]
        drawn = partial(_drawn, logs, rng, name)
        part = mutant(drawn(end), rng, partial(drawn, end + rng.randrange(60)))
        ends = [batch.next_offset for batch in read_batches(part) if isinstance(batch, Batch)]
        is_far = max(ends, default=0) > _FAR
        (far if is_far else near).append(part)
        end = end if is_far else max([end, *ends])
    return near + far


def _drawn(logs: list[bytes], rng: Random, name: int, log_offset: int) -> bytes:
    """A window of one of some logs, moved to a log_offset; where a body is not compressed its groups are renamed.

    Wrappers of v0 stay where they were: their inner messages have offsets of their own.
    """
    batches = batches_in(window(rng.choice(logs), rng, size_bytes=_WINDOW_BYTES))
    out = b""
    for batch in batches:
        data = bytearray(batch.data)
        if not (batch.magic == 0 and batch.codec):
            struct.pack_into(">q", data, 0, batch.base_offset - batches[0].base_offset + log_offset)
        if batch.magic == 2 and not batch.codec and not batch.is_control:
            data[HEADER_BYTES:] = _renamed(batch, name)
            data = sealed(data)
        out += data
    return out


def _renamed(batch: Batch, name: int) -> bytes:
    """The records of a batch, where another letter begins the groups that begin with one of ASCII."""
    body = bytes(batch.data[HEADER_BYTES:])
    for record in read_records(batch, cap_bytes=CAP_BYTES):
        assert isinstance(record, Record)
        key = record.key or b""
        old = key[2 : 4 + int.from_bytes(key[2:4])]
        if len(old) > 2 and old[2] < 128:
            body = body.replace(old, old[:2] + b"%c" % (ord("A") + name) + old[3:])
    return body


def check_transactions(rng: Random) -> None:
    """`__transaction_state`: all of it, or the ids of before a failure."""
    logs = _files("transactions/*/__transaction_state-*/*.log")
    drawn = partial(lambda: window(rng.choice(logs), rng, size_bytes=_WINDOW_BYTES))
    data = mutant(drawn(), rng, drawn)
    rules = rules_of(rng.choice(((4, 3), (3, 9), (2, 8))))
    found = load_states([data], log_partition=0, cap_bytes=CAP_BYTES, rules=rules)
    assert found.failure is None or found.failure, data.hex()
    assert all(name == one.transactional_id and one.log_offset >= 0 for name, one in found.ids.items()), data.hex()


def check_metadata(rng: Random) -> None:
    """`__cluster_metadata-0` with a snapshot, or what a disk was formatted with: read, or a LogError."""
    root, files = _disk(rng.choice(sorted(GOLDEN.glob("cluster-metadata/*"))))
    path = rng.choice(list(files))
    data, logs = files[path], _files("cluster-metadata/*/__cluster_metadata-0/*")
    if path.suffix == ".log":  # up to some batch: what lies before the change is decoded every time
        batches = batches_of(data)
        data = b"".join(batch.data for batch in batches[: rng.randint(1, len(batches))])
    path.write_bytes(mutant(data, rng, lambda: rng.choice(logs)))
    as_of_ms = rng.choice((None, 1_795_826_919_100))
    read = read_bootstrap if path.name == "bootstrap.checkpoint" else partial(read_metadata_log, as_of_ms=as_of_ms)
    try:
        read(_LOCAL, root, cap_bytes=CAP_BYTES)
    except LogError:
        pass
    finally:
        path.write_bytes(files[path])


def check_snapshots(rng: Random) -> None:
    """A snapshot by Admin API whose manifest has the right sums: read with its columns, or a UsageError."""
    archive, files = _snapshot()
    (manifest,) = (path for path in files if path.suffix == ".json")
    told, changed = json.loads(files[manifest]), rng.choice((*SCHEMAS, "manifest"))
    path = manifest if changed == "manifest" else manifest.with_suffix("") / f"{changed}.parquet"
    spoiled = _flipped(files[path], rng)
    path.write_bytes(spoiled)
    if path != manifest:
        told["sha256"][changed] = hashlib.sha256(spoiled).hexdigest()
        manifest.write_text(json.dumps(told), "utf-8")
    try:
        snapshots = AdminSnapshots(archive.fs, archive.root, archive.cluster_id)
        snapshot = snapshots.manifest(1_000)
        for name in SCHEMAS if path == manifest else [changed]:
            assert snapshots.read_table(snapshot, name).schema.equals(SCHEMAS[name]), name
    except UsageError:
        pass
    finally:
        for one in {path, manifest}:
            one.write_bytes(files[one])


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where files of this process lie; gone when it ends."""
    return tempfile.TemporaryDirectory(prefix="sexton-mutants-")


@cache
def _disk(source: Path) -> tuple[str, Mapping[Path, bytes]]:
    """A copy of a recorded disk, and its files about metadata."""
    root, files = Path(_folder().name) / source.name, {}
    for path in [*source.glob("__cluster_metadata-0/*"), source / "bootstrap.checkpoint"]:
        to = root / path.relative_to(source)
        to.parent.mkdir(exist_ok=True, parents=True)
        files[to] = path.read_bytes()
        to.write_bytes(files[to])
    return str(root), files


@cache
def _snapshot() -> tuple[Archive, Mapping[Path, bytes]]:
    root = Path(_folder().name) / "snapshots"
    root.mkdir()
    archive = Archive(root, partitions=1)
    groups: Mapping[str, Mapping[str, Any]] = {"a": {}, "группа": {"state": "Stable", "member_count": 1}}
    write_snapshot(archive, 1_000, groups, {("a", "t", 0): 5, ("группа", "t", 1): 6})
    return archive, {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def check_checkpoints(rng: Random) -> None:
    """The tables of a fold with another number somewhere, or with other bytes: tables, or DamagedFold."""
    data = rng.choice(_folds())
    if rng.random() < 0.3:
        data = _flipped(data, rng)
    else:
        tables = dict(_unpacked(data))
        name = rng.choice([name for name, table in tables.items() if table.num_rows])
        tables[name] = _other_cell(tables[name], rng)
        data = pack(tables)
    with suppress(DamagedFold):
        fold = merge(PartialFold.from_bytes(data), _odd())
        finish(fold, log_partition=0, partition_count=4)


def _other_cell(table: pa.Table, rng: Random) -> pa.Table:
    at = rng.randrange(table.num_columns)
    kind, cells = table.schema.field(at).type, table.column(at).to_pylist()
    row = rng.randrange(len(cells))
    if pa.types.is_integer(kind):
        now, bits = cells[row] or 0, kind.bit_width
        wanted = rng.choice((0, -1, now + 1, now - 1, 7, 1 << rng.randrange(bits - 1), -1 << bits - 1))
        cells[row] = min(max(wanted, -1 << bits - 1), (1 << bits - 1) - 1)
    else:
        cells[row] = rng.choice((None, cells[rng.randrange(len(cells))], cells[row] and cells[row][:-1]))
    return table.set_column(at, table.schema.field(at), pa.array(cells, kind))


def _flipped(data: bytes, rng: Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out[: rng.randrange(len(out))] if rng.random() < 0.1 else out)


@cache
def _files(pattern: str) -> list[bytes]:
    return [data for path in sorted(GOLDEN.glob(pattern)) if (data := path.read_bytes())]


@cache
def _folds() -> list[bytes]:
    odd = encode_batch([(b"\0\x63odd", b"value")], base_offset=1_000, timestamp_ms=BASE_MS)
    return [fold_bytes(log).to_bytes() for log in (odd, every_kind(), every_kind() + odd)]


@cache
def _unpacked(data: bytes) -> Mapping[str, pa.Table]:
    return unpack(data)


@cache
def _odd() -> PartialFold:
    return PartialFold.from_bytes(_folds()[0])


# --- many


CHECKS: Mapping[str, Callable[[Random], None]] = {
    "log": check_log, "transactions": check_transactions, "snapshots": check_snapshots,
    "checkpoints": check_checkpoints, "metadata": check_metadata,
}  # fmt: skip


def failures(of: str, seed: int, indices: Sequence[int]) -> Iterator[str]:
    """What is wrong with some mutants of a seed, each told by its index."""
    with suppress(Exception):
        CHECKS[of](Random(0))  # what is compiled and cached once is not to be measured
    for index in indices[:: TOGETHER.get(of, 1)]:
        began = time.process_time()
        try:
            CHECKS[of](Random(f"{seed}/{index}"))
            assert time.process_time() - began < MAX_S, "it takes too long"
            assert peak_bytes() < MAX_BYTES, "it takes too much memory"
        except Exception as error:  # whatever it is, the others are to be tried
            yield f"{of} {index}: {type(error).__name__}: {error}"


def _all_failures(of: str, seed: int, indices: range) -> list[str]:
    return [*failures(of, seed, indices)]


def run(of: str, seed: int, count: int, *, processes: int) -> Iterator[tuple[int, list[str]]]:
    """(mutants tried so far, what was wrong with the last of them)."""
    tasks = [range(first, min(first + A_TASK, count)) for first in range(0, count, A_TASK)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for task, found in zip(tasks, pool.map(partial(_all_failures, of, seed), tasks), strict=True):
            yield task.stop, found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=list(CHECKS), default="log")
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", type=int, metavar="INDEX")
    asked = parser.parse_args(arguments)
    print(f"seed {asked.seed}", flush=True)
    if asked.only is not None:
        wrong = [*failures(asked.of, asked.seed, [asked.only])]
        print(*wrong, sep="\n")
        return bool(wrong)
    began, count = time.monotonic(), 0
    for done, wrong in run(asked.of, asked.seed, asked.count, processes=asked.processes):
        count += len(wrong)
        print(*(line[:1_000] for line in wrong), sep="\n", end="\n" * bool(wrong), flush=True)
        if done % 10_000 == 0 or done == asked.count:
            print(f"{done} mutants of {asked.of} in {time.monotonic() - began:.0f} s, {count} wrong", flush=True)
    return bool(count)


if __name__ == "__main__":
    sys.exit(main())
