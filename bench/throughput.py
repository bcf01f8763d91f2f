"""Pods bound per second: kube-scheduler with Terrazzo against kube-scheduler alone, on fresh control planes.

usage: bench/throughput.py [--nodes 5000] [--pods 3000] [--version 1.37] [--quick] [--json]

A backlog of one-container pods waits when kube-scheduler starts; the rate is counted from the first pod bound to the
last. With Terrazzo all nodes are looked at (``percentageOfNodesToScore: 100``) and each pod gets part of a device;
alone, kube-scheduler counts a plain extended resource: once on all nodes, once on the sample that it looks at by
default. Budget: 2.5 times the first, 0.6 times the second. Nodes are Node objects; no controllers run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import machine
from msgspec import Struct, field

from terrazzo.dialects import catalogue
from terrazzo.kube import watch
from terrazzo.kube.client import Client
from terrazzo.kube.kinds import NODE, POD
from terrazzo.model.node import Node
from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.process import Process
from terrazzo.testing.cluster.stack import Stack, pod_object

TO_ALL, TO_SAMPLED = 2.5, 0.6
DEVICES = 8
PLAIN = "example.test/gpu"
LONGEST_S = 900.0
ALL_NODES = {"percentageOfNodesToScore": 100}
Figures = dict[str, Any]
SHARE = {"terrazzo.io/gpu-memory": "8Gi", "terrazzo.io/gpu-cores": "10"}


class _Spec(Struct, rename="camel"):
    node_name: str = ""


class _Meta(Struct):
    uid: str = ""


class _Pod(Struct):
    """A pod of which only one thing matters."""

    metadata: _Meta = field(default_factory=_Meta)
    spec: _Spec = field(default_factory=_Spec)


async def bound_times(client: Client, pods: int) -> list[float]:
    """Return when each pod was bound, as a watch tells, once all are."""
    seen: dict[str, float] = {}
    following = watch.follow(client, POD, _Pod, "default")
    async with asyncio.timeout(LONGEST_S):
        async for news in following:
            items = (
                news.items if isinstance(news, watch.Listed) else [news.item] if isinstance(news, watch.Changed) else []
            )
            now = time.monotonic()
            for pod in items:
                if pod.spec.node_name:
                    seen.setdefault(pod.metadata.uid, now)
            if len(seen) >= pods:
                break
    await following.aclose()
    return sorted(seen.values())


def cpu_s(process: Process) -> float:
    """Return the processor time that a process has used."""
    with Path(f"/proc/{process.pid}/stat").open(encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(plane: ControlPlane, pods: int, limits: Mapping[str, str], name: str, parts: Mapping[str, Process]) -> Figures:
    """Return how fast a backlog was bound, and what that cost each process.

    kube-scheduler is paused while the backlog arises, not stopped: one that starts takes pods in random order.

    Args:
        plane: the cluster.
        pods: how many.
        limits: of each pod's container.
        name: of the scheduler that is to take them.
        parts: processes, ``scheduler`` among them.
    """
    before = {part: cpu_s(each) for part, each in parts.items()}
    parts["scheduler"].pause()
    amounts = {"cpu": "100m", "memory": "128Mi", **limits}
    made = [pod_object(f"pod-{i:05}", amounts, scheduler=name) for i in range(pods)]
    plane.admin.create_all(POD, made, "default")
    created = {part: cpu_s(each) for part, each in parts.items()}
    parts["scheduler"].resume()
    times = plane.admin.run(bound_times(plane.admin.client, pods))
    used = {part: cpu_s(each) - created[part] for part, each in parts.items()}
    return {
        "pods_per_second": round((len(times) - 1) / max(1e-9, times[-1] - times[0]), 1),
        "seconds": round(times[-1] - times[0], 2),
        "cpu_ms_per_pod": {part: round(1000 * seconds / pods, 2) for part, seconds in used.items()},
        "cpu_ms_per_pod_created": {part: round(1000 * (created[part] - before[part]) / pods, 2) for part in parts},
    }


def fleet(nodes: int) -> list[Node]:
    """Return nodes with eight devices each."""
    made = []
    for number in range(nodes):
        name = f"node-{number}"
        devices = tuple(
            catalogue.device("nvidia", "A100-80", node=name, uuid=f"{name}/{i}", index=i) for i in range(DEVICES)
        )
        made.append(Node(name=name, cpu_milli=256_000, memory_mib=1 << 21, max_pods=250, devices=devices))
    return made


def stock(version: str, nodes: int, pods: int, config: Mapping[str, Any]) -> Figures:
    """Measure kube-scheduler alone."""
    with ControlPlane(version, scheduler=False, controllers=False) as plane:
        objects = [node_object(node, managed=False, extended={PLAIN: DEVICES}) for node in fleet(nodes)]
        plane.admin.create_all(NODE, objects)
        access = plane.kubeconfig("system:kube-scheduler")
        scheduler = plane.make_scheduler("stock", config, access).start()
        parts = {"api": plane.api, "etcd": plane.etcd, "scheduler": scheduler}
        return rate(plane, pods, {PLAIN: "1"}, "default-scheduler", parts)


def ours(version: str, nodes: int, pods: int, ledger: str) -> Figures:
    """Measure kube-scheduler with Terrazzo."""
    with Stack(version, ledger=ledger, controllers=False) as stack:
        plane = stack.plane
        stack.add_nodes(fleet(nodes))
        # As in the other runs the scheduler has seen all nodes before the first pod comes.
        stack.scheduler.restart()
        parts = {"api": plane.api, "etcd": plane.etcd, "scheduler": stack.scheduler}
        parts |= {"extender": stack.extender, "controller": stack.controller}
        return rate(plane, pods, SHARE, "terrazzo", parts)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all, one after the other."""
    size = (options.version, options.nodes, options.pods)
    found: dict[str, Any] = {"nodes": options.nodes, "pods": options.pods, "kubernetes": options.version}
    for name in options.only.split(","):
        match name:
            case "stock_all":
                found[name] = stock(*size, ALL_NODES)
            case "stock_sampled":
                found[name] = stock(*size, {})
            case _:
                found[name] = ours(*size, name.removeprefix("terrazzo_"))
        part = found[name]
        print(f"{name:>16}: {part['pods_per_second']} pods a second; CPU ms a pod {part['cpu_ms_per_pod']}", flush=True)
    return found


def ratios(found: Mapping[str, Any]) -> dict[str, float]:
    """Return, per ledger, the rate against kube-scheduler alone."""
    result = {}
    for name in found:
        if not name.startswith("terrazzo_"):
            continue
        for other in ("stock_all", "stock_sampled"):
            if other in found:
                ratio = found[name]["pods_per_second"] / found[other]["pods_per_second"]
                result[f"{name}_to_{other}"] = round(ratio, 2)
    return result


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--version", default="1.37", help="of Kubernetes")
    parser.add_argument(
        "--only", default="stock_all,stock_sampled,terrazzo_classic,terrazzo_dra", help="names, with commas"
    )
    parser.add_argument("--quick", action="store_true", help="500 nodes, 300 pods; writes no results")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.pods = 500, 300
    found = measure(options)
    found["ratios"] = ratios(found)
    for name, ratio in found["ratios"].items():
        budget = TO_ALL if name.endswith("stock_all") else TO_SAMPLED
        print(f"{name}: {ratio} (budget {budget})")
    limits = {"budget_to_stock_all": TO_ALL, "budget_to_stock_sampled": TO_SAMPLED}
    machine.finish("throughput", {**found, **limits}, as_json=options.json, keep=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
