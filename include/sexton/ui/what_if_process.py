"""Answers what-if questions in a child process: one at a time, with a time limit.

Judging two million offsets twice takes memory and seconds that the web server needs for its other users. The child
(`python -m sexton.ui.what_if_process`) reads one question as JSON from standard input and writes one answer: counts,
and the groups that differ most. It plans nothing, and its files are temporary.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sexton.errors import SextonError, UsageError
from sexton.policy import PolicyError, parse_policy, read_policy
from sexton.settings import environment, settings

TIMEOUT_S = 120
LONGEST_POLICY = 256 * 1024
MAX_MINUTES = 5_256_000_000
"""Ten thousand years: more is a mistake."""
GROUPS_SHOWN = 200
_one_at_a_time = threading.Semaphore(1)


class Busy(SextonError):
    """Another question is being answered."""


class BadQuestion(UsageError):
    """The question is invalid; `mistakes` says why."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(mistakes))


def ask(
    *, cluster_id: str, as_of_ms: int, retention_minutes: int | None, policy: str, timeout_s: float = TIMEOUT_S
) -> dict[str, Any]:
    """The answer for a published run; raises BadQuestion, Busy, or SextonError."""
    if retention_minutes is None and not policy.strip():
        raise BadQuestion(["nothing to try: give a retention, a policy, or both"])
    if not _one_at_a_time.acquire(blocking=False):
        raise Busy("another what-if is being answered; try again in a moment")
    question = {
        "cluster_id": cluster_id,
        "as_of_ms": as_of_ms,
        "retention_minutes": retention_minutes,
        "policy": policy,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sexton.ui.what_if_process"],
            input=json.dumps(question).encode("ascii"),
            capture_output=True,
            env=environment(),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SextonError(
            f"no answer within {timeout_s:.0f} s", fix="ask `sexton what-if` on the command line"
        ) from None
    finally:
        _one_at_a_time.release()
    return _read(done)


def _read(done: "subprocess.CompletedProcess[bytes]") -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise SextonError(f"the process ended without an answer (exit code {done.returncode})") from None
    if "error" in answer:
        raise (
            BadQuestion(answer["mistakes"] or [answer["error"]]) if answer["is_usage"] else SextonError(answer["error"])
        )
    return answer


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `ask`, computed in this process."""
    from sexton.analysis.what_if import RetentionRules, published_folder, what_if
    from sexton.lake.catalog import open_lake
    from sexton.lake.read import published_at

    (file,) = (cluster.policy for cluster in settings().every_cluster if cluster.is_of(question["cluster_id"]))
    known = read_policy(Path(file)) if file else None
    tried = parse_policy(question["policy"], where="policy") if question["policy"].strip() else known
    lake = open_lake()
    run = published_at(lake, question["as_of_ms"], cluster_id=question["cluster_id"])
    in_force = RetentionRules(retention_ms=int(run.row["retention_ms"]), policy=known, source="the published run")
    proposed = in_force.asked(question["retention_minutes"], tried)
    with tempfile.TemporaryDirectory(prefix="sexton-what-if-") as place:
        folder, record = published_folder(lake, run, Path(place))
        found = what_if(folder, record, in_force=in_force, proposed=proposed)
    differing = found.differing()
    shown = [asdict(group) for group in differing[:GROUPS_SHOWN]]
    for fields in shown:
        del fields["log_partition"]
    return {
        "counts": found.counts(),
        "rules": [asdict(one) for one in found.rules()],
        "retention_ms": {"in_force": in_force.retention_ms, "proposed": proposed.retention_ms},
        "groups": shown,
        "group_count": len(differing),
    }


def main() -> int:
    """One question in, one answer out."""
    try:
        result = answer(json.load(sys.stdin))
    except SextonError as error:
        mistakes = [str(one) for one in error.diagnostics] if isinstance(error, PolicyError) else []
        result = {"error": str(error), "mistakes": mistakes, "is_usage": isinstance(error, UsageError)}
    sys.stdout.write("\n" + json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
