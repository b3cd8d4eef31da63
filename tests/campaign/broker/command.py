"""`python -m tests.campaign --broker`."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from sexton.java import find_java
from sexton.kafka import jars as pinned
from sexton.settings import settings, variable
from tests.campaign.broker.cleaner import EXPECTED_CHANGES, judge_cleaned
from tests.campaign.broker.judge import Judge, Verdict
from tests.campaign.broker.logs import lay_out
from tests.campaign.broker.run import each_load, narrowed, partitions_for, run

PINNED_RELEASE = "4.3.1"
CLEANED_PARTITIONS = 256
_MAX_DIFFERENCES = 20


def judge_in(folder: Path, *, release: str, jars: Path | None, partition_count: int) -> Judge:
    """A broker of `release`: of the pinned jars, else of those in the folder `jars`."""
    assert release == PINNED_RELEASE or jars is not None, f"--jars has to name the jars of {release}"
    return Judge(
        folder,
        release=release,
        java=find_java(settings().cache, variable("JAVA_HOME"), variable("PATH")),
        jars=pinned.ensure(settings().cache, "kafka") if jars is None else sorted(jars.glob("*.jar")),
        partition_count=partition_count,
    )


def clean(seed: int, indices: Sequence[int], *, release: str, jars: Path | None) -> int:
    """Judge the histories before and after the broker has cleaned their logs; how many differences there were."""
    print(f"seed {seed}, Kafka {release}, cleaned", flush=True)
    with tempfile.TemporaryDirectory(prefix="sexton-campaign-") as folder:
        judge = judge_in(Path(folder) / "broker", release=release, jars=jars, partition_count=CLEANED_PARTITIONS)
        judge.prepare()
        count = judge.partition_count
        logs = lay_out(seed, indices, judge.place, judge.profile, shared=count, only_clean=True)
        cleaning = judge_cleaned(judge, logs, Random(seed))
    differences = [*cleaning.before.differences, *cleaning.after.differences]
    print(cleaning, *differences[:_MAX_DIFFERENCES], sep="\n")
    for reason, number in [*logs.left_out.items(), ("the load or the sweep fails", len(logs.unplaced))]:
        print(f"left out: {number}: {reason}")
    unexpected = cleaning.changes.keys() - EXPECTED_CHANGES
    return len(differences) + len(unexpected)


def campaign(seed: int, indices: Sequence[int], *, release: str, jars: Path | None, processes: int) -> int:
    """Judge the histories and say what came of it; how many differences there were.

    Each process has a broker, which mostly waits for its sweeps: two processes a core keep it busy.
    """
    print(f"seed {seed}, Kafka {release}", flush=True)
    started = time.monotonic()
    total = Verdict()
    with tempfile.TemporaryDirectory(prefix="sexton-campaign-") as folder:
        partitions = partitions_for(each_load(len(indices), processes))
        judge = judge_in(Path(folder) / "broker", release=release, jars=jars, partition_count=partitions)
        judge.prepare()
        for verdict in run(judge, seed, indices, processes=processes):
            total += verdict
            took_s = time.monotonic() - started
            print(f"{total}, in {took_s:.0f} s, {total.histories / took_s:.0f} histories a second", flush=True)
            print(*verdict.differences[:_MAX_DIFFERENCES], sep="\n", end="\n" * bool(verdict.differences))
            if len(total.differences) >= _MAX_DIFFERENCES:
                break
        for reason, count in total.left_out.items():
            print(f"left out: {count}: {reason}")
        print(*narrowed(judge, seed, total.differences), sep="\n")
    return len(total.differences)
