"""Entry point of ``terrazzo``: commands are found by name and imported when they are used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from terrazzo import __version__
from terrazzo.model.errors import TerrazzoError

_NAME = "terrazzo"
_COMPLETION = "_TERRAZZO_COMPLETE"
FAULT = 70
"""Exit code of a fault of the program itself (EX_SOFTWARE)."""
BAD_INPUT = 2
STOPPED = 130
"""As shells report an interrupt."""

_COMMANDS = {
    "plan": "Say where pods would go, on which devices, and what remains.",
    "inventory": "Say how much accelerator is left in the cluster.",
    "explain": "Say why a pod does not fit and what would help.",
    "simulate": "Run a workload against a fleet and a policy.",
    "demo": "Show the six seed scenarios.",
    "control": "Run the control plane: extender, webhook, reconciler.",
    "completion": "Print a completion script for your shell.",
}


class _Lazy(click.Group):
    """A group that imports a command's module only when that command runs; ``--help`` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return command names in the order people meet them."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"terrazzo.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when there is none of that name."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _COMMANDS:
            import difflib  # noqa: PLC0415 - only needed to be helpful

            close = difflib.get_close_matches(name, _COMMANDS, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(_COMMANDS)}."
            raise click.UsageError(f"there is no command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands from the table above, so that help costs no import."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_Lazy,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  kubectl get nodes -o yaml > nodes.yaml
  terrazzo inventory --cluster nodes.yaml
  terrazzo plan -f pods.yaml --cluster nodes.yaml
  terrazzo demo

\b
Exit codes: 0 done, 2 bad input, 3 some pods were not placed.""",
)
@click.version_option(__version__, prog_name="terrazzo")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours; auto: on a terminal, unless NO_COLOR is set.",
)
@click.pass_context
def command(ctx: click.Context, color: str) -> None:
    """Share accelerators of every vendor in Kubernetes: see what is left, plan, and understand."""
    if color != "auto":
        ctx.color = color == "always"
    elif os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> Any:
    """Run the command line; every failure is one sentence on standard error."""
    try:
        return _run(args)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except BrokenPipeError:
        # The reader has seen enough (terrazzo … | head); Python must not complain about it while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        sentence, code = _told(error)
        if code == FAULT and os.environ.get("TERRAZZO_DEBUG"):
            raise
        click.echo(f"terrazzo: {' '.join(sentence.split())}", err=True)
        sys.exit(code)


def _told(error: BaseException) -> tuple[str, int]:
    """Return the sentence and the exit code of a failure."""
    sentence, code = (
        f"this is a fault of terrazzo ({type(error).__name__}: {error}); TERRAZZO_DEBUG=1 shows where.",
        FAULT,
    )
    match error:
        case KeyboardInterrupt() | click.Abort():
            sentence, code = "stopped.", STOPPED
        case click.UsageError():
            where = f"terrazzo {error.ctx.info_name}" if error.ctx is not None and error.ctx.parent else "terrazzo"
            sentence, code = f"{error.format_message().rstrip('.')}; see {where} --help.", BAD_INPUT
        case click.ClickException():
            sentence, code = error.format_message(), BAD_INPUT
        case TerrazzoError():
            sentence, code = str(error), BAD_INPUT
        case OSError():
            sentence, code = f"{error.filename or 'standard output'}: {error.strerror or error}.", BAD_INPUT
        case RecursionError():
            sentence, code = "the input is nested too deeply.", BAD_INPUT
        case MemoryError():
            sentence, code = "the input is too large for this machine's memory.", BAD_INPUT
    return sentence, code


def _run(args: Sequence[str] | None) -> Any:
    if _COMPLETION in os.environ:
        return command.main(prog_name=_NAME)
    # Not command.main: it has ideas of its own about interrupts and readers that leave.
    with command.make_context(_NAME, list(sys.argv[1:] if args is None else args)) as context:
        result = command.invoke(context)
    sys.stdout.flush()
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
