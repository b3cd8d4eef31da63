"""`sexton forecast`: what expires in the next days if nothing changes."""

import json as jsonlib
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.audit import policy_from
from sexton.cli.input_options import UNDECODABLE, Archive, AsOf, Profile, RunDir, Segments, TopicsFile
from sexton.cli.input_options import tell_aside as aside
from sexton.cli.input_options import tell_line as line
from sexton.cli.input_options import tell_table as table
from sexton.cli.judged_input import Asked, published, replayed
from sexton.cli.options import ClusterId, Debug, Json, LoadBuffer
from sexton.cli.plan import PolicyFile, RetentionMinutes
from sexton.errors import UsageError
from sexton.report import figures
from sexton.report.meanings import sweep_block_text
from sexton.report.names import short, visible

if TYPE_CHECKING:
    from sexton.analysis.forecast_result import ForecastResult, OffsetForecast
    from sexton.coordinator.api.abandonment import Abandonment
    from sexton.runs.folder import RunFolder, RunRecord

EXAMPLES = """\
[b]Examples[/b]

[dim]# what goes in the next 1, 7 and 30 days, by the published tables of this deployment[/dim]
sexton forecast

[dim]# one group, offset by offset: when does each go, and what would keep it?[/dim]
sexton forecast my-group --archive s3://keep/offsets

[dim]# with a policy that is not in force yet, from a broker's disk[/dim]
sexton forecast --segments backup --policy policy.yaml

[dim]# for scripts: groups of which nothing is left in a week[/dim]
sexton forecast --json | jq '.groups[] | select(.whole_within_days != null and .whole_within_days <= 7).group_id'
"""
GROUP_COLUMNS = ("GROUP", "1-DAY", "7-DAYS", "30-DAYS", "WHOLE-GROUP", "FIRST-EXPIRES", "BY")
SUM_COLUMNS = ("WITHIN", "BY", "OFFSETS", "GROUPS", "WHOLE-GROUPS")
STEP_COLUMNS = ("WHEN", "STATE", "#MEMBERS")
OFFSET_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "EXPIRES", "BY", "REASON", "CHANGES-BY")
DEFAULT_ROWS = 50


def forecast(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Tell of this group, offset by offset.")
    ] = None,
    *,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Show up to N groups; 0: all. --json has all.")
    ] = DEFAULT_ROWS,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    cluster_id: ClusterId = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    retention_minutes: RetentionMinutes = None,
    policy: PolicyFile = None,
    profile: Profile = None,
    load_buffer_bytes: LoadBuffer = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Tell which groups and offsets expire within 1, 7 and 30 days if nobody commits and no group changes.

    Without --segments, --archive and --run the published tables are asked. What waits for an event, such as a group
    losing its last member, is not in it: ask for one group to see what would turn each of its offsets, and what follows
    if its members never come back: sessions end, the group is Empty, its retention begins.
    """
    asked = Asked(
        segments=segments,
        archive=archive,
        run=run,
        cluster_id=cluster_id,
        topics=topics,
        as_of=as_of,
        profile=profile,
        load_buffer_bytes=load_buffer_bytes,
        name="forecast",
    )
    asked.check()
    if not asked.is_log and (retention_minutes is not None or policy is not None):
        option = "--policy" if policy is not None else "--retention-minutes"
        raise UsageError(
            "a run was judged by its own rules",
            where=option,
            fix="give --archive or --segments, or ask `sexton what-if`",
        )
    rules = policy_from(policy)
    if asked.is_log:
        from sexton.analysis.forecast_result import forecast_folder

        with replayed(asked, retention_minutes=retention_minutes, policy=rules, quiet=json) as (folder, record):
            found = forecast_folder(folder, record)
            own = None if group is None else _of_folder(folder, record, group)
            _tell(found, own, record.warnings, limit=limit, json=json)
            return UNDECODABLE if record.counts["undecodable_records"] or record.endless else 0
    if run is not None:
        from sexton.analysis.forecast_result import forecast_of_folder
        from sexton.runs.folder import RunFolder

        folder, record = RunFolder(run), RunFolder(run).read_run()
        own = None if group is None else _of_folder(folder, record, group)
        _tell(forecast_of_folder(folder, record), own, [], limit=limit, json=json)
        return 0
    from sexton.analysis.forecast_result import abandonment_of_lake, forecast_of_lake, offsets_of_lake

    lake, newest = published(asked)
    found = forecast_of_lake(lake, newest)
    own = None
    if group is not None:
        offsets = offsets_of_lake(lake, newest, group)
        own = _Group(group_id=group, offsets=offsets, if_abandoned=abandonment_of_lake(lake, newest, group))
    _tell(found, own, [], limit=limit, json=json)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The one group that is asked about."""

    group_id: str
    offsets: "list[OffsetForecast]"
    if_abandoned: "Abandonment | None"

    def due_if_abandoned(self) -> "list[tuple[OffsetForecast, int | None]]":
        """When each offset is due if the members never come back; what is due before the group is Empty goes anyway."""
        assert self.if_abandoned is not None
        found = []
        for one in self.offsets:
            is_sooner = one.expires_at_ms is not None and one.expires_at_ms < self.if_abandoned.empty_at_ms
            due_ms = self.if_abandoned.expires_at_ms.get((one.topic, one.partition))
            found.append((one, one.expires_at_ms if is_sooner else due_ms))
        return found


