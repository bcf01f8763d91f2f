#!/usr/bin/env python
"""Write the resource names that our extender looks after, for the chart: deploy/chart/files/names.txt.

usage: tools/chart_names.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from terrazzo.dialects import catalogue
from terrazzo.dialects.names import all_names

TARGET = Path(__file__).parents[1] / "deploy" / "chart" / "files" / "names.txt"
HEAD = "# Resource names that our extender looks after; made by tools/chart_names.py."


MIG = "nvidia.com/mig-"


def names() -> list[str]:
    """Return all names of the tables, and those of the slices that the chip tables know: a scheduler needs each."""
    tables = [catalogue.geometry(chip.geometry) for chip in catalogue.chips("nvidia") if chip.geometry]
    slices = {MIG + profile.name for table in tables if table is not None for profile in table.profiles}
    return sorted({*all_names(), *slices})


def text() -> str:
    """Return the file."""
    return "\n".join((HEAD, *names())) + "\n"


if __name__ == "__main__":
    sys.stdout.write(f"{TARGET.name}: {TARGET.write_text(text(), 'utf-8')} characters\n")
