"""`sexton forecast`: what expires in the next days if nothing changes."""

import json as jsonlib
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.asking import UNDECODABLE, Archive, AsOf, Profile, RunDir, Segments, TopicsFile
from sexton.cli.asking import tell_aside as aside
from sexton.cli.asking import tell_line as line
from sexton.cli.asking import tell_table as table
from sexton.cli.audit import policy_from
from sexton.cli.options import ClusterId, Debug, Json
from sexton.cli.plan import PolicyFile, RetentionMinutes
from sexton.cli.state import Asked, published, replayed
from sexton.errors import UsageError
from sexton.report import figures
from sexton.report.names import short, visible

if TYPE_CHECKING:
    from sexton.stages.outlook import OffsetOutlook, Outlook

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
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Tell which groups and offsets expire within 1, 7 and 30 days if nobody commits and no group changes.

    Without --segments, --archive and --run the published tables are asked. What waits for an event, such as a group
    losing its last member, is not in it: ask for one group to see what would turn each of its offsets.
    """
    asked = Asked(
        segments=segments,
        archive=archive,
        run=run,
        cluster_id=cluster_id,
        topics=topics,
        as_of=as_of,
        profile=profile,
        name="forecast",
    )
    asked.check()
    if not asked.is_log and (retention_minutes is not None or policy is not None):
        option = "--policy" if policy is not None else "--retention-minutes"
        raise UsageError(
            "a run was judged by its own rules",
            place=option,
            fix="give --archive or --segments, or ask `sexton what-if`",
        )
    rules = policy_from(policy)
    if asked.is_log:
        from sexton.stages.outlook import forecast_folder, offsets_of_folder

        with replayed(asked, retention_minutes=retention_minutes, policy=rules, quiet=json) as (folder, record):
            found = forecast_folder(folder, record)
            offsets = None if group is None else offsets_of_folder(folder, record, group)
            _tell(found, group, offsets, record.warnings, limit=limit, json=json)
            return UNDECODABLE if record.counts["undecodable_records"] else 0
    if run is not None:
        from sexton.stages.outlook import offsets_of_folder, outlook_of_folder
        from sexton.stages.run import RunFolder

        own, told = RunFolder(run), RunFolder(run).read_run()
        found = outlook_of_folder(own, told)
        _tell(found, group, None if group is None else offsets_of_folder(own, told, group), [], limit=limit, json=json)
        return 0
    from sexton.stages.outlook import offsets_of_lake, outlook_of_lake

    lake, newest = published(asked)
    found = outlook_of_lake(lake, newest)
    _tell(found, group, None if group is None else offsets_of_lake(lake, newest, group), [], limit=limit, json=json)
    return 0


def _tell(
    found: "Outlook",
    group: str | None,
    offsets: "list[OffsetOutlook] | None",
    warnings: list[str],
    *,
    limit: int,
    json: bool,
) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(_fields(found, group, offsets, warnings), ensure_ascii=True, indent=2) + "\n")
        return
    policy = "" if found.policy_sha256 is None else f", policy {found.policy_sha256[:12]}"
    line(
        f"as of {figures.instant(found.as_of_ms)}, retention {figures.duration(found.retention_ms)}{policy}: "
        "if nobody commits and no group changes"
    )
    line("")
    if offsets is not None:
        _print_offsets(str(group), offsets)
    else:
        _print_groups(found, limit)
    for text in warnings:
        aside(f"! {visible(text)}")


def _fields(
    found: "Outlook", group: str | None, offsets: "list[OffsetOutlook] | None", warnings: list[str]
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operation": "forecast",
        "cluster_id": found.cluster_id,
        "as_of_ms": found.as_of_ms,
        "retention_ms": found.retention_ms,
        "policy_sha256": found.policy_sha256,
        "warnings": warnings,
    }
    if offsets is not None:
        return {**told, "group_id": group, "offsets": [asdict(one) for one in offsets]}
    return {**told, "horizons": [asdict(one) for one in found.horizons()], "groups": found.groups()}


def _print_groups(found: "Outlook", limit: int) -> None:
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


def _sums(found: "Outlook") -> Iterator[tuple[object, ...]]:
    for one in found.horizons():
        yield _days(one.days), one.by, one.offsets, one.groups, one.whole_groups


def _print_offsets(group: str, offsets: "list[OffsetOutlook]") -> None:
    if not offsets:
        line(f"{short(group)}: it holds no offset")
        return
    table(
        OFFSET_COLUMNS,
        (
            (
                one.topic,
                one.partition,
                one.committed_offset,
                None if one.expires_at_ms is None else figures.instant(one.expires_at_ms),
                one.by,
                one.reason,
                one.changes_by,
            )
            for one in offsets
        ),
    )
    aside("CHANGES-BY: what turns the broker's verdict; what becomes of the group otherwise: sexton explain GROUP")


def _days(count: int) -> str:
    return figures.some(count, "day")
