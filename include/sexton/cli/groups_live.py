"""`sexton groups list --bootstrap-servers`: the groups that the brokers of a cluster list now."""

from typing import TYPE_CHECKING

from sexton.cli.options import ClusterInput
from sexton.cli.output import print_doubts, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Collection

COLUMNS = ("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR (ID)")
FAILED = 1


def list_live(cluster: ClusterInput, *, states: "Collection[str]", types: "Collection[str]", json: bool) -> int:
    """Print the groups that the brokers list; returns 1 if a broker failed: its groups are missing."""
    from sexton.coordinator.api.listing import wanted
    from sexton.kafka.group_state import list_groups
    from sexton.kafka.rights import sees_all_groups
    from sexton.kafka.session import ClusterSession

    with ClusterSession(cluster.client()) as session:
        found = list_groups(session)
        sees_all = sees_all_groups(session)
    is_wanted = wanted(states, types)
    groups = [group for group in found.groups if is_wanted(group.state, group.group_type)]
    warnings = [f"broker {broker} failed, and its groups are missing: {why}" for broker, why in found.failed.items()]
    if not sees_all:
        warnings.append("this principal may not describe every group: the others are missing")
    if json:
        failed = [{"broker": broker, "error": why} for broker, why in found.failed.items()]
        print_json({"operation": "ListGroups", "groups": groups, "failed_brokers": failed, "warnings": warnings})
    else:
        rows = (
            (one.group_id, one.group_type or None, one.state or None, one.protocol_type or None, one.coordinator)
            for one in groups
        )
        print_table(COLUMNS, rows)
        print_doubts(warnings)
    return FAILED if found.failed else 0
