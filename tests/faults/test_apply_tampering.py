"""A plan, its ledger or its approval that was changed by anybody: refused, and nothing is deleted (row 28)."""

import hashlib
import io
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sexton.coordinator.profiles import profile_of
from sexton.coordinator.tombstones import encode_batches
from sexton.errors import Refused, UsageError
from sexton.ledger.entries import Entry
from sexton.ledger.ledger import Ledger
from sexton.plans.plan import MANIFEST, TOMBSTONES_FOLDER, UNDO_FOLDER, WRITTEN_TOMBSTONES, Beyond, PlanRecord
from sexton.plans.read_plan import read_plan
from tests.faults.apply_cluster import US
from tests.faults.apply_worlds import HOUR_MS, LEASE_MS, LOCAL, World, dead_process, world

ANOTHER = "e" * 64


def kept(seed: str, root: Path) -> World:
    """A cluster whose plan the archive keeps, with a ledger of an attempt that died in the middle."""
    made = world(seed, root, orphans=False)
    folder = root / made.cluster.cluster_id / "plans" / made.plan.record.plan_id
    rows, record = made.plan.tombstones, made.plan.record
    files = {}
    for part in sorted(set(rows["log_partition"].to_pylist())):
        for folder_name, table in (
            (TOMBSTONES_FOLDER, rows.select(WRITTEN_TOMBSTONES.names)),
            (UNDO_FOLDER, made.plan.undo),
        ):
            files[f"{folder_name}/{part}.parquet"] = parquet(table.filter(pc.equal(table["log_partition"], part)))
        own = [row for row in rows.to_pylist() if row["log_partition"] == part]
        files[f"batches/{part}.log"] = encode_batches(
            [(row["group_id"], row["key"]) for row in own],
            base_offset=record.cuts[part],
            as_of_ms=record.as_of_ms,
            profile=profile_of(record.profile),
        )
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    (folder / MANIFEST).write_bytes(record.model_copy(update={"files": hashes}).to_json())
    made.plan = read_plan(LOCAL, str(root), made.cluster.cluster_id, record.plan_id)
    die_in_the_middle(made)
    return made


def die_in_the_middle(made: World) -> None:
    """One attempt that ends when its first call comes."""
    changes: list[str] = []

    def between(name: str) -> None:
        changes.extend([name] if name.startswith("delete") else [])
        if changes:
            raise KeyboardInterrupt

    made.cluster.between = between
    ledger = Ledger(LOCAL, str(made.root), made.cluster.cluster_id, made.plan.record.plan_id, process=dead_process())
    with suppress(KeyboardInterrupt):
        made.apply(sink="coordinator", ledger=ledger)
    made.cluster.between = lambda name: None
    made.cluster.now_ms += LEASE_MS + 1


def parquet(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out)
    return out.getvalue()


def mangled(data: bytes, rng: Random) -> bytes:
    """Another string of bytes."""
    out = bytearray(data)
    while bytes(out) == data:
        at = rng.randrange(max(1, len(out)))
        match rng.choice(("flip", "cut", "insert", "swap", "zero")):
            case "flip":
                out[at] ^= 1 << rng.randrange(8)
            case "cut":
                del out[at:]
            case "insert":
                out.insert(at, rng.randrange(256))
            case "swap":
                other = rng.randrange(len(out))
                out[at], out[other] = out[other], out[at]
            case "zero":
                out[at : at + rng.randint(1, 64)] = bytes(min(64, len(out) - at))
    return bytes(out)


