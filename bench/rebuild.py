"""Rebuilding the books from the API server's lists alone: 5,000 nodes with 40,000 grants. Budget: 3 s.

usage: bench/rebuild.py [--nodes 5000] [--placed 40000] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import sys
import time

import decision
import machine
import numpy as np

from terrazzo.placement.engine import Engine
from terrazzo.placement.events import NodeSeen, PodSeen, Resync
from terrazzo.placement.invariants import check
from terrazzo.placement.ledger import Ledger

BUDGET_S = 3.0


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--placed", type=int, default=40_000)
    parser.add_argument("--quick", action="store_true", help="a small fleet; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.placed = 200, 1500
    resync = _written(options.nodes, options.placed)
    start = time.perf_counter()
    ledger = Ledger()
    ledger.apply(resync)
    seconds = time.perf_counter() - start
    check(ledger)
    grants = sum(1 for _ in ledger.fleet.allocations())
    print(f"{options.nodes} nodes, {grants} grants: {seconds:.2f} s (budget {BUDGET_S:.0f} s)")
    body = {"nodes": options.nodes, "grants": grants, "seconds": round(seconds, 3), "budget_s": BUDGET_S}
    machine.finish("rebuild", body, as_json=options.json, keep=not options.quick)
    return 0


def _written(nodes: int, placed: int) -> Resync:
    """Return what an API server would list after so many pods were placed."""
    rng = np.random.default_rng(1)
    fleet = decision.fleet(nodes, 8)
    engine = Engine(fleet)
    seen = []
    for request in decision.requests(8, placed, rng):
        found = engine.decide(request)
        if found is not None:
            fleet.grant(found)
            seen.append(PodSeen(request, 1, found.node, found))
    return Resync(tuple(NodeSeen(node, 1) for node in fleet.nodes()), tuple(seen))


if __name__ == "__main__":
    sys.exit(main())
