"""Where a bench ran, and where its results go."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def describe() -> dict[str, Any]:
    """Return the machine: processor, cores, memory, system, Python, numpy."""
    import numpy as np  # noqa: PLC0415 - a bench sets the number of threads before numpy is loaded

    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory": _field(Path("/proc/meminfo"), "MemTotal"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def finish(name: str, result: dict[str, Any], *, as_json: bool, keep: bool = True) -> None:
    """Write the result beside the machine's description, and print it as the last line when asked.

    Args:
        name: file name without ending.
        result: figures.
        as_json: print one JSON object as the last line.
        keep: write the file; short trial runs do not.
    """
    whole = {"bench": name, "machine": describe(), **result}
    if keep:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    if as_json:
        sys.stdout.write(json.dumps(whole) + "\n")
