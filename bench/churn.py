"""Pods that come and go on the openb fleet: Poisson arrivals, measured lifetimes, load around what there is.

usage: bench/churn.py [--loads 0.85,1.0,1.1] [--policies fragmentation,fgd,bestfit] [--hours 30] [--quick] [--json]

Pods are drawn from an openb trace, lifetimes from the Philly trace (cut to a day) where it is at hand, else
lognormal. Who finds no room waits; who fits goes, by age. FGD is given the mix beforehand, the engine learns it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import machine
import numpy as np
from msgspec import to_builtins

from terrazzo.model.errors import InputError
from terrazzo.simulator import Report, SimulationSpec, openb, philly, simulate
from terrazzo.simulator.generator import Lifetimes, Lognormal, Measured, generate, rate_for
from terrazzo.simulator.report import duration

SHARED = Path(__file__).parent.parent.parent / "shared"
LONGEST_S = 86400.0
WARM = 2 / 3
"""Part of the run that fills the fleet and does not count."""


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", default="default", help="openb pod list to draw from")
    parser.add_argument("--loads", default="0.85,1.0,1.1", help="devices' worth asked at once, as part of the fleet")
    parser.add_argument("--policies", default="fragmentation,fgd,bestfit", help="names, with commas")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--hours", type=float, default=30.0, help="simulated time; the last third counts")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--data", type=Path, default=SHARED / "openb", help="folder with the openb CSV files")
    parser.add_argument("--lifetimes", type=Path, default=SHARED / "traces" / "philly.csv", help="the Philly trace")
    parser.add_argument("--quick", action="store_true", help="one load, a tenth of the fleet; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.loads = "1.0"
    return options


def lifetimes_of(path: Path) -> tuple[Lifetimes, str]:
    """Return lifetimes and where they come from."""
    if path.is_file():
        return Measured(philly.read_lifetimes(path), LONGEST_S), "Philly trace, cut to a day"
    return Lognormal(median_s=900.0, spread=2.0), "lognormal, median 15 min, spread 2 (the Philly trace is not at hand)"


def spec_of(options: argparse.Namespace, load: float, policy: str) -> SimulationSpec:
    """Return the run of one load and policy; the same pods whatever the policy."""
    nodes = openb.read_nodes(options.data / openb.NODES)
    if options.quick:
        nodes = nodes[::10]
    pods = openb.read_pods(options.data / openb.PODS.format(trace=options.trace))
    lifetimes, source = lifetimes_of(options.lifetimes)
    classes = openb.job_classes(pods, lifetimes)
    until_s = options.hours * 3600
    rng = np.random.default_rng(options.seed)
    arrivals = generate(classes, rate_per_s=rate_for(classes, nodes, load), until_s=until_s, rng=rng)
    return SimulationSpec(
        name=f"churn {options.trace} {load:.0%}",
        nodes=openb.node_order(nodes, options.seed),
        arrivals=arrivals,
        policy=policy,
        seed=options.seed,
        until_s=until_s,
        warm_s=WARM * until_s,
        samples=96,
        notes=(f"pods: openb {options.trace}; lifetimes: {source}",),
    )


def one(job: tuple[argparse.Namespace, float, str]) -> tuple[Report, float]:
    """Run one load and policy in a process of its own."""
    start = time.perf_counter()
    return simulate(spec_of(*job)), round(time.perf_counter() - start, 1)


def line(load: float, report: Report, seconds: float) -> str:
    """Return one line of the table."""
    mean = report.mean
    return (
        f"{load:5.2f} {report.policy:14} {mean.compute_reserved:8.2%} {mean.waiting:9.1f} {report.waiting:8d} "
        f"{report.rejected:8d} {report.finished:9d} {duration(report.waits.mean_s):>9} "
        f"{duration(report.waits.p95_s):>9} {'diverges' if report.diverges else '':9}{seconds:6.1f}"
    )


def main() -> int:
    """Measure, print, write."""
    options = arguments()
    if not options.data.is_dir():
        print(f"The openb traces are not in {options.data}; give their folder with --data.", file=sys.stderr)
        return 2
    jobs = [
        (options, float(load), policy) for load in options.loads.split(",") for policy in options.policies.split(",")
    ]
    rows: list[dict[str, Any]] = []
    print(
        f"{'load':>5} {'policy':14} {'reserved':>8} {'queue':>9} {'waiting':>8} {'rejected':>8} {'finished':>9} "
        f"{'wait':>9} {'p95':>9} {'':9}{'took s':>6}"
    )
    try:
        with ProcessPoolExecutor(max_workers=max(1, options.jobs)) as pool:
            for (_, load, _), (report, seconds) in zip(jobs, pool.map(one, jobs), strict=True):
                print(line(load, report, seconds), flush=True)
                row = to_builtins(report)
                rows.append({"load": load, "seconds": seconds, **{k: v for k, v in row.items() if k != "series"}})
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(rows[0]["notes"][0], f"; seed {options.seed}; {options.hours:.0f} h, the last third counts", sep="")
    body = {"trace": options.trace, "seed": options.seed, "hours": options.hours, "runs": rows}
    machine.finish("churn", body, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
