"""A cluster that is in use, as the Kubernetes objects that its API server would list.

The fleet and the mix of pods are those of ``decision.py``, so that figures of the services compare with the engine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import decision
import msgspec
import numpy as np

from terrazzo.dialects import holdings
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, PodRequest
from terrazzo.placement.engine import Engine
from terrazzo.placement.fleet import Fleet
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.wire.state import ALLOCATION

CREATED = "2026-01-01T00:00:00Z"
EVERY_VENDOR = ",".join(sorted({vendor for vendor, _ in decision.CHIPS}))


def nodes(count: int, devices: int) -> list[Node]:
    """Return the nodes of the fleet."""
    return list(decision.fleet(count, devices).nodes())


def node_objects(made: list[Node]) -> Iterator[dict[str, Any]]:
    """Yield Node objects as their agents would leave them."""
    for number, node in enumerate(made):
        body = node_object(node, ledger="classic")
        body["metadata"] |= {"uid": f"node-{number}", "resourceVersion": str(1 + number)}
        yield body


def limits(ask: Ask) -> dict[str, str]:
    """Return what a person would write for an ask: NVIDIA's in HAMi's words, others in ours."""
    if ask.whole:
        return {"terrazzo.io/gpu": str(ask.count)}
    cores = str(ask.cores_percent)
    if ask.vendors == ("nvidia",):
        share = {"nvidia.com/gpu": str(ask.count), "nvidia.com/gpumem": str(ask.memory_mib)}
        return share | ({"nvidia.com/gpucores": cores} if ask.cores_percent else {})
    share = {"terrazzo.io/gpu": str(ask.count), "terrazzo.io/gpu-memory": f"{ask.memory_mib}Mi"}
    return share | ({"terrazzo.io/gpu-cores": cores} if ask.cores_percent else {})


def pod_object(request: PodRequest, version: int = 0) -> dict[str, Any]:
    """Return a pod that asks for what a request of ``decision.py`` asks for, not bound yet."""
    ask = request.containers[0].asks[0]
    host = {"cpu": f"{request.cpu_milli}m", "memory": f"{request.memory_mib}Mi"}
    container = {
        "name": request.containers[0].name,
        "image": "example.test/app:1",
        "resources": {"limits": limits(ask), "requests": host},
    }
    metadata: dict[str, Any] = {"name": request.name, "namespace": "default", "uid": request.uid}
    metadata |= {"resourceVersion": str(version), "creationTimestamp": CREATED, "labels": {"app": "bench"}}
    metadata["annotations"] = {"terrazzo.io/vendor": ",".join(ask.vendors) or EVERY_VENDOR}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "terrazzo", "containers": [container]},
        "status": {"phase": "Pending"},
    }


def bound(made: list[Node], devices: int, count: int, version: int = 0) -> Iterator[dict[str, Any]]:
    """Yield pods that the engine has placed and that run, as many as fit of ``count``.

    Args:
        made: the nodes.
        devices: of each node.
        count: pods to place.
        version: resourceVersion of the first; 0 for pods that an API server is to give UID, version and age.
    """
    fleet = Fleet(made)
    engine = Engine(fleet)
    for number, request in enumerate(decision.requests(devices, count, np.random.default_rng(1))):
        engine.learn(request)
        found = engine.decide(request)
        if found is None:
            continue
        fleet.grant(found)
        body = pod_object(request, version + number)
        if not version:
            for name in ("uid", "resourceVersion", "creationTimestamp"):
                del body["metadata"][name]
            found = msgspec.structs.replace(found, pod="")
        body["metadata"]["annotations"][ALLOCATION] = holdings.written(found)
        body["spec"]["nodeName"] = found.node
        body["status"] = {"phase": "Running"}
        yield body
