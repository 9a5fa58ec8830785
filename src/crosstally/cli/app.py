"""The ``crosstally`` program: its commands, and how errors are shown."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from importlib import import_module
from inspect import cleandoc
from types import FunctionType
from typing import Annotated, Any, get_args, get_type_hints

import typer

from crosstally import __version__
from crosstally.budget import fraction_of_text
from crosstally.cli import interrupts, laboratory
from crosstally.cli.interrupts import no_core_dumps, tell_of_compiling
from crosstally.cli.options import CheckFailedError, with_groups
from crosstally.cli.output.encoding import prepare_streams, without_codes
from crosstally.cli.output.screen import one_line
from crosstally.errors import CrosstallyError

# Exit codes, as docs/reference/cli.md promises them; 141 is the shell's code for SIGPIPE (128 + 13).
DONE, CHECK_FAILED, BAD_INPUT, INTERNAL, CLOSED_PIPE = 0, 1, 2, 3, 141
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # a full or failing disk, which is not a bug

# Typer keeps its parser inside since 0.24 and used click's before: its usage error is found the same way in both.
UsageError: type[Any] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Tables about people, published under differential privacy: one file, any table, honest error bars.",
    epilog="Start with: crosstally demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crosstally {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options that belong to no command."""


def _examples(*lines: str) -> str:
    """The examples that end a command's help; empty lines keep them on separate lines."""
    return "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def _paragraphs(text: str) -> str:
    """A docstring without its own line ends, so that a terminal wraps it once."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))


def _add(group: typer.Typer, function: Callable[..., None], examples: Sequence[str], panel: str | None = None) -> None:
    assert isinstance(function, FunctionType)
    name = function.__name__.rstrip("_")
    words = _paragraphs(function.__doc__ or "")
    group.command(name, help=words, epilog=_examples(*examples), rich_help_panel=panel)(with_groups(function))


def _add_from(name: str, group: typer.Typer, panel: str | None = None) -> None:
    """Add the commands of a module of this package: those with examples, or the one of the same name."""
    module = import_module(f"crosstally.cli.{name}")
    commands = module.EXAMPLES if isinstance(module.EXAMPLES, dict) else {name: module.EXAMPLES}
    for each, examples in commands.items():
        _add(group, getattr(module, each), examples, panel)


def _list(name: str, panel: str) -> None:
    """List a command of the laboratory; ``_run`` replaces it by the command when it is called."""
    app.command(name, help=laboratory.COMMANDS[name], rich_help_panel=panel)(lambda: None)


def _group(name: str, words: str, panel: str) -> typer.Typer:
    group = typer.Typer(add_completion=False, rich_markup_mode="rich", help=words)
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


_BEFORE, _SPEND, _READ = "Before anything is spent", "Spend", "Read, for anyone"

_add_from("demo", app, "Start here")
_schema = _group("schema", "Describe the columns of a table and whom to protect: draft, check, review.", _BEFORE)
_add_from("schema", _schema)
_add_from("review", _schema)
_add_from("plan", app, _BEFORE)
_list("calibrate", _BEFORE)
_list("compare", _BEFORE)
for _name in ("part", "release", "ask"):
    _add_from(_name, app, _SPEND)
_add_from("ledger", _group("ledger", "Keep a record of what was spent: create, show, verify, raise, export.", _SPEND))
_local = "Collect tables from people who keep their rows: plan, tokens, report, simulate, release."
_add_from("collect", _group("collect", _local, _SPEND))
for _name in ("table", "sql", "synth", "page", "serve", "inspect", "statement"):
    _add_from(_name, app, _READ)
_list("reproduce", "Research")
_list("audit", "Research")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 a check failed, 2 bad input, 3 an internal error."""
    prepare_streams()
    if without_codes():
        os.environ["TERM"] = "dumb"  # the pages of --help are Typer's: it asks Rich, which asks this
        os.environ["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"  # or numba resets the colours when it ends
    tell_of_compiling()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in ([], ["schema"], ["ledger"], ["collect"]):
        given.append("--help")
    try:
        with no_core_dumps(), interrupts.watching(), _warnings_in_one_line():
            code = _run(given)
            sys.stdout.flush()
    except CheckFailedError as error:
        return _fail(str(error), CHECK_FAILED)
    except CrosstallyError as error:
        return _fail(str(error), BAD_INPUT)
    except UsageError as error:
        return _fail(_usage(error), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped", interrupts.exit_code())
    except BrokenPipeError:
        _drop_output()
        return CLOSED_PIPE
    except Exception as error:  # noqa: BLE001 - the one place where unexpected errors end, without their text
        if interrupts.is_stopped():
            return _fail("stopped", interrupts.exit_code())
        return _fail_writing(error) or _fail_inside(error)
    return code


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print crosstally's own warnings as one line, without the place in the code."""

    def show(message: Warning | str, *_: object, **__: object) -> None:

        sys.stderr.write(f"Warning: {one_line(str(message))}\n")

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning, module="crosstally")
        warnings.showwarning = show
        yield


def _run(arguments: list[str]) -> int:
    command = _command()
    if arguments[0] in laboratory.COMMANDS:
        command = copy(command)
        command.commands = {**command.commands, arguments[0]: _of_laboratory(arguments[0])}
    try:
        with command.make_context("crosstally", arguments) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return DONE


@cache  # building it takes longer than a small release, and the audit makes very many
def _command() -> Any:
    command = typer.main.get_command(app)
    _take_plain_numbers(command)
    return command


@cache
def _of_laboratory(name: str) -> Any:
    function, examples = laboratory.load(name)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    _add(alone, function, examples)
    command = typer.main.get_command(alone)
    _take_plain_numbers(command)
    return command


def _take_plain_numbers(command: Any) -> None:
    """Let every numeric option accept plain digits only; Python would read ``1_0`` as ten.

    The functions' annotations tell which options are numbers: Typer's own classes change between versions.
    """
    for child in getattr(command, "commands", {}).values():
        _take_plain_numbers(child)
    hints = get_type_hints(command.callback) if command.callback is not None else {}
    for option in command.params:
        hint = hints.get(option.name)
        kinds = {int, float} & {hint, *get_args(hint)}
        if kinds:
            option.process_value = partial(_plain_number, option, option.process_value, is_whole=float not in kinds)


def _plain_number(option: Any, process: Callable[[Any, Any], Any], context: Any, value: Any, *, is_whole: bool) -> Any:
    if isinstance(value, str):
        number = fraction_of_text(value)
        if number is None or (is_whole and not value.lstrip("+-").isdecimal()):
            kind = "a number" if number is None else "a whole number, in digits alone"
            raise typer.BadParameter(f"{value[:40]!r} is not {kind}", ctx=context, param=option)
    return process(context, value)


def _usage(error: Any) -> str:
    message = str(error.format_message()).strip().rstrip(".")
    message = message[:1].lower() + message[1:].replace("Input should be", "it must be").replace("Value error, ", "")
    where = getattr(getattr(error, "ctx", None), "command_path", "crosstally")
    return f"{message}; see {where} --help"


def _fail(message: str, code: int) -> int:

    with contextlib.suppress(OSError):  # a full disk there too
        sys.stderr.write(f"crosstally: {one_line(message)}\n")
    return code


def _fail_writing(error: Exception) -> int:
    """Report a full disk if that is the cause, else return 0; output files have their own message."""
    if not isinstance(error, OSError) or error.errno not in _NO_ROOM:
        return 0
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    return _fail(f"cannot write to stdout or to a temporary file: {error.strerror}", BAD_INPUT)


def _drop_output() -> None:
    """Discard what stdout has buffered: the interpreter would write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail_inside(error: Exception) -> int:
    """Say where an unexpected error happened, never its text, which may contain confidential values."""
    if os.environ.get("CROSSTALLY_DEBUG") == "1":
        traceback.print_exception(error)
    where = "an unknown place"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.startswith(("crosstally.", "crosstally_lab.")) and module != __name__:
            where = f"{module} {frame.f_code.co_name}"
    return _fail(
        f"internal error in {where}, nothing confidential is shown; run with CROSSTALLY_DEBUG=1 to see the traceback "
        "(it may show confidential values)",
        INTERNAL,
    )
