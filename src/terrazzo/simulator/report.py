"""What a simulation found: figures over time and in the mean, as table, JSON and CSV. Same run, same bytes.

Memory granted and compute reserved are kept apart: neither says how much is used, and no figure here does.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec
from msgspec import Struct

_DIGITS = 6


class Point(Struct, frozen=True, gc=False):
    """The fleet at one moment, or its mean over time.

    Attributes:
        at_s: seconds since the start; for a mean, the end of the time it covers.
        memory_granted: part of all device memory that is granted, 0..1.
        compute_reserved: part of all compute that is reserved, 0..1.
        devices_held: devices that somebody holds; slices that were cut beforehand count as the one card that they are.
        devices_free: devices that nobody holds.
        running, waiting: pods.
        fragmented: part of what is idle that the mean request of this workload could not use, 0..1.
    """

    at_s: float
    memory_granted: float
    compute_reserved: float
    devices_held: float
    devices_free: float
    running: float
    waiting: float
    fragmented: float


class Waits(Struct, frozen=True, gc=False):
    """Seconds from submission to placement, over pods that asked for devices.

    Pods that still wait at the end count with what they have waited so far.
    """

    mean_s: float
    p95_s: float
    longest_s: float


class KindFigures(Struct, frozen=True):
    """One kind of pod: see ``Report``."""

    submitted: int
    placed: int
    finished: int
    rejected: int
    waiting: int
    waits: Waits


class Report(Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        name: of the workload.
        policy, says: name and what it does.
        seed: of the run.
        nodes, devices: of the fleet.
        submitted: pods that were submitted until the end.
        placed, finished: of those.
        rejected: of those, that fit nowhere even in an empty fleet, or found no room where nobody may wait.
        waiting: of those, that still wait at the end.
        diverges: the queue kept growing: the fleet cannot carry this load in this way.
        waits: time from submission to placement.
        kinds: the same figures by kind of pod.
        mean: over time, after the warm-up.
        series: moments at equal distances.
        over_memory: pods that share a card whose memory together they exceed; only where memory is not fenced.
        ends_s: when the run ended.
        notes: what is modelled, and where figures come from.
    """

    name: str
    policy: str
    says: str
    seed: int
    nodes: int
    devices: int
    submitted: int
    placed: int
    finished: int
    rejected: int
    waiting: int
    diverges: bool
    waits: Waits
    kinds: dict[str, KindFigures]
    mean: Point
    series: tuple[Point, ...]
    over_memory: tuple[str, ...] = ()
    ends_s: float = 0.0
    notes: tuple[str, ...] = ()


def waits_of(seconds: Sequence[float]) -> Waits:
    """Return mean, 95th percentile (nearest rank) and longest of ``seconds``; zeros when nobody came."""
    if not seconds:
        return Waits(0.0, 0.0, 0.0)
    ordered = sorted(seconds)
    rank = -(-95 * len(ordered) // 100) - 1
    return Waits(
        round(sum(ordered) / len(ordered), _DIGITS), round(ordered[rank], _DIGITS), round(ordered[-1], _DIGITS)
    )


def to_json(reports: Sequence[Report]) -> str:
    """Return the reports as a JSON list, one line."""
    return msgspec.json.encode(list(reports), order="deterministic").decode() + "\n"


def to_csv(reports: Sequence[Report]) -> str:
    """Return the series of all reports, one line a moment, times in seconds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = Point.__struct_fields__
    writer.writerow(("policy", "seed", *fields))
    for report in reports:
        for point in report.series:
            writer.writerow((report.policy, report.seed, *(getattr(point, field) for field in fields)))
    return text.getvalue()


COLUMNS = (
    "policy", ">seed", ">memory granted", ">compute reserved", ">devices held", ">fragmented", ">placed", ">finished",
    ">rejected", ">waiting", ">wait mean", ">wait p95", "",
)  # fmt: skip
"""Headers of ``rows``; one that starts with ``>`` is right-aligned."""


def rows(reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """Return one line of text cells a report, under ``COLUMNS``."""
    return [_row(report) for report in reports]


def _row(report: Report) -> tuple[str, ...]:
    mean, remarks = report.mean, []
    if report.diverges:
        remarks.append("diverges")
    if report.over_memory:
        remarks.append(f"{len(report.over_memory)} pods run out of memory")
    return (
        report.policy,
        str(report.seed),
        f"{mean.memory_granted:.1%}",
        f"{mean.compute_reserved:.1%}",
        f"{mean.devices_held:.1f} of {report.devices}",
        f"{mean.fragmented:.1%}",
        str(report.placed),
        str(report.finished),
        str(report.rejected),
        str(report.waiting),
        duration(report.waits.mean_s),
        duration(report.waits.p95_s),
        ", ".join(remarks),
    )


def duration(seconds: float) -> str:
    """Return a time for people: ``40 s``, ``12.5 min``, ``3.2 h``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def to_text(reports: Sequence[Report]) -> str:
    """Return a plain table of the reports, with their notes below."""
    table = [tuple(header.lstrip(">") for header in COLUMNS), *rows(reports)]
    widths = [max(len(line[column]) for line in table) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.rjust(width) if header.startswith(">") else cell.ljust(width)
            for cell, width, header in zip(line, widths, COLUMNS, strict=True)
        ).rstrip()
        for line in table
    ]
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    return "\n".join([*lines, *(f"· {note}" for note in notes)]) + "\n"
