"""Decisions per second of the engine alone: one core, mixed classes, several vendors, a fleet that is in use.

usage: bench/decision.py [--nodes 5000] [--devices 8] [--placed 40000] [--decisions 6000] [--quick] [--json]

Budget: 3,000 a second. A decision is: learn the request, decide, take the devices. Measured twice: while pods arrive,
and while for each that arrives one leaves (leaving is not timed, but it changes twice as many nodes).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import machine
import numpy as np

from terrazzo.dialects import catalogue
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, ContainerRequest, PodRequest
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet

BUDGET = 3000
CHIPS = (
    ("nvidia", "A100-80"), ("nvidia", "H100-80"), ("nvidia", "L40S"), ("cambricon", "MLU590"), ("hygon", "K100"),
    ("mthreads", "S4000"),
)  # fmt: skip


def fleet(nodes: int, devices: int) -> Fleet:
    """Return a fleet of six kinds of node in turn."""
    made = []
    for number in range(nodes):
        vendor, model = CHIPS[number % len(CHIPS)]
        name = f"node-{number}"
        cards = tuple(catalogue.device(vendor, model, node=name, uuid=f"{name}/{i}", index=i) for i in range(devices))
        made.append(Node(name=name, cpu_milli=256_000, memory_mib=1 << 21, max_pods=250, devices=cards))
    return Fleet(made)


def classes(devices: int) -> tuple[list[tuple[Ask, int]], list[float]]:
    """Return asks with the CPU that goes with them, and how often each comes."""
    parts = [
        (
            Ask(memory_mib=gib * 1024, cores_percent=cores, vendors=("nvidia",) if gib > 14 else ()),
            1000 * (1 + gib // 8),
        )
        for gib in (2, 4, 8, 14, 24, 40)
        for cores in (0, 10, 30, 50)
    ]
    whole = [
        (Ask(whole=True, vendors=("nvidia",)), 8000),
        (Ask(count=2, whole=True, vendors=("nvidia",)), 16000),
        (Ask(count=devices, whole=True, vendors=("nvidia",)), 64000),
        (Ask(whole=True, vendors=("hygon",)), 8000),
    ]
    weights = [3.0] * len(parts) + [6.0, 1.0, 0.1, 2.0]
    return parts + whole, [weight / sum(weights) for weight in weights]


def requests(devices: int, count: int, rng: np.random.Generator) -> list[PodRequest]:
    """Return that many pods of the mix."""
    mix, weights = classes(devices)
    chosen = rng.choice(len(mix), size=count, p=weights)
    return [
        PodRequest(
            name=f"pod-{i}", uid=f"uid-{i}", containers=(ContainerRequest("c", asks=(mix[k][0],)),),
            cpu_milli=mix[k][1], memory_mib=2048,
        )
        for i, k in enumerate(chosen)
    ]  # fmt: skip


def measure(nodes: int, devices: int, placed: int, decisions: int) -> dict[str, Any]:
    """Fill a fleet, then time decisions on it."""
    rng = np.random.default_rng(1)
    engine = Engine(fleet(nodes, devices))
    pods = requests(devices, placed + decisions, rng)
    held: list[str] = []
    for request in pods[:placed]:
        _decide(engine, request, held)
    half = placed + decisions // 2
    return {
        "nodes": nodes,
        "devices": nodes * devices,
        "placed": len(held),
        "arriving": _timed(engine, pods[placed:half], held),
        "arriving_and_leaving": _timed(engine, pods[half:], held, rng),
    }


def _timed(
    engine: Engine, pods: list[PodRequest], held: list[str], rng: np.random.Generator | None = None
) -> dict[str, Any]:
    """Time decisions; with ``rng`` a random pod leaves before each."""
    scored, took, refused = engine.scored, [], 0
    for request in pods:
        if rng is not None:
            engine.fleet.release(held.pop(int(rng.integers(len(held)))))
        start = time.perf_counter()
        refused += not _decide(engine, request, held)
        took.append(time.perf_counter() - start)
    micro = np.array(took) * 1e6
    return {
        "decisions": len(pods),
        "refused": refused,
        "per_second": round(1e6 / float(micro.mean())),
        "p50_us": round(float(np.median(micro))),
        "p99_us": round(float(np.quantile(micro, 0.99))),
        "nodes_scored_per_decision": round((engine.scored - scored) / len(pods), 1),
    }


def _decide(engine: Engine, request: PodRequest, held: list[str]) -> bool:
    engine.learn(request)
    found = engine.decide(request)
    if found is None:
        return False
    engine.fleet.grant(found)
    held.append(found.pod)
    return True


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--placed", type=int, default=40_000)
    parser.add_argument("--decisions", type=int, default=6000)
    parser.add_argument("--quick", action="store_true", help="a small fleet; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.placed, options.decisions = 200, 1500, 500
    found = measure(options.nodes, options.devices, options.placed, options.decisions)
    print(
        f"{found['nodes']} nodes, {found['devices']} devices, {found['placed']} pods placed; budget {BUDGET} a second"
    )
    for name in ("arriving", "arriving_and_leaving"):
        part = found[name]
        print(
            f"{name.replace('_', ' '):>20}: {part['per_second']} decisions a second, p50 {part['p50_us']} µs, "
            f"p99 {part['p99_us']} µs; {part['nodes_scored_per_decision']} nodes scored a decision, "
            f"{part['refused']} refused"
        )
    machine.finish("decision", {**found, "budget_per_second": BUDGET}, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
