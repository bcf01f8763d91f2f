"""Scenario ``fleet``: a hundred nodes of five vendors under training, inference and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo.model.errors import InputError
from terrazzo.simulator import scenario
from terrazzo.simulator.demo.filling import BASELINES
from terrazzo.simulator.demo.scene import Scene
from terrazzo.simulator.demo.story import Remark, Standing, Story, Table
from terrazzo.simulator.report import Report
from terrazzo.simulator.runner import simulate

_FILE = "fleet/scenario.yaml"
_SEEDS = (42, 43, 44)
_LOADS = (0.8, 0.9)


def tell(scene: Scene) -> Story:
    """Return the story of ``fleet/scenario.yaml``."""
    body = _scenario(scene)
    nodes = scenario.read(body, where=_FILE).nodes
    rows, figures = [], {"nodes": float(len(nodes)), "devices": float(sum(len(node.devices) for node in nodes))}
    for load in _LOADS:
        planned = scenario.read({**body, "workload": {**body["workload"], "load": load}}, where=_FILE)
        for words, policy in BASELINES:
            reports = []
            for seed in _SEEDS:
                scene.progress(f"fleet: load {load:.0%}, {words}, seed {seed}")
                reports.append(simulate(planned.spec(policy=policy, seed=seed)))
            done = [report.finished for report in reports]
            figures[f"{policy} finished@{load}"] = float(np.mean(done))
            figures[f"{policy} diverges@{load}"] = float(sum(report.diverges for report in reports))
            rows.append((f"{load:.0%}", words, *_cells(reports)))
    scene.progress("")
    return Story(
        name="fleet",
        title="A hundred nodes, five vendors, three kinds of work",
        files=(_FILE,),
        tables=(
            Table(
                f"{_hours(body)}, mean of seeds {_SEEDS[0]}–{_SEEDS[-1]}, range in brackets",
                (">load", "", ">mean wait", ">p95 wait", ">devices held", ">memory granted", ">compute reserved",
                 ">jobs done"),
                tuple(rows),
            ),
        ),
        remarks=(
            Remark(Standing.MEASURED, "Where pods land and when they start: decided by engine and baselines."),
            Remark(Standing.MODELLED, "Arrivals (Poisson), sizes and lifetimes (lognormal). A pod needs its lifetime "
                   "wherever it runs. Load: devices' worth that pods ask for at once, over the devices there are."),
            Remark(Standing.FAILS, "Whole cards cannot carry a load that is measured in fractions: the queue grows "
                   "without end, and 'diverges' is all there is to say of its waits."),
        ),
        sources=(
            "lifetimes of training: fitted to the Philly trace (Jeon et al., USENIX ATC 2019); others assumed",
            "mix of training, inference and notebooks: assumed in fleet/scenario.yaml",
        ),
        figures=figures,
    )  # fmt: skip


def _scenario(scene: Scene) -> dict[str, Any]:
    for body in scene.read(_FILE):
        found = (body.get("data") or {}).get("scenario.yaml")
        if isinstance(found, dict):
            return found
    raise InputError("has no scenario.yaml", where=_FILE)


def _hours(body: dict[str, Any]) -> str:
    workload = body["workload"]
    return f"{workload['until']} of arrivals, the first {workload['warm']} not counted"


def _cells(reports: Sequence[Report]) -> tuple[str, ...]:
    lost = any(report.diverges for report in reports)
    mean = [report.waits.mean_s / 60 for report in reports]
    late = [report.waits.p95_s / 60 for report in reports]
    waits = ("diverges", "diverges") if lost else (_range(mean, "min"), _range(late, "min"))
    held = [report.mean.devices_held for report in reports]
    memory = [100 * report.mean.memory_granted for report in reports]
    compute = [100 * report.mean.compute_reserved for report in reports]
    done = [float(report.finished) for report in reports]
    return (*waits, _range(held, ""), _range(memory, "%"), _range(compute, "%"), _range(done, ""))


def _range(values: Sequence[float], unit: str) -> str:
    mean = float(np.mean(values))
    digits = 0 if mean >= 10 else 1
    tail = f" {unit}" if unit else ""
    return f"{mean:.{digits}f}{tail} ({min(values):.{digits}f}–{max(values):.{digits}f})"
