"""What Sexton makes of the same bytes, as digests: held before and after a change that must change nothing.

    python -m tests.frozen before.json
    ... move, rename, merge ...
    python -m tests.frozen after.json --against before.json

Covered: `sexton audit` of every recording by its own release's rules at every sweep (all tables in their order, the
plan's id and batches, summary.json, the exit code), the commands that answer about a log with --json, what the kernels
and the plain rules make of generated histories, and of the histories that brokers judged (edge-cases.jsonl).
"""

import argparse
import contextlib
import hashlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sexton import cli
from sexton.coordinator.profiles import of_broker
from tests.campaign.checks import NEWEST, OLD_PROFILES, PROFILES
from tests.campaign.histories import PACK, history, is_old
from tests.campaign.packs import pack
from tests.coordinator.golden import CAP_BYTES, GOLDEN, RELEASES, edge_cases
from tests.fates import load
from tests.kernels.compare import fold_bytes, tables_of
from tests.oracle import oracle_tables

HISTORIES, SEED = 20_000, 20_261_122
TAKEN_AT = "1796000000000"
_OF_THE_RUN = {
    "run_id", "created_at", "created_at_ms", "started_at", "seconds", "elapsed_s", "version", "source", "out",
}  # fmt: skip
_ANSWERS = (
    ("groups", "list"), ("groups", "describe"), ("fetch", "{group}"), ("explain", "{group}"), ("forecast",),
    ("what-if", "--retention-minutes", "5"),
)  # fmt: skip


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()[:16]


def without_run(value: Any, away: str = "") -> Any:
    """`value` without what differs in every run; paths that begin with `away` are cut."""
    if isinstance(value, dict):
        return {name: without_run(item, away) for name, item in value.items() if name not in _OF_THE_RUN}
    if isinstance(value, list):
        return [without_run(item, away) for item in value]
    return value.replace(away, "") if away and isinstance(value, str) else value


def rows_of(table: pa.Table) -> Any:
    return without_run(table.to_pylist())


def run(*words: object) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = cli.main([str(word) for word in words])
    return code, out.getvalue()


def of_folder(out: Path, code: int) -> dict[str, str]:
    found = {"exit code": str(code)}
    for folder in sorted(path for path in out.iterdir() if path.is_dir()):
        files = sorted(folder.glob("*.parquet"))
        if files:
            found[f"table {folder.name}"] = digest([rows_of(pq.ParquetFile(file).read()) for file in files])
    for file in sorted((out / "batches").glob("*")):
        found[f"batches {file.name}"] = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    for name in ("summary.json", "run.json"):
        if (out / name).exists():
            told = json.loads((out / name).read_text("utf-8"))
            found[name] = digest(without_run(told, str(out)))
            found[f"{name} plan_id"] = str(told.get("plan_id"))
    return found


def audits(work: Path) -> Iterator[tuple[str, dict[str, str]]]:
    for name, release in sorted(RELEASES.items()):
        profile = of_broker(release).text
        sweeps = GOLDEN / name / "sweeps.jsonl"
        instants = [None]
        if sweeps.exists() and (GOLDEN / name / "swept").exists():
            times = sorted({json.loads(line)["at_ms"] for line in sweeps.read_text().splitlines()})
            instants += [str(times[0]), str(times[-1])]
        for instant in instants:
            segments = GOLDEN / name / ("before" if instant is None else "swept")
            if not segments.exists():
                continue
            options = ["--profile", profile, "--retention-minutes", 1, "--taken-at", TAKEN_AT]
            options += [] if instant is None else ["--as-of", instant]
            out = work / "out"
            shutil.rmtree(out, ignore_errors=True)
            code, _ = run("audit", "--segments", segments, "--out", out, *options)
            yield f"audit {name} {instant}", of_folder(out, code)


def answers(work: Path) -> Iterator[tuple[str, dict[str, str]]]:
    for name, release in sorted(RELEASES.items()):
        segments = GOLDEN / name / "before"
        if not segments.exists():
            continue
        profile = of_broker(release).text
        log = ["--segments", segments, "--profile", profile]
        _, listed = run("groups", "list", *log, "--json")
        try:
            told = json.loads(listed)
        except ValueError:
            told = {}
        groups = [group["group_id"] for group in told.get("groups", [])][:12]
        found = {}
        for words in _ANSWERS:
            for group in groups if "{group}" in words else [""]:
                code, text = run(*(word.format(group=group) for word in words), *log, "--json")
                found[" ".join(words).format(group=group)] = f"{code} {digest(text.replace(str(work), ''))}"
        yield f"answers {name}", found


def generated(count: int) -> Iterator[tuple[str, dict[str, str]]]:
    for first in range(0, count, PACK):
        rng = Random(f"{SEED}/{first}")
        whole = pack([history(SEED, index) for index in range(first, first + PACK)], rng)
        profiles = OLD_PROFILES if is_old(whole.placed[0].history.index) else PROFILES
        other = profiles[1 + first // PACK % (len(profiles) - 1)]
        found = {}
        for profile in (NEWEST, other):
            tables = tables_of(fold_bytes(whole.log, profile=profile))
            found[f"kernels {profile.text}"] = digest(tables)
        plain = load([whole.log], cap_bytes=CAP_BYTES, profile=other)
        found[f"rules {other.text}"] = digest(oracle_tables(plain, 0, 4))
        yield f"histories {first}", found


def edges() -> Iterator[tuple[str, dict[str, str]]]:
    for release in ("4.3.1", "2.8.2"):
        for name, case in sorted(edge_cases(release).items()):
            yield f"edge {release} {name}", {"rules": digest(oracle_tables(case.load(), case.log_partition, 4))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--histories", type=int, default=HISTORIES)
    args = parser.parse_args()
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        parts: list[Callable[[], Iterator[tuple[str, dict[str, str]]]]] = [
            edges,
            lambda: audits(Path(folder)),
            lambda: answers(Path(folder)),
            lambda: generated(args.histories),
        ]
        for part in parts:
            for name, digests in part():
                found[name] = digests
                print(f"{name}: {len(digests)}", file=sys.stderr)
    args.file.write_text(json.dumps(found, indent=1) + "\n")
    if args.against is None:
        return 0
    before = json.loads(args.against.read_text())
    changed = [
        f"{name}: {key}: {before.get(name, {}).get(key)} -> {found.get(name, {}).get(key)}"
        for name in sorted({*before, *found})
        for key in sorted({*before.get(name, {}), *found.get(name, {})})
        if before.get(name, {}).get(key) != found.get(name, {}).get(key)
    ]
    print("\n".join(changed) or "nothing changed")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
