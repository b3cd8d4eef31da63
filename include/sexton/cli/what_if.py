"""`sexton what-if`: who would lose what under another retention or policy."""

import json as jsonlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.audit import check_retention, policy_from
from sexton.cli.input_options import (
    UNDECODABLE,
    Archive,
    AsOf,
    Profile,
    RunDir,
    Segments,
    TopicsFile,
    tell_aside,
    tell_line,
    tell_table,
)
from sexton.cli.judged_input import Asked, published, replayed
from sexton.cli.options import ClusterId, Debug, Json, LoadBuffer
from sexton.cli.plan import PolicyFile, scratch
from sexton.errors import UsageError
from sexton.report import figures
from sexton.report.names import short, visible

if TYPE_CHECKING:
    from sexton.analysis.what_if import RetentionRules, WhatIf
    from sexton.policy import Policy
    from sexton.runs.folder import RunFolder, RunRecord

EXAMPLES = """\
[b]Examples[/b]

[dim]# who would lose something if offsets were kept for one day?[/dim]
sexton what-if --retention-minutes 1440 --archive s3://keep/offsets

[dim]# and if that had been so last Friday?[/dim]
sexton what-if --retention-minutes 1440 --archive s3://keep/offsets --as-of 2026-11-20T18:00:00Z

[dim]# what would this change of the policy do, group by group?[/dim]
sexton what-if --policy new.yaml --against-policy policy.yaml --archive s3://keep/offsets

[dim]# every offset, from the published tables[/dim]
sexton what-if --retention-minutes 1440 --json | jq '.offsets[] | select(.proposed and (.in_force | not))'
"""
GROUP_COLUMNS = ("GROUP", "STATE", "NEWLY-LOST", "SPARED", "LOST-IN-ALL", "OF", "WHOLE-GROUP", "BY")
OFFSET_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "COMMITTED", "IN-FORCE", "WHAT-IF", "BY")
DEFAULT_ROWS = 50
MINUTE_MS = 60_000
_RULES, _AGAINST = "RetentionRules to try", "Held against"


def what_if(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Tell of this group, offset by offset.")
    ] = None,
    *,
    retention_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, rich_help_panel=_RULES, help="offsets.retention.minutes. Default: as in force."
        ),
    ] = None,
    policy: PolicyFile = None,
    against_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=_AGAINST,
            help="The retention in force. Default: the recorded broker's, else Kafka's: 10080 (1440 before 2.0).",
        ),
    ] = None,
    against_policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_AGAINST, help="The policy in force. Default: none."),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Show up to N groups; 0: all. --json has all.")
    ] = DEFAULT_ROWS,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    cluster_id: ClusterId = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    load_buffer_bytes: LoadBuffer = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Tell what other rules would delete that those in force do not, and what they would spare, at any instant.

    Nothing is changed and nothing planned. Without --segments, --archive and --run the published tables are asked.
    What a policy takes goes once its plan is applied, what the broker takes goes by itself.
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
        name="what-if",
    )
    asked.check()
    if retention_minutes is None and policy is None and against_policy is None:
        raise UsageError("nothing to try", fix="give --retention-minutes N, --policy FILE, or both")
    for option, minutes in (("--retention-minutes", retention_minutes), ("--against-minutes", against_minutes)):
        check_retention(minutes, option)
    tried, known = policy_from(policy), policy_from(against_policy)

    def told(folder: "RunFolder", record: "RunRecord") -> int:
        from sexton.analysis.what_if import what_if as compare

        in_force, proposed = _sides(record, retention_minutes, tried, against_minutes, known)
        found = compare(folder, record, in_force=in_force, proposed=proposed, group_id=group)
        _tell(found, record, group, limit=limit, json=json)
        return UNDECODABLE if record.counts.get("undecodable_records") or record.endless else 0

    if asked.is_log:
        with replayed(asked, retention_minutes=None, policy=None, quiet=json) as state:
            return told(*state)
    from sexton.runs.folder import RunFolder

    if run is not None:
        return told(RunFolder(run), RunFolder(run).read_run())
    from sexton.analysis.what_if import published_folder

    with scratch() as place:
        return told(*published_folder(*published(asked), place))


