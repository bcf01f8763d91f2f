"""The same scenario and seed give the same bytes, today and in a year.

To accept a change on purpose, run with ``TERRAZZO_GOLDEN=write`` and review the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from terrazzo.simulator import Report, report, scenario, simulate

BASELINES = ("bestfit", "fgd", "first-fit", "hami", "random", "time-slicing", "whole-cards")
"""Those that do not ask the engine, whose choices may improve."""
HERE = Path(__file__).parent / "simulator"
WRITERS = {"json": report.to_json, "csv": report.to_csv, "txt": report.to_text}


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    value = yaml.safe_load((HERE / "scenario.yaml").read_text(encoding="utf-8"))
    read = scenario.read(value, where="scenario.yaml")
    return [simulate(read.spec(policy=policy)) for policy in BASELINES]


@pytest.mark.parametrize("form", WRITERS)
def test_reports_of_the_baselines(reports: list[Report], form: str) -> None:
    text = WRITERS[form](reports)
    path = HERE / f"report.{form}"
    if os.environ.get("TERRAZZO_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
