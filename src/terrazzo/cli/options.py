"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def file_option(command: _Command) -> _Command:
    """Add ``-f``."""
    return click.option(
        "-f", "--file", "files", multiple=True, required=True, metavar="FILE",
        help="Pods or workloads: a file, a folder or - for standard input; may be given again.",
    )(command)  # fmt: skip


def cluster_options(command: _Command) -> _Command:
    """Add ``--cluster``, ``--pods`` and ``--policy``."""
    add = (
        click.option(
            "--cluster", "dumps", multiple=True, required=True, metavar="FILE",
            help="kubectl get nodes[,pods,configmaps,resourceslices] -A -o yaml|json; may be given again.",
        ),
        click.option(
            "--pods", "pods", multiple=True, metavar="FILE", help="Running pods, when they are in a file of their own."
        ),
        click.option(
            "--policy", metavar="FILE", help="Policy: vendors of neutral requests, image rules, strategies."
        ),
    )  # fmt: skip
    for option in reversed(add):
        command = option(command)
    return command


def format_option(formats: Sequence[str]) -> Callable[[_Command], _Command]:
    """Return the ``-o`` option."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(list(formats)), default="table", show_default=True,
        help="How to print the answer.",
    )  # fmt: skip
