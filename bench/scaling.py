"""Cost of one decision against the size of the fleet: 100 to 20,000 nodes, the same mix, the same fill.

usage: bench/scaling.py [--quick] [--json]

The cost must grow less than the fleet. The plot shows microseconds (median) by number of nodes, both logarithmic.
"""

from __future__ import annotations

import argparse
import math
import sys

import decision
import machine

SIZES = (100, 300, 1000, 3000, 10_000, 20_000)
WIDTH = 60


def plot(rows: list[dict[str, int]]) -> str:
    """Return bars on a logarithmic scale."""
    top = math.log10(max(2, *(row["p50_us"] for row in rows)))
    lines = []
    for row in rows:
        bar = "█" * max(1, round(WIDTH * math.log10(max(2, row["p50_us"])) / top))
        lines.append(f"{row['nodes']:>7} nodes {bar} {row['p50_us']} µs")
    return "\n".join(lines)


def main() -> int:
    """Measure, plot, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small fleets; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    sizes = SIZES[:2] if options.quick else SIZES
    rows = []
    for nodes in sizes:
        found = decision.measure(nodes, 8, nodes * 8, 300 if options.quick else 2000)
        rows.append({"nodes": nodes, **found["arriving"]})
        print(f"{nodes:>7} nodes: p50 {rows[-1]['p50_us']} µs, p99 {rows[-1]['p99_us']} µs", flush=True)
    print(plot(rows))
    grown, cost = sizes[-1] / sizes[0], rows[-1]["p50_us"] / rows[0]["p50_us"]
    print(f"{grown:.0f} times as many nodes: {cost:.1f} times the cost")
    body = {"sizes": rows, "fleet_grows": grown, "cost_grows": round(cost, 2)}
    machine.finish("scaling", body, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
