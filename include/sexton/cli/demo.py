"""`sexton demo`: a first answer, from a recording in the package: no broker, no Java, no log of your own.

The recording is tests/golden/kafka-4.4.0/swept: what a real broker of 4.4.0 with offsets.retention.minutes=1 wrote,
its sweeps included.
"""

import shutil
from pathlib import Path

from sexton.cli.audit import audit, claim
from sexton.cli.explain import explain
from sexton.cli.input_options import LogInput, ReplayInput
from sexton.cli.options import OUTPUT, Json, option
from sexton.cli.output import print_line

RECORDING = Path(__file__).with_name("recording")
GROUP = "consumer-3"
BEFORE_THE_SWEEPS = "2026-11-21T08:46:13Z"
RULES = "group_coordinator:4.4.0"
RETENTION_MINUTES = 1


def demo(
    *,
    out: Path = option(
        "--out DIR",
        "Receives the recorded log and the audit of it; those of an earlier demo are replaced.",
        OUTPUT,
        default=Path("sexton-demo"),
    ),
    json: Json = False,
) -> int:
    """Explain why a group lost its offsets, and audit a log, from a small recording of a real broker.

    The broker was set to keep the offsets of idle groups for one minute, so that the recording shows it delete them.

    # an answer in seconds
    sexton demo

    # its log and its report elsewhere
    sexton demo --out /tmp/demo
    """
    log, run = out / "log", out / "audit"
    claim(run, apart_from=())
    shutil.copytree(RECORDING, log, dirs_exist_ok=True)
    topics, rules = log / "topics.jsonl", f"--retention-minutes {RETENTION_MINUTES} --profile {RULES}"
    replay = ReplayInput(
        segments=[log], topics=topics, as_of=BEFORE_THE_SWEEPS, retention_minutes=RETENTION_MINUTES, profile=RULES
    )
    if json:
        return audit(replay=replay, out=run, json=True)
    print_line(f"{log} was written by a Kafka 4.4.0 broker that kept the offsets of idle groups for one minute.")
    _print_command(f"What became of {GROUP}?", f"explain {GROUP} --segments {log} {rules}")
    explain(GROUP, log=LogInput(segments=[log], topics=topics, profile=RULES), retention_minutes=RETENTION_MINUTES)
    _print_command(
        "What was due, a moment before the broker deleted it?",
        f"audit --segments {log} --as-of {BEFORE_THE_SWEEPS} {rules} --out {run}",
    )
    code = audit(replay=replay, out=run)
    print_line()
    print_line("Next:")
    print_line(f"  sexton groups list --segments {log}")
    print_line(f"  sexton explain streams-app-0 --segments {log} {rules}")
    print_line(f"  sexton forecast --segments {log} --as-of {BEFORE_THE_SWEEPS} {rules}")
    print_line("Then the log of your own broker: sexton audit --segments /var/lib/kafka/data --out audit")
    return code


def _print_command(question: str, command: str) -> None:
    """Print a question, and the command that answers it."""
    for line in ("", question, f"$ sexton {command}", ""):
        print_line(line)
