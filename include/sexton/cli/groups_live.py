"""`sexton groups list --bootstrap-servers`: the groups that the brokers of a cluster list now."""

import json as jsonlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sexton.cli.input_options import tell_aside, tell_table
from sexton.cli.options import client_of

if TYPE_CHECKING:
    from collections.abc import Collection

COLUMNS = ("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR (ID)")
FAILED = 1


def list_live(
    bootstrap_servers: str | None,
    client_config_file: Path | None,
    *,
    states: "Collection[str]",
    types: "Collection[str]",
    json: bool,
) -> int:
    """Print what every broker lists; 1 where one failed, whose groups are then missing."""
    from sexton.kafka.group_state import list_groups
    from sexton.kafka.rights import sees_all_groups
    from sexton.kafka.session import ClusterSession

    with ClusterSession(client_of(bootstrap_servers, client_config_file)) as session:
        found = list_groups(session)
        sees_all = sees_all_groups(session)
    wanted_states, wanted_types = ({word.strip().lower() for word in words} for words in (states, types))
    groups = [
        group
        for group in found.groups
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not wanted_types or group.group_type.lower() in wanted_types)
    ]
    warnings = [f"broker {broker} failed, and its groups are missing: {why}" for broker, why in found.failed.items()]
    if not sees_all:
        warnings.append("this principal may not describe every group: those that it may not are missing")
    if json:
        answer = {
            "operation": "ListGroups",
            "groups": [asdict(group) for group in groups],
            "failed_brokers": [{"broker": broker, "error": why} for broker, why in found.failed.items()],
            "warnings": warnings,
        }
        sys.stdout.write(jsonlib.dumps(answer, ensure_ascii=True, indent=2) + "\n")
    else:
        tell_table(
            COLUMNS,
            (
                (one.group_id, one.group_type or None, one.state or None, one.protocol_type or None, one.coordinator)
                for one in groups
            ),
        )
        for warning in warnings:
            tell_aside(f"! {warning}")
    return FAILED if found.failed else 0
