"""`sexton doctor`: check whether this machine can run Sexton."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from sexton.cli.options import ClusterInput, Json, PolicyFile, flag, read_policy_file
from sexton.cli.output import console, print_json
from sexton.cli.progress import working
from sexton.report.names import harmless

_MARKS = {"ok": ("ok", "green"), "warning": ("look", "yellow"), "problem": ("fix", "red")}


def doctor(
    *,
    cluster: ClusterInput,
    policy: PolicyFile = None,
    failpoints: bool = flag("--failpoints", "List the places where tests kill a process, and check nothing."),
    json: Json = False,
) -> int:
    """Check Python, Java, Spark, jars, caches, disk and ports, and show how to fix what is wrong.

    With a cluster, also check that it answers. With a cluster and a policy whose holds say `keep` (default: the policy
    of the settings), also check that the principal has the ACLs that `sexton keep` needs. Exit code 0 if nothing has to
    be fixed, else 2.

    # this machine
    sexton doctor

    # this machine, and whether a cluster can be reached
    sexton doctor --bootstrap-servers kafka-1:9092

    # may this login keep what the policy holds?
    sexton doctor --client-config keeper.properties --policy policy.yaml
    """
    if failpoints:
        return _list_failpoints(json)

    from sexton.doctor import examine
    from sexton.settings import settings

    client = cluster.client() if cluster.is_given else None
    path = policy or (Path(configured) if client and (configured := settings().policy) else None)
    rules = read_policy_file(path)
    with working("Checking", is_quiet=json):
        checks = list(examine(settings(), client=client, policy=rules))
    fit = not any(check.state == "problem" for check in checks)
    if json:
        print_json({"fit": fit, "checks": checks})
        return 0 if fit else 2
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for column in ("state", "check", "found"):
        table.add_column(column, overflow="fold")
    for check in checks:
        mark, style = _MARKS[check.state]
        table.add_row(Text(mark, style=style), Text(check.name), Text(harmless(check.found)))
        if check.fix:
            table.add_row("", "", Text(harmless(f"-> {check.fix}"), style=style))
    console().print(table)
    problems = sum(check.state == "problem" for check in checks)
    console().print(Text("This machine is fit." if fit else f"{problems} to fix.", style="bold"))
    return 0 if fit else 2


def _list_failpoints(json: bool) -> int:
    from sexton.failpoints import FAILPOINTS

    if json:
        print_json(dict(FAILPOINTS))
        return 0
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, what in FAILPOINTS.items():
        table.add_row(name, what)
    console().print(table)
    return 0