def of_plan(made: World, folder: Path, rng: Random) -> dict[str, Any]:
    """Any byte of any file of the plan."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    path.write_bytes(mangled(path.read_bytes(), rng))
    return {}


def of_manifest(made: World, folder: Path, rng: Random) -> dict[str, Any]:
    """A field of plan.json, which stays a plan.json."""
    path = folder / MANIFEST
    record = PlanRecord.model_validate_json(path.read_bytes())
    changes: dict[str, Any] = rng.choice(
        (
            {"as_of_ms": record.as_of_ms + rng.randint(1, 10**9)},
            {"cuts": {part: cut + rng.choice((-1, 1)) for part, cut in record.cuts.items()}},
            {"retention_ms": record.retention_ms - 1},
            {"broker_retention_ms": rng.choice((None, record.retention_ms + 60_000))},
            {"beyond": Beyond(offsets=rng.randint(1, 9), groups=1)},
            {"policy_sha256": ANOTHER},
            {"code_version": "9.9.9"},
            {"plan_id": ANOTHER},
            {"cluster_id": "other"},
            {"topic_id": "other"},
            {"warnings": ["all is well"]},
            {"max_message_bytes": rng.randint(1, 9)},
            {"files": dict.fromkeys(record.files, ANOTHER)},
            {"counts": {**record.counts, "tombstones": record.counts["tombstones"] + 1}},
        )
    )
    path.write_bytes(record.model_copy(update=changes).to_json())
    return {}


def of_rows(made: World, folder: Path, rng: Random) -> dict[str, Any]:
    """A row, with all hashes made anew: what somebody would do who knows how a plan is kept."""
    tables = (TOMBSTONES_FOLDER, UNDO_FOLDER)
    name = rng.choice([str(path.relative_to(folder)) for each in tables for path in sorted(folder.glob(f"{each}/*"))])
    rows = pq.read_table(folder / name).to_pylist()
    row = rng.choice(rows)
    field = rng.choice(("group_id", "topic", "partition", "log_partition"))
    row[field] = {"group_id": "other", "topic": "other", "partition": 77, "log_partition": 1 - row["log_partition"]}[
        field
    ]
    if rng.random() < 0.3:
        rows.remove(row)
    data = parquet(pa.Table.from_pylist(rows, schema=pq.read_schema(folder / name)))
    (folder / name).write_bytes(data)
    record = PlanRecord.model_validate_json((folder / MANIFEST).read_bytes())
    files = {**record.files, name: hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_bytes(record.model_copy(update={"files": files}).to_json())
    return {}


def of_ledger(made: World, folder: Path, rng: Random) -> dict[str, Any]:
    """Any byte of the ledger; or an entry that is told otherwise and sealed anew, or is taken away: any but the last,
    on which nothing stands yet."""
    entries = sorted(Path(made.ledger.folder).glob("*.json"))
    how = rng.choice(("bytes", "bytes", "resealed", "removed"))
    if how == "bytes":
        path = rng.choice(entries)
        path.write_bytes(mangled(path.read_bytes(), rng))
        return {}
    path = rng.choice(entries[:-1])
    if how == "removed":
        path.unlink()
        return {}
    entry = Entry.from_bytes(path.read_bytes(), where=str(path))
    changes: dict[str, Any] = {"at_ms": entry.at_ms + 1}
    if entry.kind == "claim":  # the record of the approval
        changes = {"body": entry.body.model_copy(update=rng.choice(({"approved_by": "eve"}, {"plan_sha256": ANOTHER})))}
    path.write_bytes(entry.model_copy(update=changes).to_bytes())
    return {}


def of_approval(made: World, folder: Path, rng: Random) -> dict[str, Any]:
    """What was approved is another plan, by another policy, too long ago, or by nobody."""
    sha256 = list(made.plan.sha256)
    at = rng.randrange(64)
    sha256[at] = rng.choice([digit for digit in "0123456789abcdef" if digit != sha256[at]])
    return rng.choice(
        (
            {"plan_sha256": "".join(sha256)},
            {"plan_sha256": ""},
            {"policy_sha256": ANOTHER},
            {"max_age_ms": rng.randint(0, 1_000)},
            {"approved_by": " " * rng.randint(0, 3)},
        )
    )


KINDS = (of_plan, of_manifest, of_rows, of_ledger, of_approval)


def test_whatever_was_changed_is_refused(full: bool, seed: int, tmp_path: Path, tell: Callable[[str], None]) -> None:
    count, refused = 500 if full else 30, Counter[str]()  # with two seeds: 1,000
    for number in range(count):
        rng = Random(f"{seed} {number}")
        made = kept(f"{seed} {number % 10}", tmp_path / str(number))
        folder = Path(made.plan.folder)
        approved, ends = made.plan.sha256, [len(log.writes) for log in made.cluster.logs]
        change = KINDS[number % len(KINDS)]
        rules = {"plan_sha256": approved, **change(made, folder, rng)}
        if change is of_approval:  # what was begun would be settled, which is no deletion either
            shutil.rmtree(made.ledger.folder)
        try:
            made.plan = read_plan(LOCAL, str(made.root), made.cluster.cluster_id, made.plan.record.plan_id)
            made.apply(sink="coordinator", **rules)
        except (Refused, UsageError) as error:
            refused[f"{change.__name__}: {type(error).__name__}"] += 1
        else:
            raise AssertionError(f"{number}: {change.__name__} was not seen")
        for log, end in zip(made.cluster.logs, ends, strict=True):
            assert not [write for write in log.writes[end:] if write.by == US]
        shutil.rmtree(made.root)
    tell(f"{count} changes, all refused: {dict(refused)}")


@pytest.mark.parametrize(
    "hidden",
    [
        {"broker_retention_ms": HOUR_MS},
        {"broker_retention_ms": None, "beyond": None},
        {"retention_ms": 168 * HOUR_MS},
        {"retention_ms": 168 * HOUR_MS, "over_limits": []},
    ],
    ids=["as if it were the broker's", "as if nobody knew", "as if it were another", "and no limit were reached"],
)
@pytest.mark.parametrize("knows", ["broker", "archive"])
def test_a_retention_that_was_edited_away_is_refused_though_it_was_approved(seed, tmp_path, hidden, knows):
    """plan.json is edited before it is approved, so that its hash is the approved one."""
    made = kept(f"{seed}", tmp_path)
    shutil.rmtree(made.ledger.folder)
    made.cluster.retention_ms = 168 * HOUR_MS if knows == "broker" else None
    rules: dict[str, Any] = {"recorded_retention_ms": None if knows == "broker" else 168 * HOUR_MS}
    path, ends = Path(made.plan.folder) / MANIFEST, [len(log.writes) for log in made.cluster.logs]
    what_if = made.plan.record.model_copy(update={"broker_retention_ms": 168 * HOUR_MS, **hidden})
    path.write_bytes(what_if.to_json())
    with pytest.raises(Refused, match=r"it is a what-if|its rows are those of plan"):  # noqa: PT012 (either refuses it)
        made.plan = read_plan(LOCAL, str(made.root), made.cluster.cluster_id, made.plan.record.plan_id)
        made.apply(sink="coordinator", **rules)
    assert [len(log.writes) for log in made.cluster.logs] == ends


def test_nothing_is_read_again_after_it_was_checked(seed: int, tmp_path: Path) -> None:
    """Whoever replaces the plan's files between check and deletion changes nothing: all comes from one reading. An
    attempt died before this one."""
    made = kept(f"{seed}", tmp_path)
    shutil.rmtree(made.plan.folder)
    summary = made.apply(sink="coordinator")
    assert (summary.attempt, set(summary.counts)) == (2, {"done"})
