"""What a demo tells: tables, sentences and the source of every parameter. Values only; the command line draws them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Standing(StrEnum):
    """How a figure came about."""

    MEASURED = "measured"
    MODELLED = "modelled"
    ASSUMED = "assumed"
    FAILS = "does not work out"


class Table(Struct, frozen=True):
    """One table.

    Attributes:
        title: what it shows.
        columns: headers; one that starts with ``>`` is right-aligned.
        rows: cells as text.
        emphasis: index of the row to stress, -1 for none.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    emphasis: int = -1


class Remark(Struct, frozen=True):
    """A sentence about the figures, with how they came about."""

    standing: Standing
    text: str


class Story(Struct, frozen=True):
    """One scenario: its files, what is shown, and what to think of it.

    Attributes:
        name: scenario name, as on the command line.
        title: one line.
        files: example files it was made from, relative to the examples folder.
        tables: in the order of telling.
        remarks: what is measured, what is modelled, what does not work out.
        sources: where parameters come from.
        figures: the figures the tests assert, by name.
    """

    name: str
    title: str
    files: tuple[str, ...]
    tables: tuple[Table, ...]
    remarks: tuple[Remark, ...]
    sources: tuple[str, ...]
    figures: dict[str, float]
