"""Checkpoints that somebody changed, with hashes that are right again: each is what a run goes on from, or not.

    python -m tests.faults.spoiled_folds FOLDER [--flips N]

makes an archive with a checkpoint in FOLDER and changes every column of every file in every way, one at a time, and the
bytes of the files at random. It prints a line of JSON for each: the name of the change first, so that the last line
names the one that the process died of, then what became of it.
"""

import argparse
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.archive.verify import Finding
from sexton.errors import DataQualityFailure
from sexton.maintenance.check_checkpoint import compare_checkpoint
from sexton.runs.checkpoint_verify import verify_checkpoints
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, files_sha256
from sexton.runs.processes import SerialEngine
from tests.archived import Archive
from tests.log_builder import BatchSpec, classic_fields, commit, encode_log, group_entry, subscription, tombstone
from tests.pipeline.archive_runs import SETTLE_MS, instant, minute, passed_over, publish, run, tables

NUMBERS = {"minus_1": -1, "low": -(1 << 62), "int16": 1 << 15, "int32": 1 << 31, "high": 1 << 62, "many": 7}
SIGNED = {"int32": 1 << 31, "int64": 1 << 63}
READ, REFUSED, PASSED_OVER, EQUAL, DIFFERS = "read", "refused", "passed over", "equal", "differs"


def archive_in(folder: Path) -> Archive:
    """Two log partitions with a row in every table of a fold; in log partition 1 one that could not be decoded."""
    archive = Archive(folder, partitions=2)
    members = classic_fields(("m1", subscription("t")), ("m2", subscription("t", "u")))
    plain = [commit("a", metadata="here"), commit("b", topic="u"), commit("a", partition=1), tombstone("b", "u")]
    groups = [group_entry(2, "a", members), group_entry(2, "c", classic_fields()), group_entry(2, "c", None)]
    entries = [*plain, *groups, commit("группа", metadata="m" * 40), (b"\0\x63odd", b"value")]
    first = minute(1, *entries, first=0)
    opened = [
        BatchSpec(entries=(commit("a", 5), commit("d", 6)), producer_id=number, transactional=True)
        for number in (3, 1, 2)
    ]
    first += encode_log(opened, base_offset=len(entries))
    end = len(entries) + 6
    broken = minute(1, commit("x"), (b"\0\1\0", b""), commit("y", metadata="m"), first=0)
    archive.snapshot(instant(1) + 2_000, {0: first, 1: broken})
    more = [commit("a", 9), commit("e"), tombstone("d"), group_entry(2, "e", members)]
    later = minute(2, *more, first=end)
    later += encode_log([BatchSpec(producer_id=1, transactional=True, control=(1,))], base_offset=end + len(more))
    archive.snapshot(instant(2) + 2_000, {0: later, 1: minute(2, commit("x", 8), first=3)})
    return archive


