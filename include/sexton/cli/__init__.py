"""The command line. Its exit codes are in `codes`.

One module a command; each imports what it needs when it runs, so that --help answers at once. An error is one line on
stderr, `error: <place>: <what> (<fix>)`; --debug adds the traceback.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from sexton import __version__
from sexton.cli import (
    apply,
    archive,
    audit,
    broker,
    diff,
    doctor,
    explain,
    fetch,
    forecast,
    groups,
    plan,
    policy,
    restore,
    show,
    snapshot,
    what_if,
)
from sexton.cli.exit_codes import CODES, INTERRUPTED, ORDER
from sexton.cli.options import Debug, State
from sexton.errors import SextonError
from sexton.report.names import harmless
from sexton.uris import without_login

ABOUT = """\
Replays Kafka's [b]__consumer_offsets[/b] exactly as the group coordinator does, says which offsets and groups
have expired and why, and plans their tombstones. Only [b]apply[/b] and [b]restore[/b] change a cluster, and only
when they are told to.
"""
EPILOG = f"""\
[b]Start here[/b]

[dim]# is this machine fit?[/dim]
sexton doctor

[dim]# what would a broker delete from these segments, and why?[/dim]
sexton audit --segments /var/kafka-logs --out run

[b]Exit codes[/b]
{", ".join(f"{code} {short}" for code, (short, _) in CODES.items())}.
Of several the first of {" ".join(map(str, ORDER))}.
"""

app = typer.Typer(
    name="sexton",
    help=ABOUT,
    epilog=EPILOG,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("audit", epilog=audit.EXAMPLES)(audit.audit)
app.command("snapshot", epilog=snapshot.EXAMPLES)(snapshot.snapshot)
app.command("fetch", epilog=fetch.EXAMPLES)(fetch.fetch)
app.add_typer(groups.app, name="groups")
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("diff", epilog=diff.EXAMPLES)(diff.diff)
app.command("forecast", epilog=forecast.EXAMPLES)(forecast.forecast)
app.command("what-if", epilog=what_if.EXAMPLES)(what_if.what_if)
app.command("plan", epilog=plan.EXAMPLES)(plan.plan)
app.command("apply", epilog=apply.EXAMPLES)(apply.apply)
app.command("restore", epilog=restore.EXAMPLES)(restore.restore)
app.add_typer(policy.app, name="policy")
app.add_typer(show.app, name="show")
app.add_typer(archive.app, name="archive")
app.add_typer(broker.app, name="broker")
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)


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
    """Run one command and return its exit code; every failure is told in one line on stderr."""
    state = State()
    try:
        code = app(args=argv, prog_name="sexton", standalone_mode=False, obj=state)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`): give Python nothing to complain about when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        code, line = _told(error)
        if state.debug:
            sys.stderr.write(without_login(traceback.format_exc()))
        _say(f"error: {line}")
        return code
    if code == INTERRUPTED:
        _say("interrupted")
    return int(code or 0)


def _told(error: Exception) -> tuple[int, str]:
    """The exit code and the line of an error."""
    if isinstance(error, SextonError):
        return error.exit_code, str(error)
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "sexton"
        return getattr(error, "exit_code", 2), f"{_usage_line(error)} (see `{command} --help`)"
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return 1, f"{place}{error.strerror}"
    first = next(iter(str(error).strip().splitlines()), "")
    return 1, f"{type(error).__name__}: {first} (--debug shows where)"


def _usage_line(error: TyperException) -> str:
    told = getattr(error, "format_message", None)
    return str(told() if told else error).rstrip(".")


def _say(line: str) -> None:
    sys.stderr.write(harmless(without_login(" ".join(line.split()))) + "\n")
