"""`sexton forecast`: what expires in the next days if nothing changes."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton import as_text
from sexton.cli.input_options import LogInput
from sexton.cli.judged_input import judged_tables, replayed
from sexton.cli.options import DEFAULT_ROWS, Json, PolicyFile, RetentionMinutes, ShownRows
from sexton.cli.output import print_aside, print_json, print_line, print_table
from sexton.errors import UsageError
from sexton.report.meanings import sweep_block_text, until_text
from sexton.report.names import short, visible

if TYPE_CHECKING:
    from sexton.analysis.forecast_result import ForecastResult, OffsetForecast, RunTables
    from sexton.coordinator.api.abandonment import Abandonment

GROUP_COLUMNS = ("GROUP", "1-DAY", "7-DAYS", "30-DAYS", "WHOLE-GROUP", "FIRST-EXPIRES", "BY")
SUM_COLUMNS = ("WITHIN", "BY", "OFFSETS", "GROUPS", "WHOLE-GROUPS")
STEP_COLUMNS = ("WHEN", "STATE", "#MEMBERS")
OFFSET_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "EXPIRES", "GONE", "BY", "REASON", "CHANGES-BY")


def forecast(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Show this group, offset by offset.")] = None,
    *,
    limit: ShownRows = DEFAULT_ROWS,
    log: LogInput,
    retention_minutes: RetentionMinutes = None,
    policy: PolicyFile = None,
    json: Json = False,
) -> int:
    """Forecast which groups and offsets expire within 1, 7 and 30 days if nobody commits and no group changes.

    Without --segments, --archive and --run it reads the published tables. Expiry that waits for an event, such as a
    group losing its last member, is not included. With GROUP it also shows what would change the verdict of each
    offset, and what follows if the members never come back: their sessions end, the group is Empty, retention begins.

    # what expires in the next 1, 7 and 30 days, from the published tables
    sexton forecast

    # one group: when does each offset expire, and what would keep it?
    sexton forecast my-group --archive s3://keep/offsets

    # with a policy that is not in force yet, from a broker's disk
    sexton forecast --segments backup --policy policy.yaml

    # for scripts: groups that lose everything within a week
    sexton forecast --json | jq '.groups[] | select(.whole_within_days != null and .whole_within_days <= 7).group_id'
    """
    from sexton.analysis.forecast_result import FolderTables, forecast_folder, forecast_of

    log.check_replayable("forecast")
    if log.is_log:
        replay = replayed(log, "forecast", retention_minutes=retention_minutes, policy=policy, quiet=json)
        with replay as (folder, record):
            tables: RunTables = FolderTables(folder, record)
            _print(forecast_folder(folder, record), _group_of(tables, group), record.warnings, limit=limit, json=json)
            return record.exit_code
    if retention_minutes is not None or policy is not None:
        raise UsageError(
            "a run already has verdicts, by its own rules",
            where="--policy" if policy is not None else "--retention-minutes",
            fix="give --archive or --segments, or use `sexton what-if`",
        )
    tables = judged_tables(log)
    _print(forecast_of(tables), _group_of(tables, group), [], limit=limit, json=json)
    return 0


def _group_of(tables: "RunTables", group: str | None) -> dict[str, Any] | None:
    """The fields of the answer about one group; None if no group was named."""
    from sexton.analysis.forecast_result import abandonment_of, offsets_of

    if group is None:
        return None
    offsets, then = offsets_of(tables, group), abandonment_of(tables, group)
    return {"group_id": group, "offsets": offsets, "if_abandoned": then and _abandoned(offsets, then)}


def _abandoned(offsets: "list[OffsetForecast]", then: "Abandonment") -> dict[str, Any]:
    """What follows if the members never come back; no offset expires later than it would expire anyway."""
    due = []
    for one in offsets:
        is_sooner = one.expires_at_ms is not None and one.expires_at_ms < then.empty_at_ms
        due_ms = one.expires_at_ms if is_sooner else then.expires_at_ms.get((one.topic, one.partition))
        due.append({"topic": one.topic, "partition": one.partition, "expires_at_ms": due_ms})
    return {"empty_at_ms": then.empty_at_ms, "sweep_blocked": then.block, "steps": then.steps, "offsets": due}


def _print(
    found: "ForecastResult", group: dict[str, Any] | None, warnings: list[str], *, limit: int, json: bool
) -> None:
    if json:
        head = {name: getattr(found, name) for name in ("cluster_id", "as_of_ms", "retention_ms", "policy_sha256")}
        every = {"horizons": found.horizons(), "groups": found.groups()} if group is None else group
        print_json({"operation": "forecast", **head, "warnings": warnings, **every})
        return
    policy = "" if found.policy_sha256 is None else f", policy {found.policy_sha256[:12]}"
    print_line(
        f"as of {as_text.instant(found.as_of_ms)}, retention {as_text.duration(found.retention_ms)}{policy}: "
        "if nobody commits and no group changes"
    )
    print_line()
    if group is None:
        _print_groups(found, limit)
    else:
        _print_group(group)
    for text in warnings:
        print_aside(f"! {visible(text)}")


def _print_groups(found: "ForecastResult", limit: int) -> None:
    groups = found.groups()
    if not groups:
        print_line("nothing expires within 30 days")
        return
    horizons = found.horizons()
    sums = ((as_text.some(h.days, "day"), h.by, h.offsets, h.groups, h.whole_groups) for h in horizons)
    print_table(SUM_COLUMNS, sums)
    print_line()
    print_table(GROUP_COLUMNS, map(_group_row, groups), limit=limit)
    if any(horizon.by != "broker" for horizon in horizons):
        print_aside("BY a rule: expires only once a plan is applied; BY broker: expires automatically")
    print_aside("one group, offset by offset: sexton forecast GROUP; under other rules: sexton what-if")


def _group_row(group: dict[str, Any]) -> tuple[object, ...]:
    whole_days = group["whole_within_days"]
    return (
        short(group["group_id"]),
        *(group[f"within_{days}_days"] for days in (1, 7, 30)),
        None if whole_days is None else f"within {as_text.some(whole_days, 'day')}",
        as_text.instant(group["first_expires_at_ms"]),
        ", ".join(group["by"]),
    )


def _print_group(group: dict[str, Any]) -> None:
    if not group["offsets"]:
        print_line(f"{short(group['group_id'])}: it has no offsets")
    else:
        print_table(OFFSET_COLUMNS, map(_offset_row, group["offsets"]))
    if (then := group["if_abandoned"]) is not None:
        print_line()
        print_line("if its coordinator loads it now and its members never come back:")
        steps = ((as_text.instant(step.at_ms), step.state, step.member_count) for step in then["steps"])
        print_table(STEP_COLUMNS, steps)
        print_line()
        due = ((one["topic"], one["partition"], as_text.instant(one["expires_at_ms"])) for one in then["offsets"])
        print_table(("TOPIC", "PARTITION", "EXPIRES"), due)
        if then["sweep_blocked"] is not None:
            print_line()
            print_line(sweep_block_text(then["sweep_blocked"]))
    if group["offsets"]:
        what = "what changes the broker's verdict, or until when a hold keeps it"
        print_aside(f"CHANGES-BY: {what}; the history of the group: sexton explain GROUP")


def _offset_row(offset: "OffsetForecast") -> tuple[object, ...]:
    at, by = as_text.instant(offset.expires_at_ms), offset.changes_by
    if offset.kept_until_ms is not None:
        by = f"kept {until_text(offset.kept_until_ms)}"
    return offset.topic, offset.partition, offset.committed_offset, at, _gone(offset), offset.by, offset.reason, by


def _gone(offset: "OffsetForecast") -> str | None:
    """When the broker's sweep deletes the offset; to the second, as docs/plan.md explains."""
    if offset.gone_until_ms is None:
        return None
    at_ms = offset.gone_until_ms if offset.gone_ms is None else offset.gone_ms
    return f"{'by ' if offset.gone_ms is None else ''}{as_text.instant(round(at_ms / 1_000) * 1_000)}"
