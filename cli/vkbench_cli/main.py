"""The command `vkbench`: commands load when they run, and errors reach a person in one way."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile
from traceback import format_exc
from typing import Annotated, Any

import typer

import vkbench
from vkbench.errors import EXIT_INTERRUPTED, EXIT_OK, UsageError, VkbenchError
from vkbench.words.visible import visible_lines
from vkbench_cli.groups import CommandGroup
from vkbench_cli.interrupts import interruptible
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import ReaderLeft
from vkbench_cli.show.telling import tell
from vkbench_cli.table import COMMANDS, Command

GC_OBJECTS = 100_000  # imports make objects that stay: collecting garbage took 1/8 of a command
atexit.register(gc.freeze)  # nor as a process ends: that took another quarter
EXTRAS = {
    name: f"pip install 'vkbench[{extra}]'"
    for extra, names in (
        ("worker", ("gguf", "vulkan")),
        ("detection", ("ruptures", "scipy")),
        ("plot", ("matplotlib",)),
        ("mcp", ("mcp",)),
        ("parquet", ("pyarrow",)),
        ("web", ("fastapi", "jinja2", "markupsafe", "starlette", "uvicorn")),
        ("scheduler", ("apprise", "celery", "croniter", "prometheus_client", "psycopg", "redis")),
    )
    for name in names
}

BEGIN = """\
vkbench checks and times Vulkan compute kernels. To begin with:

  vkbench doctor     say what this machine lacks, and how to install it
  vkbench run        check and time kernels here, with no server
  vkbench results    show what was found

`vkbench --help` lists all commands."""

_PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}


class LazyGroup(CommandGroup):
    """Shows the one-line help of every command from the table; loads the one asked for."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C gets past Typer, which would end without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Abort from interrupt

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        row = next((row for row in COMMANDS if row.name == name), None)
        return name, load(row) if row else command, rest


def load(row: Command) -> Any:
    """The command of a row, with its options."""
    module, attribute = row.home
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    single = typer.Typer(**_PLAIN)
    single.command(row.name)(spread(target))
    return typer.main.get_command(single)


app = typer.Typer(
    name="vkbench",
    help="Check and time Vulkan compute kernels for quantised inference.",
    cls=LazyGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _not_loaded() -> None:
    raise AssertionError("LazyGroup puts the real command here")


for _row in COMMANDS:
    app.command(_row.name, help=_row.help)(_not_loaded)


def _show_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"vkbench {vkbench.__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="On an error, show where it came from.")
    ] = False,
) -> None:
    """Check and time Vulkan compute kernels for quantised inference."""
    if context.invoked_subcommand is None:
        typer.echo(BEGIN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code."""
    gc.set_threshold(GC_OBJECTS)
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        with interruptible():
            code = typer.main.get_command(app).main(
                list(arguments), prog_name="vkbench", standalone_mode=False
            )
            sys.stdout.flush()
        return int(code or EXIT_OK)
    except (ReaderLeft, BrokenPipeError, SystemExit):  # Typer raises SystemExit for a closed pipe
        return _reader_left()
    except (Exception, KeyboardInterrupt) as error:
        if "--traceback" in takewhile(lambda word: word.startswith("-"), arguments):
            sys.stderr.write(visible_lines(format_exc()))
            return explain(error)[1]
        message, code = explain(error)
        if message:
            tell(message)
        return code


def explain(error: BaseException) -> tuple[str, int]:
    """What to show for an error, one line, and the exit code."""
    match error:
        case VkbenchError():
            return f"vkbench: {error}", error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            return "vkbench: interrupted", EXIT_INTERRUPTED
        case typer.TyperException():
            return _usage(error), UsageError.exit_code
        case ModuleNotFoundError() if (package := _package(error)) in EXTRAS:
            missing = f"the Python package {package} is missing: {EXTRAS[package]}"
            return f"vkbench: {missing}", VkbenchError.exit_code
        case OSError() if error.strerror:
            where = f": {error.filename}" if error.filename else ""
            return f"vkbench: {error.strerror}{where}", VkbenchError.exit_code
    first = next(iter(str(error).splitlines()), "")
    what = f"internal error: {type(error).__name__}: {first}"
    return f"vkbench: {what} (run `vkbench --traceback ...` for more)", VkbenchError.exit_code


def _package(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]


def _usage(error: typer.TyperException) -> str:
    message = _strip_preamble(error.format_message())
    if message.startswith("Usage:"):  # a group without its command: the help is the answer
        return message
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "vkbench"
    return f"vkbench: {message.rstrip('.')} (see `{path} --help`)"


def _strip_preamble(message: str) -> str:
    """The message without the words that pydantic, which checks options, puts before it."""
    return message.replace(": Value error, ", ": ").replace(": Input should ", ": it should ")


def _reader_left() -> int:
    # What is still buffered would fail once more when the interpreter ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_OK
