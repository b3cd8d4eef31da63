"""`sexton groups check-sweep`: what each broker's next sweep removes and logs, and what follows if its append fails."""

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from sexton import as_text
from sexton.cli.input_options import LogInput
from sexton.cli.judged_input import judged_tables, replayed
from sexton.cli.options import RULES, Json, RetentionMinutes, option, parse_exact_partition
from sexton.cli.output import print_aside, print_json, print_line, print_section, print_table
from sexton.errors import UsageError
from sexton.report.meanings import sweep_block_text
from sexton.report.names import visible

if TYPE_CHECKING:
    from sexton.analysis.forecast_result import RunTables
    from sexton.coordinator.offsets import OffsetKey

SWEEP_COLUMNS = ("COORDINATOR (ID)", "LOG-PARTITION", "OFFSETS", "RECORDS")
KEPT_COLUMNS = ("GROUP", "TOPIC", "PARTITION")
PAST_COLUMNS = ("SWEPT-AT", "COORDINATOR (ID)", "OFFSETS", "CERTAIN", "LOG-PARTITIONS")


def check_sweep(
    *,
    in_flight: list[str] | None = option(
        "--in-flight G:T:P",
        "Assume a commit of group G for partition P of topic T whose append has not completed: it keeps its offset "
        "and its group (0.10.1 to 3.9); may be repeated.",
        RULES,
    ),
    log: LogInput,
    retention_minutes: RetentionMinutes = None,
    json: Json = False,
) -> int:
    """Dry run of each broker's sweep: the offsets that it removes, what it logs, and what follows if the append fails.

    Without --segments, --archive and --run it reads the published tables, which also have the past sweeps of the run's
    interval. In what a broker logs, M stands for the duration of the sweep, which is not known. Deletes nothing.

    # what does each broker's sweep remove now, and what if the log refuses it?
    sexton groups check-sweep --archive s3://keep/offsets

    # from a broker's disk, with another retention
    sexton groups check-sweep --segments backup --retention-minutes 60

    # on a 3.9 broker, while the append of a commit has not completed
    sexton groups check-sweep --in-flight my-group:orders:0 --segments backup --profile group_metadata_manager:3.9

    # also past sweeps, by broker: from the published tables
    sexton groups check-sweep
    """
    from sexton.analysis.forecast_result import FolderTables

    log.check_replayable("groups check-sweep")
    flying = {_commit_in_flight(text) for text in in_flight or ()}
    if log.is_log:
        name = "groups check-sweep"
        with replayed(log, name, retention_minutes=retention_minutes, quiet=json, plans=True) as (folder, record):
            _print(_found(FolderTables(folder, record), flying), record.warnings, json=json)
            return record.exit_code
    if retention_minutes is not None:
        raise UsageError(
            "a run has its own rules", where="--retention-minutes", fix="leave it out, or give --archive or --segments"
        )
    _print(_found(judged_tables(log), flying), [], json=json)
    return 0


def _commit_in_flight(text: str) -> "OffsetKey":
    if text.count(":") < 2:
        raise UsageError(f"not GROUP:TOPIC:PARTITION: {text!r}", where="--in-flight", fix="such as my-group:orders:0")
    name, partition = parse_exact_partition(text)
    group, _, topic = name.rpartition(":")
    return group, topic, partition


