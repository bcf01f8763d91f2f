"""Reader of the public GenAI serving trace: duty and memory of about a hundred inference pods, minute by minute.

Source: github.com/alibaba/clusterdata, cluster-trace-v2026-GenAI. Two archives of one CSV each, with columns
``value``, ``timestamp_anon`` (seconds) and ``container_ip`` in any order; duty in percent, memory in bytes.
"""

from __future__ import annotations

import csv
import io
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from terrazzo.model.errors import InputError
from terrazzo.model.quantity import MIB

DUTY = "pod_gpu_duty_cycle_anon.tar.gz"
MEMORY = "pod_gpu_memory_used_bytes_anon.tar.gz"


class ServingTrace(NamedTuple):
    """Minutes × pods: duty 0..1 and memory in MiB."""

    duty: NDArray[np.float64]
    memory_mib: NDArray[np.float64]


def read(folder: Path) -> ServingTrace | None:
    """Return the trace that lies in ``folder``, or None when it does not.

    Pods seen less than half of the time are left out, so that a group of replicas exists all along.

    Raises:
        InputError: an archive is there but is not what its name says.
    """
    if not ((folder / DUTY).is_file() and (folder / MEMORY).is_file()):
        return None
    duty = _series(folder / DUTY)
    memory = _series(folder / MEMORY)
    minutes = sorted({minute for series in duty.values() for minute in series})
    pods = sorted(pod for pod, series in duty.items() if len(series) * 2 >= len(minutes) and pod in memory)
    if not pods:
        raise InputError("holds no pod that was seen half of the time", where=str(folder / DUTY))
    shape = (len(minutes), len(pods))
    trace = ServingTrace(np.zeros(shape), np.zeros(shape))
    for column, pod in enumerate(pods):
        held = 0.0
        for row, minute in enumerate(minutes):
            held = memory[pod].get(minute, held)
            trace.duty[row, column] = min(1.0, duty[pod].get(minute, 0.0) / 100)
            trace.memory_mib[row, column] = held / MIB
    return trace


def _series(archive: Path) -> dict[str, dict[int, float]]:
    try:
        with tarfile.open(archive) as tar:
            member = next(entry for entry in tar if entry.isfile())
            opened = tar.extractfile(member)
            text = opened.read().decode() if opened else ""
        series: dict[str, dict[int, float]] = {}
        for row in csv.DictReader(io.StringIO(text)):
            minute = int(float(row["timestamp_anon"])) // 60
            series.setdefault(row["container_ip"], {})[minute] = float(row["value"])
    except (tarfile.TarError, OSError, StopIteration, KeyError, TypeError, ValueError) as error:
        raise InputError(f"cannot be read as a trace archive ({error})", where=str(archive)) from None
    return series