def _sides(
    record: "RunRecord",
    retention_minutes: int | None,
    policy: "Policy | None",
    against_minutes: int | None,
    against_policy: "Policy | None",
) -> "tuple[RetentionRules, RetentionRules]":
    from sexton.analysis.what_if import RetentionRules

    in_force = RetentionRules(
        retention_ms=record.retention_ms if against_minutes is None else against_minutes * MINUTE_MS,
        policy=against_policy,
        told_by=record.retention_source if against_minutes is None else "asked for",
    )
    proposed = RetentionRules(
        retention_ms=in_force.retention_ms if retention_minutes is None else retention_minutes * MINUTE_MS,
        policy=policy,
        told_by=in_force.told_by if retention_minutes is None else "asked for",
    )
    return in_force, proposed


def _tell(found: "WhatIf", record: "RunRecord", group: str | None, *, limit: int, json: bool) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(_fields(found, record), ensure_ascii=True, indent=2) + "\n")
        return
    counts = found.counts()
    tell_line(f"as of     {figures.instant(record.as_of_ms)}")
    tell_line(f"in force  {_words(found.in_force)}: {figures.some(counts['offsets_lost_in_force'], 'offset')} would go")
    tell_line(f"what if   {_words(found.proposed)}: {figures.some(counts['offsets_lost_proposed'], 'offset')} would go")
    tell_line(
        f"          {figures.count(counts['offsets_newly_lost'])} that stay by the rules in force, "
        f"{figures.count(counts['offsets_spared'])} that these go by are spared; "
        f"{figures.some(counts['whole_groups_proposed'], 'whole group')} instead of "
        f"{figures.count(counts['whole_groups_in_force'])}"
    )
    tell_line("")
    if group is not None:
        _print_offsets(found, group)
    else:
        _print_groups(found, limit)
    for text in record.warnings:
        tell_aside(f"! {visible(text)}")


def _words(rules: "RetentionRules") -> str:
    policy = "no policy" if rules.policy is None else f"policy {rules.policy.sha256[:12]}"
    return f"retention {figures.duration(rules.retention_ms)} ({rules.told_by}), {policy}"


def _fields(found: "WhatIf", record: "RunRecord") -> dict[str, Any]:
    def rules(side: "RetentionRules") -> dict[str, Any]:
        return {
            "retention_ms": side.retention_ms,
            "retention_source": side.told_by,
            "policy_sha256": None if side.policy is None else side.policy.sha256,
        }

    return {
        "operation": "what-if",
        "cluster_id": record.cluster_id,
        "as_of_ms": record.as_of_ms,
        "in_force": rules(found.in_force),
        "proposed": rules(found.proposed),
        "counts": found.counts(),
        "groups": [asdict(one) for one in found.groups],
        "offsets": [asdict(one) for one in found.offsets],
        "warnings": record.warnings,
    }


def _print_groups(found: "WhatIf", limit: int) -> None:
    differing = [one for one in found.groups if one.differs]
    if not differing:
        tell_line("no group would fare otherwise")
        return
    differing.sort(key=lambda one: (-one.newly_lost, -one.spared, one.group_id))
    shown = differing[: limit or None]
    tell_table(
        GROUP_COLUMNS,
        (
            (
                short(one.group_id),
                one.state,
                one.newly_lost,
                one.spared,
                one.lost_proposed,
                one.offset_count,
                _whole(one.whole_in_force, one.whole_proposed),
                ", ".join(one.by),
            )
            for one in shown
        ),
    )
    if len(shown) < len(differing):
        tell_aside(f"{figures.count(len(differing) - len(shown))} more (--limit 0 shows all)")
    tell_aside("one group, offset by offset: sexton what-if GROUP ...; as a plan: sexton plan --policy FILE")


def _whole(in_force: bool, proposed: bool) -> str:
    if in_force == proposed:
        return "yes, as before" if proposed else "no"
    return "yes" if proposed else "spared"


def _print_offsets(found: "WhatIf", group: str) -> None:
    if not found.offsets:
        tell_line(f"{short(group)}: neither takes anything of it")
        return
    tell_table(
        OFFSET_COLUMNS,
        (
            (
                one.topic,
                one.partition,
                one.committed_offset,
                figures.instant(one.commit_timestamp_ms),
                "goes" if one.in_force else "stays",
                "goes" if one.proposed else "stays",
                one.by,
            )
            for one in found.offsets
        ),
    )
