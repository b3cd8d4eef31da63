"""The command line: the commands, each in the module with its name, and how errors become exit codes (exit_codes.py).

The commands below `groups` are in groups.py and the modules groups_*.py. A command imports what it
needs when it runs, so that --help is fast. An error is one line on stderr, `error: <where>: <what> (<fix>)`, and with
--json a line of JSON: `error`, `where`, `fix`, `exit_code`. --debug adds the traceback.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextvars import copy_context
from typing import Annotated

import typer
from typer.exceptions import TyperException

from sexton import __version__
from sexton.cli import (
    apply,
    archive,
    audit,
    demo,
    diff,
    doctor,
    explain,
    fetch,
    forecast,
    groups,
    groups_coordinator,
    groups_dry_run,
    groups_sweep,
    history,
    incident,
    keep,
    lag,
    mcp,
    plan,
    policy,
    rehearse,
    replicas,
    replicas_live,
    restore,
    show,
    snapshot,
    transactions,
    what_if,
)
from sexton.cli.command import CommandState, Debug, command
from sexton.cli.exit_codes import CODES, INTERRUPTED, ORDER
from sexton.errors import SextonError, UsageError, printable_traceback
from sexton.report.names import harmless

ABOUT = """\
Replays Kafka's [b]__consumer_offsets[/b] exactly as the group coordinator does, shows which offsets and groups have
expired and why, and plans their tombstones. Only [b]apply[/b], [b]restore[/b] and [b]keep[/b] change a cluster, and
only with an option that says so.
"""
EPILOG = f"""\
[b]Start here[/b]

[dim]# an answer in seconds, from a recording of a real broker[/dim]
sexton demo

[dim]# can this machine run it?[/dim]
sexton doctor

[dim]# what would a broker delete from these segments, and why?[/dim]
sexton audit --segments /var/kafka-logs --out run

[b]Exit codes[/b]
{", ".join(f"{code} {short}" for code, (short, _) in CODES.items())}.
If several apply, the first of {" ".join(map(str, ORDER))}.
"""

app = typer.Typer(
    name="sexton",
    help=ABOUT,
    epilog=EPILOG,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _module in (
    *(audit, snapshot, fetch, explain, diff, forecast, what_if, rehearse, plan, apply, restore, keep),
    *(incident, transactions, lag, mcp, demo, doctor),
):
    command(app)(getattr(_module, _module.__name__.rpartition(".")[2]))
for _module in (groups, replicas, history, policy, show, archive):
    app.add_typer(_module.app, name=_module.__name__.rpartition(".")[2])
for _function in (
    *(groups_coordinator.coordinator, groups_coordinator.unload, groups_dry_run.check_commit),
    *(groups_dry_run.check_join, groups_dry_run.metadata_record, groups_sweep.check_sweep),
):
    command(groups.app)(_function)
for _comparison in (replicas_live.probe, replicas_live.copy, replicas.diff):
    command(replicas.app)(_comparison)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sexton {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    _debug: Debug = False,
) -> int:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a failure is one line on stderr."""
    state, is_json = CommandState(), "--json" in (sys.argv[1:] if argv is None else argv)
    try:
        # In a context of its own: what the options set ends with the command.
        code = copy_context().run(app, args=argv, prog_name="sexton", standalone_mode=False, obj=state)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`| head`): Python must not fail when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if state.debug:
            sys.stderr.write(printable_traceback())
        known = described(error)
        _print_error(known, known.exit_code, is_json=is_json)
        return known.exit_code
    if code == INTERRUPTED:
        _print_error(SextonError("interrupted"), code, is_json=is_json)
    return int(code or 0)


def described(error: Exception) -> SextonError:
    """Any error as a SextonError, with its exit code."""
    if isinstance(error, SextonError):
        return error
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "sexton"
        return UsageError(error.format_message().rstrip("."), fix=f"see `{command} --help`")
    if isinstance(error, OSError) and error.strerror:
        return SextonError(error.strerror, where=error.filename)
    first = next(iter(str(error).strip().splitlines()), "")
    return SextonError(f"{type(error).__name__}: {first}", fix="--debug shows where")


def _print_error(error: SextonError, code: int, *, is_json: bool) -> None:
    if is_json:
        fields = {"error": error.message, "where": error.where, "fix": error.fix, "exit_code": code}
        sys.stderr.write(json.dumps(fields) + "\n")
    else:
        sys.stderr.write(harmless("interrupted" if code == INTERRUPTED else f"error: {error}") + "\n")
