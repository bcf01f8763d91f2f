"""Tables, JSON and YAML on standard output. Colours only on a terminal, never with NO_COLOR."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

FORMATS = ("table", "wide", "json", "yaml")
WIDTH = 110
"""Widest table that is not cut when the output is no terminal."""


def format_option(formats: Sequence[str] = FORMATS) -> Callable[[_Command], _Command]:
    """Return the ``-o`` option."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(list(formats)), default="table", show_default=True,
        help="How to print the answer.",
    )  # fmt: skip


def console() -> Any:
    """Return a rich console for standard output."""
    from rich.console import Console  # noqa: PLC0415 - 30 ms that JSON users need not wait for

    terminal = sys.stdout.isatty()
    width = None if terminal else int(os.environ.get("COLUMNS", WIDTH))
    plain = "NO_COLOR" in os.environ or not terminal
    return Console(no_color=plain, highlight=False, width=width, soft_wrap=False, emoji=False, markup=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", stress: int = -1) -> Any:
    """Return a table to print.

    Args:
        columns: headers; one that starts with ``>`` is right-aligned.
        rows: cells.
        title: a line above it.
        stress: index of a row to stress, -1 for none.
    """
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - see ``console``
    from rich.table import Table  # noqa: PLC0415 - see ``console``
    from rich.text import Text  # noqa: PLC0415 - see ``console``

    made = Table(
        box=SIMPLE_HEAD, pad_edge=False, title=Text(title, style="bold") if title else None, title_justify="left"
    )
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    for index, row in enumerate(rows):
        made.add_row(*(Text(cell) for cell in row), style="bold" if index == stress else None)
    return made


def dump(body: Any, form: str) -> None:
    """Print ``body`` as JSON or YAML, keys in the order given."""
    import msgspec  # noqa: PLC0415 - only for machines

    plain = msgspec.to_builtins(body)
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        return
    import yaml  # noqa: PLC0415 - only for YAML

    click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=False), nl=False)


def gib(mib: int) -> str:
    """Return MiB as GiB for a table: one decimal below 100."""
    value = mib / 1024
    return f"{value:.1f}" if abs(value) < 100 and value != int(value) else f"{value:.0f}"


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return f"{count} {one if count == 1 else many or one + 's'}"
