"""`sexton replicas`: replicas of the log that disagree, and what clients would read if another one led."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.as_text import count, now_ms, some
from sexton.cli.command import command_group
from sexton.cli.options import (
    DEFAULT_ROWS,
    INPUT,
    Archive,
    ClusterId,
    Json,
    Profile,
    ShownRows,
    check_profile,
    option,
    required,
)
from sexton.cli.output import (
    print_aside,
    print_doubts,
    print_json,
    print_line,
    print_section,
)
from sexton.errors import DataQualityFailure, UndecodableInput, UsageError

if TYPE_CHECKING:
    from sexton.replicas import ReplicaComparison
    from sexton.replicas.compare import Work

GROUP_EXAMPLES = """
[dim]# copies of the disks of three brokers[/dim]
sexton replicas diff --segments broker-1 --segments broker-2 --segments broker-3
"""
STATE_COLUMNS = ("LOG-PARTITION", "REPLICA", "STATUS", "LOG-START", "HIGH-WATERMARK", "LOG-END", "LAST-STABLE", "LOADS")
COLUMNS = ("KIND", "GROUP", "TOPIC", "PARTITION", "WRONG", "RIGHT", "EVIDENCE")

app = command_group("Compare the replicas of `__consumer_offsets`.", GROUP_EXAMPLES)


def diff(
    *,
    segments: list[Path] = required(
        "--segments DIR[,DIR...]",
        "A broker's log directory, or a copy of it; if the broker has several, all of them, separated by commas as "
        "in log.dirs. Give two or more, one for each broker.",
        INPUT,
    ),
    name: list[str] | None = option(
        "--name NAME", "The name of each broker, in the same order. Default: its node id.", INPUT
    ),
    archive: Archive = None,
    cluster_id: ClusterId = None,
    profile: Profile = None,
    limit: ShownRows = DEFAULT_ROWS,
    json: Json = False,
) -> int:
    """Compare replicas of the log: what would clients read if another replica led, and which replica is right?

    Compaction alone does not change the answers of a replica. A tombstone or a transaction marker that a replica never
    received does: deleted offsets come back, ended transactions are open again, a load fails. Exit code 3 if there are
    differences that any leader change would show.

    # would anything change if another broker led?
    sexton replicas diff --segments broker-1 --segments broker-2 --segments broker-3

    # with the archive, which still has what all brokers have cleaned away
    sexton replicas diff --segments broker-1 --segments broker-2 --archive s3://keep/offsets

    # differences by kind, for scripts
    sexton replicas diff --segments broker-1 --segments broker-2 --json | jq .counts
    """
    check_profile(profile)
    if archive is None and cluster_id is not None:
        raise UsageError("only an archive has clusters", where="--cluster-id", fix="give --archive URI")

    from sexton.log.segment import list_segments
    from sexton.replicas import archived_logs, compare, open_replicas
    from sexton.runs.processes import engine_here
    from sexton.runs.source import LogSource
    from sexton.settings import settings
    from sexton.views.log_parts import LogParts

    folders = open_replicas([str(path) for path in segments], name or [])
    # The coordinator whose rules apply: requested, or proven by the first replica.
    first = LogSource(uri=str(segments[0]), segments=list_segments(folders[0].fs, folders[0].roots))
    choice = LogParts(first, as_of_ms=None, taken_at_ms=now_ms()).choose(profile)
    print_doubts([*choice.doubts, *choice.open_points])
    with engine_here(quiet=json) as engine:
        found = compare(
            folders,
            profile=choice.profile,
            archived=archived_logs(archive, cluster_id) if archive else None,
            cap_bytes=settings().inflated_cap_bytes,
            spread=lambda work, items: engine.map("Comparing", items, work, work_bytes=_size_of(items)),
        )
    alarms = found.alarms.num_rows
    if json:
        answer = {
            "profile": choice.profile.text,
            "replicas": [folder.name for folder in folders],
            "alarms": alarms,
            "counts": found.counts(),
        }
        tables = {"differences": found.differences.to_pylist(), "state": found.state.to_pylist()}
        print_json({"operation": "replicas diff", **answer, **tables, "notes": found.notes})
    else:
        _print(found, limit)
    print_doubts(found.notes)
    if found.is_corrupt:
        return UndecodableInput.exit_code
    return DataQualityFailure.exit_code if alarms else 0


def _size_of(items: "list[Work]") -> int:
    return sum(segment.size_bytes for logs, _ in items for log in logs for segment in log.segments)


def _print(found: "ReplicaComparison", limit: int) -> None:
    states = found.state.to_pylist()
    shown = [row for row in states if row["status"] != "same"]
    same = sorted({row["log_partition"] for row in states} - {row["log_partition"] for row in shown})
    print_line(f"{some(len(same), 'log partition')} the same on every replica")
    names = ("log_partition", "replica", "status", "log_start_offset", "high_watermark", "log_end_offset")
    cells = ((*(row[name] for name in names), row["last_stable_offset"], _loads(row)) for row in shown)
    print_section(STATE_COLUMNS, cells, limit=limit)
    for is_unclean, title in ((False, "after any leader change"), (True, "only after an unclean election")):
        rows = [row for row in found.differences.to_pylist() if row["needs_unclean_election"] is is_unclean]
        head = f"{count(len(rows))} {'differ' if len(rows) > 1 else 'differs'} {title}"
        print_section(COLUMNS, map(_cells, rows), head, limit=limit)
        _print_kinds(rows)
        if not is_unclean:
            _print_repair(rows, states)


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    wrong, right = " ".join(row["wrong_replicas"]), " ".join(row["right_replicas"]) or None
    return row["kind"], row["group_id"], row["topic"], row["partition"], wrong, right, row["evidence"]


def _print_kinds(rows: list[dict[str, Any]]) -> None:
    """Print for each kind its meaning, who would notice, and what to do beyond a new copy, for the kind's first row."""
    from sexton.replicas.advice import IF_IT_LEADS, MEANING

    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        # At its first occurrence: the text after it quotes names, which may contain it, too.
        copies, leads, steps = of_kind[0]["advice"].partition(IF_IT_LEADS)
        has_more = len(of_kind) > 1 and "`" in (steps or copies)
        more = f" (the first of {count(len(of_kind))}; --json has the commands of each)" if has_more else ""
        print_aside(f"{kind}: {MEANING[kind]}")
        print_aside(f"  noticed by {of_kind[0]['noticed_by']}")
        print_aside(f"  {leads}{steps or copies}{more}")


