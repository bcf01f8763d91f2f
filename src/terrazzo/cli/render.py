"""Tables, JSON and YAML on standard output. Colours only on a terminal, unless ``--color`` says otherwise."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import click

WIDTH = 110
"""Longest line of prose."""
_GAP = "  "


class Group(NamedTuple):
    """A heading over several columns.

    Attributes:
        title: the heading.
        first, last: indices of the columns below it.
    """

    title: str
    first: int
    last: int


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], groups: Sequence[Group] = ()) -> str:
    """Return a table as text: columns as wide as their widest cell, two spaces between, nothing cut.

    Args:
        columns: headers; one that starts with ``>`` is right-aligned, a newline in one makes two lines of heads.
        rows: cells.
        groups: headings over columns, from left to right.
    """
    body = [list(row) for row in rows]
    right = [column.startswith(">") for column in columns]
    heads = [column.removeprefix(">").split("\n") for column in columns]
    tall = max(len(head) for head in heads)
    tops = [["", *head] if len(head) < tall else head for head in heads]
    widths = [max(len(cell) for cell in (*head, *(row[i] for row in body))) for i, head in enumerate(heads)]
    for group in groups:
        room = sum(widths[group.first : group.last + 1]) + len(_GAP) * (group.last - group.first)
        widths[group.first] += max(0, len(group.title) - room)

    def laid(cells: Sequence[str]) -> str:
        placed = (
            cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(cells, widths, right, strict=True)
        )
        return _GAP.join(placed).rstrip()

    lines = [click.style(laid([top[i] for top in tops]), bold=True) for i in range(tall)]
    lines += (laid(row) for row in body)
    if groups:
        lines.insert(0, click.style(_group_line(groups, widths), dim=True))
    return "\n".join(lines)


def _group_line(groups: Sequence[Group], widths: Sequence[int]) -> str:
    text = ""
    for group in groups:
        begin = sum(widths[: group.first]) + len(_GAP) * group.first
        room = sum(widths[group.first : group.last + 1]) + len(_GAP) * (group.last - group.first)
        text = text.ljust(begin) + f" {group.title} ".center(room, "─")
    return text


def say(text: str = "", **style: Any) -> None:
    """Print text, styled where colours are wanted."""
    click.echo(click.style(text, **style) if style else text)


def line(head: str, text: str, **style: Any) -> None:
    """Print text beside a head, folded below itself where it is long."""
    lead = f"{head:<7}  "
    say(textwrap.fill(f"{lead}{text}", WIDTH, subsequent_indent=" " * len(lead), break_long_words=False), **style)


def notes(sentences: Iterable[str]) -> None:
    """Print what a reader should know besides, a line each."""
    for sentence in sentences:
        told = f"note: {sentence.rstrip('.')}."
        say(textwrap.fill(told, WIDTH, subsequent_indent="      ", break_long_words=False), fg="yellow")


def dump(body: Any, form: str) -> None:
    """Print ``body`` as JSON or YAML, keys in the order given."""
    import msgspec  # noqa: PLC0415 - only for machines

    plain = msgspec.to_builtins(body)
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        return
    import yaml  # noqa: PLC0415 - only for YAML

    click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=False), nl=False)


def gib(mib: int, *, down: bool = False) -> str:
    """Return MiB as GiB for a table: one decimal below 100.

    Args:
        mib: the amount.
        down: round down, for what is left: what is shown must fit when somebody asks for it.
    """
    tenths = mib * 10 // 1024 if down else (mib * 10 + 512) // 1024
    return f"{tenths / 10:.1f}" if abs(tenths) < 1000 and tenths % 10 else str(tenths // 10)


def percent(part: float, whole: float) -> str:
    """Return a share in whole percent, rounded down; ``–`` of nothing."""
    return f"{int(part * 100 / whole + 1e-9)}%" if whole else "–"


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def first(words: Sequence[str], most: int = 5) -> str:
    """Return a list that does not grow without end: ``a, b and 3 more``."""
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")
