"""Lifetimes of the Philly trace: how long 82,247 deep-learning jobs ran.

Source: M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC
2019; flat list as in github.com/siasosp23/artifacts, ``sia-simulator/traces/philly.csv``.
"""

from __future__ import annotations

import csv
from pathlib import Path

from terrazzo.model.errors import InputError

COLUMNS = ("timestamp", "duration", "num_gpus")


def read_lifetimes(path: Path) -> tuple[float, ...]:
    """Return the durations of all jobs in seconds, in the order of the file; those that never ran are left out.

    Raises:
        InputError: the file is missing, or a row is not what it should be; with file and line.
    """
    lifetimes = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            if "duration" not in (reader.fieldnames or ()):
                remedy = f"the first line must name {', '.join(COLUMNS)}"
                raise InputError("has no column duration", where=f"{path}:1", remedy=remedy)
            for row in reader:
                seconds = _seconds(row.get("duration"), f"{path}:{reader.line_num}")
                if seconds > 0:
                    lifetimes.append(seconds)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=str(path)) from None
    except csv.Error as error:
        raise InputError(f"is not CSV ({error})", where=str(path)) from None
    if not lifetimes:
        raise InputError("lists no job that ran", where=str(path))
    return tuple(lifetimes)


def _seconds(text: str | None, where: str) -> float:
    try:
        seconds = float(text or "")
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e10:
        raise InputError(f"duration is {(text or '')[:40]!r}", where=where, remedy="write seconds, such as 66.0")
    return seconds