def changes(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Every change of a table, with what it is called."""
    rows = table.num_rows
    yield "shorter", table.slice(0, rows - 1)
    yield "longer", pa.concat_tables([table, table.slice(0, 1)])
    yield "longer at the front", pa.concat_tables([table.slice(rows - 1), table])
    yield "empty", table.slice(0, 0)
    yield "reversed", table.take(list(reversed(range(rows))))
    yield "one more column", table.append_column("more", pa.nulls(rows))
    if len(table.column_names) > 1:
        yield "columns reversed", table.select(list(reversed(table.column_names)))
    for at, field in enumerate(table.schema):
        rest = table.column(at)
        yield f"{field.name} is missing", table.drop_columns([field.name])
        for kind, column in _columns(field, rest.combine_chunks()):
            changed = table.set_column(at, pa.field(field.name, column.type), column)
            yield f"{field.name} {kind}", changed


def _columns(field: pa.Field, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    rows = len(column)
    yield "NULL in the first row", _with(column, None)
    yield "NULL", pa.nulls(rows, column.type)
    yield "of doubles", pa.array([0.5] * rows)
    if pa.types.is_integer(field.type):
        yield "of text", column.cast(pa.string())
        yield (
            "of another size",
            pc.fill_null(column, 0).cast(pa.int64() if field.type == pa.int32() else pa.int32(), safe=False),
        )
        for kind, number in NUMBERS.items():
            if -SIGNED[str(field.type)] <= number < SIGNED[str(field.type)]:
                yield kind, _with(column, number)
        yield "alike", _with(column, column[0].as_py(), all_rows=True)
        return
    yield (
        "of dictionaries",
        column.cast(pa.string() if pa.types.is_large_string(field.type) else pa.binary(), safe=False),
    )
    yield "of small texts", pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())
    text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    yield "empty", _with(column, "" if text else b"")
    yield "long", _with(column, "x" * 200_000 if text else b"\0\2\0\1x" * 40_000)
    yield "alike", _with(column, column[0].as_py(), all_rows=True)
    if text:
        yield "no UTF-8", _raw(field.type, [b"\xff\xc0" * 30] * rows)


def _with(column: pa.Array, value: Any, *, all_rows: bool = False) -> pa.Array:
    told = column.to_pylist()
    return pa.array([value] * len(told) if all_rows else [value, *told[1:]], column.type)


def _raw(kind: pa.DataType, values: list[bytes]) -> pa.Array:
    """Texts of any bytes."""
    ends = np.cumsum([0, *map(len, values)])
    width = np.int64 if pa.types.is_large_string(kind) else np.int32
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(ends.astype(width)), pa.py_buffer(b"".join(values))]
    )


def seal(folder: Path) -> None:
    """Let the manifest of a checkpoint say that its files are as they are."""
    path = folder / "checkpoint.json"
    manifest = json.loads(path.read_text())
    path.unlink()
    files = {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*.parquet"))
    }
    path.write_text(json.dumps({**manifest, "sha256": files_sha256(files), "files": files}))


class Trial:
    """An archive with a checkpoint, and what a run of the next instant makes of it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self._tried: set[str] = set()
        self.archive = archive_in(folder / "archive")
        first = run(engine, folder / "first", self.archive, instant(1))
        self.where = publish(folder / "first", first, self.archive)
        self.good = folder / "good"
        shutil.copytree(self.where, self.good)
        run(engine, folder / "full", self.archive, instant(2), is_full=True)
        self.full = tables(folder / "full")
        going_on = run(engine, folder / "increment", self.archive, instant(2))
        assert (going_on.base_as_of_ms, tables(folder / "increment")) == (instant(1), self.full)

    def judge(self, what: str, *, is_run: bool) -> None:
        """Say what becomes of the checkpoint as it is now: what `archive verify` finds, and what a run makes of it,
        which is tried with `is_run` and with the first change of a column in which nothing is found."""
        print(json.dumps({"what": what}), flush=True)
        seal(self.where)
        _, findings = verify_checkpoints(self.archive.fs, self.archive.root)
        of = " ".join(what.split()[:2])
        if not is_run and (findings or of in self._tried):
            self._say(what, REFUSED if findings else READ, findings)
        else:
            self._tried |= {of}
            self._run(what, findings)
        shutil.rmtree(self.where)
        shutil.copytree(self.good, self.where)

    def _run(self, what: str, findings: list[Finding]) -> None:
        out = self.folder / "out"
        record = run(self.engine, out, self.archive, instant(2))
        warnings = passed_over(record)
        is_equal = tables(out) == self.full
        became = EQUAL if is_equal and not warnings else PASSED_OVER if is_equal else DIFFERS
        self._say(what, became, findings, warnings=warnings, is_proved=bool(warnings) or self._is_proved())

    def _say(self, what: str, became: str, findings: list[Finding], **more: Any) -> None:
        told = {"what": what, "became": became, "findings": [finding.what for finding in findings], **more}
        print(json.dumps(told), flush=True)

    def _is_proved(self) -> bool:
        """Whether the weekly full replay finds it."""
        try:
            compare_checkpoint(
                self.engine, RunFolder(self.folder / "check"), archive=self.archive.root, settle_ms=SETTLE_MS
            )
        except DataQualityFailure:
            return True
        return False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--flips", type=int, default=0)
    parser.add_argument("--runs", action="store_true", help="a run for each change, also where verify refuses it")
    arguments = parser.parse_args()
    with SerialEngine(quiet=True) as engine:
        trial = Trial(engine, arguments.folder)
        files = sorted(path.relative_to(trial.good) for path in trial.good.rglob("*.parquet"))
        own = [file for file in files if file.parts[0] == "0" or file.name == "undecodable.parquet"]
        for file in own:
            table = pq.read_table(trial.good / file, partitioning=None)
            for number, (kind, changed) in enumerate(changes(table)):
                pq.write_table(changed, trial.where / file)
                trial.judge(f"{file}: {kind}", is_run=arguments.runs or number == 0)
        rng = Random(1)
        for number in range(arguments.flips):
            file = rng.choice(files)
            data = bytearray((trial.good / file).read_bytes())
            for _ in range(rng.choice((1, 1, 4))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            (trial.where / file).write_bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
            trial.judge(f"{file}: flip {number}", is_run=arguments.runs)


if __name__ == "__main__":
    main()
