"""Placement through the real kube-scheduler against the engine alone: the openb default trace on part of its fleet.

usage: bench/quality.py [--nodes 300] [--seeds 42] [--ledger classic] [--quick] [--json] [--data DIR]

Both get the same pods in the same order, as the published protocol draws them; nothing leaves. The engine alone
decides one after the other. In the cluster pods are created one after the other and queue as they may: kube-scheduler
asks, several binds are under way at once, and pods of a backlog are nominated. Pods without devices are placed by
kube-scheduler itself. Budget: 0.5 points of allocation at 100 % arrival between the two.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np

from terrazzo.kube.kinds import POD
from terrazzo.model.node import Node
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator import openb
from terrazzo.simulator.openb import TracePod
from terrazzo.testing.cluster.stack import Stack, pod_object
from terrazzo.testing.cluster.waiting import wait_until

DATA = Path(__file__).parent.parent.parent / "shared" / "openb"
TRACE = "default"
POINTS = 0.5
SETTLED_S = 15.0
LONGEST_S = 1800.0


def limits(pod: TracePod) -> dict[str, str]:
    """Return what a person would write for a pod of the trace."""
    found = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.devices:
        found["terrazzo.io/gpu"] = str(pod.devices)
    if pod.devices and pod.milli < 1000:
        percent = str(-(-pod.milli // 10))
        found |= {"terrazzo.io/gpu-memory-percentage": percent, "terrazzo.io/gpu-cores": percent}
    return found


def engine_alone(nodes: list[Node], pods: list[TracePod]) -> list[bool]:
    """Return which pods are placed when nothing stands between them and the engine."""
    fleet = Fleet(nodes)
    engine = Engine(fleet)
    placed = []
    for number, pod in enumerate(pods):
        request = pod.request(f"pod-{number}")
        engine.learn(request)
        found = engine.decide(request)
        if found is not None:
            fleet.grant(found)
        placed.append(found is not None)
    return placed


def in_cluster(nodes: list[Node], pods: list[TracePod], ledger: str) -> list[bool]:
    """Return which pods are bound by a real kube-scheduler."""
    with Stack("1.37", ledger=ledger, controllers=False) as stack:
        stack.add_nodes(nodes)
        admin = stack.plane.admin
        for number, pod in enumerate(pods):
            models = {"terrazzo.io/model": ",".join(pod.models)} if pod.models else {}
            admin.create(POD, pod_object(f"pod-{number}", limits(pod), annotations=models), "default")
        counts: list[tuple[float, int]] = []

        def settled() -> dict[str, bool] | None:
            now = {body["metadata"]["name"]: body for body in admin.list(POD, "default")}
            bound = {name: bool(body["spec"].get("nodeName")) for name, body in now.items()}
            undecided = sum(not bound[name] and not now[name]["status"].get("conditions") for name in now)
            counts.append((time.monotonic(), sum(bound.values()) - undecided))
            before = [count for when, count in counts if when < counts[-1][0] - SETTLED_S]
            return bound if not undecided and before and before[-1] == counts[-1][1] else None

        found = wait_until(settled, "every pod is bound or told why not", deadline_s=LONGEST_S, step_s=2.0)
        assert found is not None
        return [found[f"pod-{number}"] for number in range(len(pods))]


def allocation(nodes: list[Node], pods: list[TracePod], placed: list[bool]) -> float:
    """Return the mean percent of devices allocated over the arrivals at which what was asked rounds to 100 %."""
    capacity = 1000 * sum(len(node.devices) for node in nodes)
    asked = np.cumsum([pod.demand_milli for pod in pods]) * 100 / capacity
    given = np.cumsum([pod.demand_milli * is_placed for pod, is_placed in zip(pods, placed, strict=True)])
    return float(given[np.round(asked) == round(asked[-1])].mean() * 100 / capacity)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure each seed."""
    every = openb.read_nodes(options.data / openb.NODES)
    trace = openb.read_pods(options.data / openb.PODS.format(trace=TRACE))
    first, _, last = options.seeds.partition("-")
    runs = []
    for seed in range(int(first), int(last or first) + 1):
        chosen = np.random.default_rng(seed).choice(len(every), size=options.nodes, replace=False)
        # An API server lists by name; ties are broken in that order.
        nodes = sorted((every[i] for i in chosen), key=lambda node: node.name)
        capacity = 1000 * sum(len(node.devices) for node in nodes)
        pods = [trace[i] for i in openb.sequence(trace, capacity, 1.0, seed)]
        alone = allocation(nodes, pods, engine_alone(nodes, pods))
        began = time.monotonic()
        cluster = allocation(nodes, pods, in_cluster(nodes, pods, options.ledger))
        run = {"seed": seed, "pods": len(pods), "engine": round(alone, 3), "cluster": round(cluster, 3)}
        runs.append({**run, "seconds": round(time.monotonic() - began)})
        print(
            f"seed {seed}, {len(nodes)} nodes, {len(pods)} pods: engine alone {alone:.2f} %, "
            f"through kube-scheduler {cluster:.2f} %, difference {cluster - alone:+.2f} (budget {POINTS})",
            flush=True,
        )
    return runs


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--seeds", default="42", help="first-last, or one")
    parser.add_argument("--ledger", choices=("classic", "dra"), default="classic")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the openb CSV files")
    parser.add_argument("--quick", action="store_true", help="30 nodes; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"The openb traces are not in {options.data}; give their folder with --data.", file=sys.stderr)
        return 2
    if options.quick:
        options.nodes = 30
    runs = measure(options)
    body = {"trace": TRACE, "nodes": options.nodes, "ledger": options.ledger, "runs": runs, "budget_points": POINTS}
    machine.finish("quality", body, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