def _print_repair(rows: list[dict[str, Any]], states: list[dict[str, Any]]) -> None:
    """Print how to repair each wrong replica, after the log partitions in which no replica is right everywhere."""
    from sexton.replicas.advice import replace_copy

    wrong: dict[str, Counter[int]] = {}
    for row in rows:
        for name in row["wrong_replicas"]:
            wrong.setdefault(name, Counter())[row["log_partition"]] += 1
    numbers = sorted({row["log_partition"] for row in rows})
    names = {number: [one["replica"] for one in states if one["log_partition"] == number] for number in numbers}
    mixed = [number for number in numbers if all(number in wrong.get(name, ()) for name in names[number])]
    for number in mixed:
        best = min(names[number], key=lambda name: wrong[name][number])
        print_aside(
            f"repair: no replica of log partition {number} is right everywhere. Make {best} the leader (it has the "
            f"fewest wrong keys: {count(wrong[best][number])}), do what is said above for a leader, and compare again"
        )
    for name in sorted(wrong):
        alone = [number for number in sorted(wrong[name]) if number not in mixed]
        if alone:
            print_aside(f"repair: {replace_copy(name, alone)}; then compare again")


def _loads(row: dict[str, Any]) -> str | None:
    return None if row["loads"] is None else "yes" if row["loads"] else f"no: {row['load_error']}"