def _of_folder(folder: "RunFolder", record: "RunRecord", group: str) -> _Group:
    from sexton.analysis.forecast_result import abandonment_of_folder, offsets_of_folder

    return _Group(
        group_id=group,
        offsets=offsets_of_folder(folder, record, group),
        if_abandoned=abandonment_of_folder(folder, record, group),
    )


def _tell(
    found: "ForecastResult",
    group: _Group | None,
    warnings: list[str],
    *,
    limit: int,
    json: bool,
) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(_fields(found, group, warnings), ensure_ascii=True, indent=2) + "\n")
        return
    policy = "" if found.policy_sha256 is None else f", policy {found.policy_sha256[:12]}"
    line(
        f"as of {figures.instant(found.as_of_ms)}, retention {figures.duration(found.retention_ms)}{policy}: "
        "if nobody commits and no group changes"
    )
    line("")
    if group is None:
        _print_groups(found, limit)
    else:
        _print_offsets(group)
    for text in warnings:
        aside(f"! {visible(text)}")


def _fields(found: "ForecastResult", group: _Group | None, warnings: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operation": "forecast",
        "cluster_id": found.cluster_id,
        "as_of_ms": found.as_of_ms,
        "retention_ms": found.retention_ms,
        "policy_sha256": found.policy_sha256,
        "warnings": warnings,
    }
    if group is not None:
        abandoned = None if group.if_abandoned is None else _abandoned_fields(group)
        offsets = [asdict(one) for one in group.offsets]
        return {**told, "group_id": group.group_id, "offsets": offsets, "if_abandoned": abandoned}
    return {**told, "horizons": [asdict(one) for one in found.horizons()], "groups": found.groups()}


def _abandoned_fields(group: _Group) -> dict[str, Any]:
    assert group.if_abandoned is not None
    return {
        "empty_at_ms": group.if_abandoned.empty_at_ms,
        "sweep_blocked": None if group.if_abandoned.block is None else asdict(group.if_abandoned.block),
        "steps": [asdict(step) for step in group.if_abandoned.steps],
        "offsets": [
            {"topic": one.topic, "partition": one.partition, "expires_at_ms": due_ms}
            for one, due_ms in group.due_if_abandoned()
        ],
    }


def _print_groups(found: "ForecastResult", limit: int) -> None:
    groups = found.groups()
    if not groups:
        line("nothing expires within 30 days")
        return
    table(SUM_COLUMNS, _sums(found))
    line("")
    shown = groups[: limit or None]
    table(
        GROUP_COLUMNS,
        (
            (
                short(own["group_id"]),
                own["within_1_days"],
                own["within_7_days"],
                own["within_30_days"],
                None if own["whole_within_days"] is None else f"within {_days(own['whole_within_days'])}",
                figures.instant(own["first_expires_at_ms"]),
                ", ".join(own["by"]),
            )
            for own in shown
        ),
    )
    if len(shown) < len(groups):
        aside(f"{figures.count(len(groups) - len(shown))} more (--limit 0 shows all)")
    if any(one.by != "broker" for one in found.horizons()):
        aside("what a rule takes needs a plan that is applied; the broker needs nobody")
    aside("one group, offset by offset: sexton forecast GROUP; under other rules: sexton what-if")


def _sums(found: "ForecastResult") -> Iterator[tuple[object, ...]]:
    for one in found.horizons():
        yield _days(one.days), one.by, one.offsets, one.groups, one.whole_groups


def _print_offsets(group: _Group) -> None:
    if not group.offsets:
        line(f"{short(group.group_id)}: it holds no offset")
    else:
        table(
            OFFSET_COLUMNS,
            (
                (
                    one.topic,
                    one.partition,
                    one.committed_offset,
                    _instant(one.expires_at_ms),
                    one.by,
                    one.reason,
                    one.changes_by,
                )
                for one in group.offsets
            ),
        )
    if group.if_abandoned is not None:
        line("")
        line("if its coordinator loads it now and no member ever comes back:")
        table(
            STEP_COLUMNS,
            ((_instant(step.at_ms), step.state, step.member_count) for step in group.if_abandoned.steps),
        )
        line("")
        table(
            ("TOPIC", "PARTITION", "EXPIRES"),
            ((one.topic, one.partition, _instant(due_ms)) for one, due_ms in group.due_if_abandoned()),
        )
        if group.if_abandoned.block is not None:
            line("")
            line(sweep_block_text(group.if_abandoned.block))
    if group.offsets:
        aside("CHANGES-BY: what turns the broker's verdict; what becomes of the group otherwise: sexton explain GROUP")


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else figures.instant(at_ms)


def _days(count: int) -> str:
    return figures.some(count, "day")
