"""``terrazzo completion``: scripts that let a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    "completion",
    epilog="""\b
Examples:
  eval "$(terrazzo completion bash)"
  terrazzo completion zsh > "${fpath[1]}/_terrazzo"
  terrazzo completion fish > ~/.config/fish/completions/terrazzo.fish""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a completion script for SHELL."""
    from terrazzo.cli.main import command as root  # noqa: PLC0415 - the root imports this module lazily

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    # Asking bash for its version may fail in odd environments; the script itself needs none.
    complete = kind(root, {}, "terrazzo", "_TERRAZZO_COMPLETE")
    click.echo(complete.source_template % complete.source_vars())
