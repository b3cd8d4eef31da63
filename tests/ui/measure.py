"""How quickly pages and API answer over 100,000 groups and 2 million offsets, and how much memory the server takes.

`python -m tests.ui.measure FOLDER [ROUNDS]`; FOLDER is a lake of `tests.ui.generated`. A server of its own is asked by
HTTP, one request after the other, each round about other groups, words and pages; the first of each kind, which plans
files and computes, is told apart. Times are wall clock, so that the machine should have nothing else to do.
"""

import json
import random
import statistics
import sys
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.ui.generated import FIRST_MS, HOUR_MS, TEAMS
from tests.ui.lake_server import get, serving

ROUNDS = 40


def questions(chance: random.Random, groups: list[str], runs: int) -> Iterator[tuple[str, str]]:
    """(kind, path) of one round."""
    group, team = chance.choice(groups), chance.choice(TEAMS)
    word = f"{chance.randrange(100_000):05d}"[: chance.randint(2, 4)]
    topic = f"events.{chance.randrange(500):03d}"
    # Somebody reads about one run, and now and then about another.
    as_of = FIRST_MS + (runs - 1 if chance.random() < 0.9 else chance.randrange(runs)) * HOUR_MS
    at, one = f"as_of={as_of}", urllib.parse.quote(group)
    for kind, path in (
        ("overview", f"/?{at}"),
        ("groups, a word", f"/groups?{at}&q={word}"),
        ("groups, sorted, leafed", f"/groups?{at}&q={team}&sort=due&page={chance.randint(1, 200)}"),
        ("group", f"/group?{at}&id={one}"),
        ("group's series", f"/api/group/series?{at}&id={one}"),
        ("group's story", f"/api/group/story?{at}&id={one}"),
        ("offsets, all", f"/offsets?{at}"),
        ("offsets of a topic", f"/offsets?{at}&topic={topic}"),
        ("offsets of a team", f"/offsets?{at}&group={team}&sort=group_id&page={chance.randint(1, 500)}"),
        ("offsets, a finding", f"/offsets?{at}&finding={chance.choice(('due', 'orphan', 'left_topic'))}"),
        ("runs", f"/runs?{at}"),
        ("log partitions", f"/log?{at}"),
        ("checks", f"/checks?{at}"),
        ("plans", f"/plans?{at}"),
        ("metrics", "/metrics"),
    ):
        yield kind, path
        if not path.startswith("/api") and kind not in ("group", "metrics"):
            other = {"/?": "/api/overview?"}.get(path[:2], f"/api{path}")
            yield f"{kind} (API)", other


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Milliseconds by kind of question, the first one and the 50th and 95th percentile of the others; memory in MB."""
    with serving(folder) as (base, pid):
        chance = random.Random(20_261_121)
        runs = len(json.loads(get(f"{base}/api/runs?limit=1000")))
        groups = [
            row["group_id"]
            for page in range(1, 6)
            for row in json.loads(get(f"{base}/api/groups?sort=offset_count&size=200&page={page * page * 15 - 14}"))[
                "rows"
            ]
        ]
        times: dict[str, list[float]] = defaultdict(list)
        for _ in range(rounds):
            for kind, path in questions(chance, groups, runs):
                start = time.perf_counter()
                get(base + path)
                times[kind].append((time.perf_counter() - start) * 1000)
        memory = psutil.Process(pid).memory_info().rss / 1e6
    every = [value for values in times.values() for value in values[1:]]
    told = {kind: _told(values) for kind, values in sorted(times.items())}
    return {"ms": told, "all_p95_ms": _percentile(every, 95), "requests": len(every), "memory_mb": round(memory)}


def _told(values: list[float]) -> dict[str, float]:
    rest = values[1:] or values
    return {"first": round(values[0]), "p50": round(statistics.median(rest)), "p95": _percentile(rest, 95)}


def _percentile(values: list[float], share: int) -> int:
    return round(sorted(values)[min(len(values) * share // 100, len(values) - 1)])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS)
    print(json.dumps(found, indent=1))