def _found(tables: "RunTables", flying: "Collection[OffsetKey]") -> dict[str, Any]:
    from sexton.coordinator.api.sweep_log import failed_tombstones, removed_lines
    from sexton.coordinator.expiry import is_kept_in_flight
    from sexton.coordinator.profiles import profile_of
    from sexton.coordinator.tombstones import OFFSET_TYPE
    from sexton.history.interval_counts import sweeps_of_brokers

    if tables.row["policy_sha256"] is not None:
        raise UsageError("the plan follows a policy, a sweep does not", fix="give --archive or --segments")
    profile = profile_of(tables.row["profile"])
    if flying and not profile.knows_commits_in_flight:
        raise UsageError(
            "commits in flight keep no offsets with this profile",
            where="--in-flight",
            fix="leave it out, or choose a --profile from 0.10.1 to 3.9",
        )
    led = tables.read("load_profile", ["log_partition", "coordinator"]).to_pylist()
    brokers = {row["log_partition"]: row["coordinator"] for row in led}
    planned: dict[int, list[tuple[str, int]]] = {number: [] for number in brokers}
    key = ["group_id", "topic", "partition"]
    kept: list[dict[str, Any]] = []
    rows = tables.read("tombstones", ["log_partition", "position", "record_type", *key])
    for row in rows.sort_by([("log_partition", "ascending"), ("position", "ascending")]).to_pylist():
        if is_kept_in_flight((row["group_id"], row["topic"], row["partition"]), flying):
            kept.append({name: row[name] for name in key})
            continue
        # A run from admin snapshots has no load_profile.
        brokers.setdefault(row["log_partition"], None)
        planned.setdefault(row["log_partition"], []).append((row["group_id"], row["record_type"]))
    offsets = Counter({at: sum(kind <= OFFSET_TYPE for _, kind in own) for at, own in planned.items()})
    sweeps = []
    for broker in sorted(set(brokers.values()), key=lambda one: (one is None, one)):
        parts = sorted(at for at, leader in brokers.items() if leader == broker)
        count = sum(offsets[at] for at in parts)
        lines = removed_lines(count, {at: len(planned[at]) for at in parts}, profile)
        each = [{"log_partition": at, "offsets": offsets[at], "records": len(planned[at])} for at in parts]
        sweeps.append({"coordinator": broker, "offsets": count, "log_lines": lines, "log_partitions": each})
    failed = []
    for at, own in planned.items():
        if own:
            what = failed_tombstones(at, own, profile)
            failed.append({"log_partition": at, "log_lines": what.lines, "leaves_cache": what.leaves_cache})
    blocks = {at: block for at, block in tables.blocks().items() if block.is_on(tables.as_of_ms)}
    return {
        "as_of_ms": tables.as_of_ms,
        "sweeps": sweeps,
        "kept_by_commits_in_flight": kept,
        "if_the_append_fails": failed,
        "blocked": [f"log partition {at}: {sweep_block_text(block)}" for at, block in sorted(blocks.items())],
        "past_sweeps": sweeps_of_brokers(tables.sweep_rows(), brokers),
    }


def _print(found: dict[str, Any], warnings: list[str], *, json: bool) -> None:
    if json:
        print_json({"operation": "check-sweep", **found, "warnings": warnings})
        return
    print_line(f"a sweep at {as_text.instant(found['as_of_ms'])}:")
    rows = [
        (sweep["coordinator"], *part.values())
        for sweep in found["sweeps"]
        for part in sweep["log_partitions"]
        if part["records"]
    ]
    if rows:
        print_table(SWEEP_COLUMNS, rows)
    for sweep in found["sweeps"]:
        who = "the broker" if sweep["coordinator"] is None else f"broker {sweep['coordinator']}"
        logs = "logs:" if sweep["log_lines"] else "logs nothing"
        print_line(f"{who} removes {as_text.some(sweep['offsets'], 'offset')}, and {logs}")
        for line, times in Counter(sweep["log_lines"]).items():
            print_line(f"  {line}{'' if times == 1 else f' ({times} times)'}")
    kept = ([*row.values()] for row in found["kept_by_commits_in_flight"])
    print_section(KEPT_COLUMNS, kept, "commits in flight keep, until their append completes:")
    if found["if_the_append_fails"]:
        print_line()
        print_line("if the append fails:")
        for part in found["if_the_append_fails"]:
            for line in part["log_lines"]:
                print_line(f"  {visible(line)}")
        if found["if_the_append_fails"][0]["leaves_cache"]:
            print_line("the cache has dropped them anyway; the log still has them, and the next load restores them")
        else:
            print_line("the cache keeps them, and the next sweep tries again")
    columns, past = ("coordinator", "offsets", "certain_offsets", "log_partitions"), found["past_sweeps"]
    sweeps = ((as_text.instant(one["started_at_ms"]), *(one[name] for name in columns)) for one in past)
    print_section(PAST_COLUMNS, sweeps)
    if past:
        print_aside("the coordinator led then or, if unknown, when the snapshot was taken")
    for text in (*found["blocked"], *warnings):
        print_aside(f"! {visible(text)}")
