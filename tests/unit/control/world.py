"""Objects as an API server sends them, and books that have been told of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import msgspec

from terrazzo.control.books import Books
from terrazzo.dialects.inventory import publish_slices
from terrazzo.model.node import Node
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.wire import kubernetes as k8s

_version = count(100)


def node(made: Node, **more: Any) -> k8s.Node:
    body = node_object(made, **more)
    body["metadata"]["resourceVersion"] = str(next(_version))
    return msgspec.convert(body, k8s.Node)


def slices(made: Node) -> list[k8s.ResourceSlice]:
    bodies = publish_slices(made)
    for body in bodies:
        body["metadata"]["resourceVersion"] = str(next(_version))
    return msgspec.convert(bodies, list[k8s.ResourceSlice])


def pod(name: str, limits: Mapping[str, Any], **more: Any) -> k8s.Pod:
    """Return a pod; ``node``, ``phase``, ``annotations``, ``uid`` and fields of its spec and status may be given."""
    meta = {"name": name, "namespace": "default", "uid": more.pop("uid", f"uid-{name}")}
    meta["resourceVersion"] = str(more.pop("version", next(_version)))
    status = {"phase": more.pop("phase", "Pending"), **more.pop("status", {})}
    container = {"name": "main", "image": "app:1", "resources": {"limits": dict(limits)}}
    spec = {"schedulerName": "terrazzo", "containers": [container], "nodeName": more.pop("node", "")}
    meta |= {"annotations": more.pop("annotations", {}), **more.pop("meta", {})}
    return msgspec.convert({"metadata": meta, "spec": {**spec, **more}, "status": status}, k8s.Pod)


def books(nodes: Iterable[Node] = (), *, dra: bool = True) -> tuple[Books, list[str]]:
    """Return books that know these nodes, and the list into which they note what is wrong."""
    noted: list[str] = []
    made = Books(noted.append)
    for each in nodes:
        made.node_seen(node(each))
        for one in slices(each) if dra else ():
            made.slice_seen(one)
    return made, noted
