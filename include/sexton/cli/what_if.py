"""`sexton what-if`: who would lose what with another retention or policy."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton import as_text
from sexton.cli.input_options import LogInput
from sexton.cli.judged_input import published, replayed
from sexton.cli.options import (
    DEFAULT_ROWS,
    Json,
    PolicyFile,
    ShownRows,
    Tree,
    check_retention,
    option,
    read_policy_file,
)
from sexton.cli.output import print_aside, print_json, print_line, print_table
from sexton.errors import UsageError
from sexton.report.names import short, visible

if TYPE_CHECKING:
    from sexton.analysis.what_if import ComparedGroup, ComparedOffset, RetentionRules, WhatIf
    from sexton.runs.folder import RunFolder, RunRecord

GROUP_COLUMNS = ("GROUP", "STATE", "NEWLY-LOST", "SPARED", "LOST-IN-ALL", "OF", "WHOLE-GROUP", "BY")
OFFSET_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "COMMITTED", "IN-FORCE", "WHAT-IF", "BY")
_RULES, _AGAINST = "Rules to compare", "Rules in force"
_WHOLE = {(True, True): "yes, as before", (False, True): "yes", (True, False): "spared", (False, False): "no"}
"""(lost as a whole by the rules in force, lost as a whole by the proposed rules) -> text of the cell."""


def what_if(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Show this group, offset by offset.")] = None,
    *,
    retention_minutes: int | None = option(
        "--retention-minutes N", "offsets.retention.minutes. Default: as in force.", _RULES, min=1
    ),
    policy: PolicyFile = None,
    against_minutes: int | None = option(
        "--against-minutes N",
        "The retention in force. Default: the recorded broker's, else Kafka's: 10080 (1440 before 2.0).",
        _AGAINST,
        min=1,
    ),
    against_policy: Path | None = option("--against-policy FILE", "The policy in force. Default: none.", _AGAINST),
    tree: Tree = False,
    limit: ShownRows = DEFAULT_ROWS,
    log: LogInput,
    json: Json = False,
) -> int:
    """Compare other rules with the rules in force at an instant: what they would delete, and what they would spare.

    Changes nothing and plans nothing. Without --segments, --archive and --run it reads the published tables. Offsets
    that a policy expires are deleted when a plan is applied; the broker deletes its expired offsets automatically.

    # who would lose offsets if offsets were kept for one day?
    sexton what-if --retention-minutes 1440 --archive s3://keep/offsets

    # and with that retention last Friday?
    sexton what-if --retention-minutes 1440 --archive s3://keep/offsets --as-of 2026-11-20T18:00:00Z

    # what would this change of the policy do, group by group?
    sexton what-if --policy new.yaml --against-policy policy.yaml --archive s3://keep/offsets

    # by owner, and by the rules of each
    sexton what-if --policy new.yaml --against-policy policy.yaml --archive s3://keep/offsets --tree

    # every offset, from the published tables
    sexton what-if --retention-minutes 1440 --json | jq '.offsets[] | select(.proposed and (.in_force | not))'
    """
    log.check_replayable("what-if")
    if retention_minutes is None and policy is None and against_policy is None:
        raise UsageError("no rules to compare", fix="give --retention-minutes N, --policy FILE, or both")
    for name, minutes in (("--retention-minutes", retention_minutes), ("--against-minutes", against_minutes)):
        check_retention(minutes, name)
    tried, known = read_policy_file(policy), read_policy_file(against_policy)

    def compared(folder: "RunFolder", record: "RunRecord") -> int:
        from sexton.analysis.what_if import RetentionRules
        from sexton.analysis.what_if import what_if as compare

        recorded = RetentionRules(retention_ms=record.retention_ms, policy=None, source=record.retention_source)
        in_force = recorded.asked(against_minutes, known)
        proposed = in_force.asked(retention_minutes, tried)
        found = compare(folder, record, in_force=in_force, proposed=proposed, group_id=group)
        _print(found, record, group, tree=tree, limit=limit, json=json)
        return record.exit_code

    if log.is_log:
        with replayed(log, "what-if", quiet=json) as state:
            return compared(*state)
    from sexton.runs.folder import RunFolder

    if log.run is not None:
        return compared(RunFolder(log.run), RunFolder(log.run).read_run())
    from sexton.analysis.what_if import published_folder

    with tempfile.TemporaryDirectory(prefix="sexton-") as place:
        return compared(*published_folder(*published(log), Path(place)))


def _print(found: "WhatIf", record: "RunRecord", group: str | None, *, tree: bool, limit: int, json: bool) -> None:
    if json:
        print_json(_fields(found, record))
        return
    counts = found.counts()
    print_line(f"as of     {as_text.instant(record.as_of_ms)}")
    for label, rules, name in (("in force", found.in_force, "in_force"), ("what if ", found.proposed, "proposed")):
        expiring = as_text.some(counts[f"offsets_lost_{name}"], "offset")
        print_line(f"{label}  {_words(rules)}: {expiring} would expire")
    print_line(
        f"          {as_text.count(counts['offsets_newly_lost'])} offsets newly lost, "
        f"{as_text.count(counts['offsets_spared'])} spared; "
        f"{as_text.some(counts['whole_groups_proposed'], 'whole group')} instead of "
        f"{as_text.count(counts['whole_groups_in_force'])}"
    )
    print_line()
    if tree:
        from sexton.report.tree import what_if_tree

        for line in what_if_tree(found.rules()):
            print_line(line)
    elif group is None and (differing := found.differing()):
        print_table(GROUP_COLUMNS, map(_group_row, differing), limit=limit)
        print_aside("one group, offset by offset: sexton what-if GROUP ...; as a plan: sexton plan --policy FILE")
    elif group is None:
        print_line("no differences")
    elif found.offsets:
        print_table(OFFSET_COLUMNS, map(_offset_row, found.offsets))
    else:
        print_line(f"{short(group)}: neither set of rules expires any of its offsets")
    for text in record.warnings:
        print_aside(f"! {visible(text)}")


def _words(rules: "RetentionRules") -> str:
    policy = "no policy" if rules.policy is None else f"policy {rules.policy.sha256[:12]}"
    return f"retention {as_text.duration(rules.retention_ms)} ({rules.source}), {policy}"


def _fields(found: "WhatIf", record: "RunRecord") -> dict[str, Any]:
    def rules(side: "RetentionRules") -> dict[str, Any]:
        return {
            "retention_ms": side.retention_ms,
            "retention_source": side.source,
            "policy_sha256": None if side.policy is None else side.policy.sha256,
        }

    return {
        "operation": "what-if",
        "cluster_id": record.cluster_id,
        "as_of_ms": record.as_of_ms,
        "in_force": rules(found.in_force),
        "proposed": rules(found.proposed),
        "counts": found.counts(),
        "rules": found.rules(),
        "groups": found.groups,
        "offsets": found.offsets,
        "warnings": record.warnings,
    }


def _group_row(group: "ComparedGroup") -> tuple[object, ...]:
    whole = _WHOLE[group.whole_in_force, group.whole_proposed]
    lost = group.newly_lost, group.spared, group.lost_proposed, group.offset_count
    return short(group.group_id), group.state, *lost, whole, ", ".join(group.by)


def _offset_row(one: "ComparedOffset") -> tuple[object, ...]:
    fate = ("expires" if expires else "stays" for expires in (one.in_force, one.proposed))
    committed = as_text.instant(one.commit_timestamp_ms)
    return one.topic, one.partition, one.committed_offset, committed, *fate, one.by
