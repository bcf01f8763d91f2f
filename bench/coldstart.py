"""From nothing to ready: a process of the control plane started in a cluster in use.

usage: bench/coldstart.py [--nodes 5000] [--devices 8] [--placed 40000] [--ledger classic] [--quick] [--json]

Nodes and bound pods are written through a real API server into etcd; no controllers run, so nothing changes them. The
time counts from the start of the process to ``/readyz``, for the process of kube-scheduler's pod and for the one of
webhook and reconciler. Budget: 10 s and 600 MiB of resident memory each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filled
import machine

from terrazzo.dialects.inventory import publish_slices
from terrazzo.kube.kinds import NODE, POD, SLICE
from terrazzo.model.errors import TerrazzoError
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.process import Process
from terrazzo.testing.cluster.stack import Stack

READY_S, RESIDENT_MIB = 10.0, 600
AT_ONCE = 2000


def fill(stack: Stack, options: argparse.Namespace) -> int:
    """Write the cluster; return how many pods it has."""
    made = filled.nodes(options.nodes, options.devices)
    ledger = stack.ledger
    stack.plane.admin.create_all(NODE, [node_object(node, ledger=ledger) for node in made])
    if ledger == "dra":
        stack.plane.admin.create_all(SLICE, [body for node in made for body in publish_slices(node)])
    number = 0
    for part in _parts(filled.bound(made, options.devices, options.placed)):
        stack.plane.admin.create_all(POD, part, "default")
        number += len(part)
    return number


def _parts(pods: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    for body in pods:
        part.append(body)
        if len(part) == AT_ONCE:
            yield part
            part = []
    yield part


def resident_mib(process: Process) -> tuple[int, int]:
    """Return the memory of a process now, and the most that it had."""
    lines = Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines()
    said = dict(line.split(":", 1) for line in lines)
    now, most = (int(said[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM"))
    return now, most


def start(stack: Stack, name: str) -> dict[str, Any]:
    """Start a service anew and return how long it took, and its memory."""
    (stack.extender if name == "scheduler" else stack.controller).stop()
    began = time.monotonic()
    process = stack.start_service(name)
    ready_s = time.monotonic() - began
    notes = process.log.read_text("utf-8").count('"event": "note"')
    if notes:
        raise TerrazzoError(f"found fault with {notes} objects\n{process.tail(5)}", where=name)
    now, most = resident_mib(process)
    process.stop()
    return {"ready_s": round(ready_s, 2), "resident_mib": now, "most_mib": most}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fill a cluster and start both services in it, one after the other."""
    with Stack("1.37", ledger=options.ledger, controllers=False) as stack:
        for each in (stack.scheduler, stack.extender, stack.controller):
            each.stop()
        began = time.monotonic()
        placed = fill(stack, options)
        print(f"{options.nodes} nodes and {placed} pods written in {time.monotonic() - began:.0f} s", flush=True)
        found: dict[str, Any] = {"nodes": options.nodes, "placed": placed, "ledger": options.ledger}
        return {**found, "extender": start(stack, "scheduler"), "controller": start(stack, "controller")}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--placed", type=int, default=40_000)
    parser.add_argument("--ledger", choices=("classic", "dra"), default="classic")
    parser.add_argument("--quick", action="store_true", help="a small fleet; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.placed = 200, 1500
    found = measure(options)
    for name in ("extender", "controller"):
        part = found[name]
        print(
            f"{name:>10}: ready after {part['ready_s']} s (budget {READY_S:g}), {part['resident_mib']} MiB, "
            f"at most {part['most_mib']} (budget {RESIDENT_MIB})"
        )
    budget = {"budget_ready_s": READY_S, "budget_resident_mib": RESIDENT_MIB}
    machine.finish("coldstart", {**found, **budget}, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
