"""Turns functions into commands: objects of options become options, every command gets --debug, and one that answers
in JSON also --json-schema and --progress-json.

An option that is given twice is refused, unless it takes several values: only the last value would count. A number
that is not written in ASCII digits is refused, too.

Typer has no parameter objects. Here a parameter whose type is a dataclass stands for all its fields, so that options of
several commands are declared once. A parameter or a field declares its option as its default (`options.option`).
"""

import dataclasses
import functools
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from sexton.cli.options import OPTION
from sexton.errors import UsageError
from sexton.numbers import whole_number
from sexton.runs.progress import AS_JSON

Function = Callable[..., int]
_HEADING, _EXAMPLES = "[b]Examples[/b]\n", "\n# "
"""How the examples begin in the docstring of a command: each is a comment and what to type."""


@dataclasses.dataclass(slots=True)
class CommandState:
    """What `main` has to know about the running command."""

    debug: bool = False


class Without(frozenset[str]):
    """The fields of an object of options that a command does not have: `Annotated[LogInput, Without({"run"})]`."""


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            values, _, order = self.make_parser(ctx).parse_args(args=[*args])
            given: list[Any] = [*order]
            for parameter, times in Counter(given).items():
                has_values = parameter.param_type_name == "option" and not parameter.multiple
                if times > 1 and has_values and (not parameter.is_flag or parameter.secondary_opts):
                    raise UsageError(f"given {times} times", where=parameter.opts[0], fix="give it once")
            for parameter in self.get_params(ctx):
                kind, text = getattr(parameter, "type_descriptor", None), values.get(parameter.name)
                if kind is not None and kind.annotation is int and isinstance(text, str):
                    _check_number(text, parameter.opts[0])
        return super().parse_args(ctx, args)


def _check_number(text: str, option: str) -> None:
    try:
        whole_number(text)
    except ValueError as error:
        raise UsageError(str(error), where=option, fix="digits alone") from None


def _remember_debug(context: typer.Context, wanted: bool) -> bool:
    if wanted and isinstance(context.obj, CommandState):
        context.obj.debug = True
    return wanted


Debug = Annotated[
    bool, typer.Option("--debug", callback=_remember_debug, is_eager=True, help="Show the traceback of an error.")
]


def _show_schema(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from sexton.cli.json_schema import schema_of

        typer.echo(json.dumps(schema_of(context.command_path.partition(" ")[2]), indent=2))
        raise typer.Exit


def _report_as_json(wanted: bool) -> None:
    """Report progress as JSON, in the rest of the context in which the command runs."""
    AS_JSON.set(wanted)


JsonSchema = Annotated[
    bool,
    typer.Option(
        "--json-schema", callback=_show_schema, is_eager=True, help="Print the schema of what --json prints, and exit."
    ),
]
ProgressJson = Annotated[
    bool,
    typer.Option(
        "--progress-json", callback=_report_as_json, is_eager=True, help="Print progress as lines of JSON on stderr."
    ),
]
_OF_EVERY_COMMAND: dict[str, Any] = {"_debug": Debug}
_OF_JSON: dict[str, Any] = {"_json_schema": JsonSchema, "_progress_json": ProgressJson}


def command(app: typer.Typer, name: str | None = None) -> Callable[[Function], Function]:
    """Add a function to `app`, by default under its own name; --help is its docstring, and ends with the examples.

    A command group without examples of its own shows those of its first command.
    """

    def add(function: Function) -> Function:
        text, mark, examples = (inspect.getdoc(function) or "").partition(_EXAMPLES)
        shown = re.sub("^# .*", r"[dim]\g<0>[/dim]", mark + examples, flags=re.MULTILINE)
        epilog = f"{_HEADING}{shown}\n"
        app.info.epilog = app.info.epilog or epilog
        called = name or function.__name__.strip("_").replace("_", "-")
        own = list(_parameters(function))
        app.command(called, cls=_Command, help=text, epilog=epilog)(_with_plain_options(function, own))
        # So that a call from Python has these defaults, too.
        function.__kwdefaults__ = {one.name: one.default for one in own if one.default is not one.empty}
        return function

    return add


def command_group(text: str, examples: str = "") -> typer.Typer:
    """An app for several commands, which prints its help when none of them is given."""
    app = typer.Typer(help=text, epilog=examples and _HEADING + examples, rich_markup_mode="rich", add_completion=False)

    @app.callback(invoke_without_command=True)
    def _help(context: typer.Context) -> int:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
        return 0

    return app


def _parameters(of: Any) -> Iterator[inspect.Parameter]:
    """Parameters of a function, or the fields of an object of options; each option is in the type, as Typer expects."""
    fields = {field.name: field for field in dataclasses.fields(of)} if dataclasses.is_dataclass(of) else {}
    for name, parameter in inspect.signature(of, eval_str=True).parameters.items():
        given = fields.get(name, parameter.default)
        if isinstance(given, dataclasses.Field) and OPTION in given.metadata:
            default = parameter.empty if given.default is dataclasses.MISSING else given.default
            # The checker takes the subscript for a type, which is only known when this runs.
            kind = Annotated[parameter.annotation, given.metadata[OPTION]]  # type: ignore[name-defined]
            yield parameter.replace(annotation=kind, default=default)
        else:
            yield parameter


def _with_plain_options(function: Function, own: Iterable[inspect.Parameter]) -> Function:
    """`function` with the fields of its objects of options (among its `own` parameters) as parameters, and with the
    options of every command."""
    objects: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in own:
        kind, *notes = get_args(parameter.annotation) or (parameter.annotation,)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            parameters.append(parameter)
            continue
        left_out = next((note for note in notes if isinstance(note, Without)), Without())
        fields = [field for field in _parameters(kind) if field.name not in left_out]
        objects[parameter.name] = kind, [field.name for field in fields]
        parameters += fields
    more = _OF_EVERY_COMMAND | (_OF_JSON if any(one.name == "json" for one in parameters) else {})

    @functools.wraps(function)
    def run(**given: Any) -> int:
        for name in more:
            given.pop(name)
        for name, (kind, fields) in objects.items():
            given[name] = kind(**{field: given.pop(field) for field in fields})
        return function(**given)

    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in more.items()
    ]
    # Typer reads the signature from the function, on which Python's types declare no such attribute.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
