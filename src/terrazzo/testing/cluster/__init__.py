"""A real Kubernetes for tests, benches and demonstrations: real parts, on loopback, in a temporary folder.

Nothing of it outlives the process that started it: parts die with their parent, and what a killed run left behind
(processes, mounts, networks, folders) the next one clears.

    with ControlPlane() as plane:
        Kwok(plane).start()
        plane.add_nodes([make_node("node-0")])
        plane.kubectl("get", "nodes")
"""

from __future__ import annotations

from terrazzo.testing.cluster.admin import Admin
from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.testing.cluster.kwok import Kwok
from terrazzo.testing.cluster.loopback import to_loopback
from terrazzo.testing.cluster.nodes import node_object
from terrazzo.testing.cluster.parts import VERSIONS, part
from terrazzo.testing.cluster.process import Process
from terrazzo.testing.cluster.relay import Relay
from terrazzo.testing.cluster.runs import Run, sweep
from terrazzo.testing.cluster.store import Store, Version
from terrazzo.testing.cluster.waiting import wait_until
from terrazzo.testing.cluster.worker import Worker

__all__ = [
    "VERSIONS",
    "Admin",
    "ControlPlane",
    "Kwok",
    "Process",
    "Relay",
    "Run",
    "Store",
    "Version",
    "Worker",
    "node_object",
    "part",
    "sweep",
    "to_loopback",
    "wait_until",
]
