#!/usr/bin/env python
"""Print docs/cli.md: the help of every command, as the command prints it.

usage: tools/cli_reference.py > docs/cli.md
"""

from __future__ import annotations

import sys

import click
from click.testing import CliRunner

from terrazzo.cli.main import command

HEAD = """# Command line

Written by `tools/cli_reference.py`; a test compares it with the commands.

Exit codes: 0 done, 2 bad input (one sentence on standard error, nothing on standard output), 3 some pods were not
placed, 70 a fault of terrazzo itself, 130 stopped. Colours only on a terminal; `NO_COLOR` is respected.
"""


def page() -> str:
    """Return the page."""
    if not isinstance(command, click.Group):
        raise TypeError(command)
    parts = [HEAD]
    for name in ("", *command.list_commands(click.Context(command)), "inventory publish"):
        words = [*name.split(), "--help"]
        shown = CliRunner().invoke(command, words, prog_name="terrazzo", terminal_width=100).output
        parts.append(f"## terrazzo {name}".rstrip() + f"\n\n```text\n{shown.strip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
