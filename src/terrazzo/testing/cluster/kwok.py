"""Nodes that live without a machine: kwok says that they are alive and that the pods on them run.

A pod's annotations choose its fate: ``STARTS``, ``COMPLETES``, ``FAILS`` and ``ENDS`` hold durations such as
``1500ms``. Without them a pod runs at once and until it is deleted, and is gone at once when it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.testing.cluster.nodes import FAKE
from terrazzo.testing.cluster.parts import part
from terrazzo.testing.cluster.process import Process

STARTS = "testing.terrazzo.io/starts-after"
COMPLETES = "testing.terrazzo.io/completes-after"
FAILS = "testing.terrazzo.io/fails-after"
ENDS = "testing.terrazzo.io/ends-after"
STAGES = Path(__file__).with_name("stages.yaml")
LEASE_S = 40
"""As kubelets renew theirs; the controller-manager looks at leases."""


class Kwok:
    """The keeper of all nodes that ``nodes.node_object`` makes.

    Args:
        plane: whose nodes.
        stages: what happens to nodes and pods when; ours by default.

    Attributes:
        process: kwok itself; kill or pause it and all its nodes fall silent.
    """

    def __init__(self, plane: ControlPlane, *, stages: Path = STAGES) -> None:
        command = [
            str(part("kwok") / "kwok"), f"--kubeconfig={plane.kubeconfig('kwok', ['system:masters'])}",
            f"--config={stages}", f"--manage-nodes-with-annotation-selector={FAKE}=fake",
            f"--node-lease-duration-seconds={LEASE_S}", "--cidr=10.200.0.0/16", "--node-ip=10.199.0.1",
        ]  # fmt: skip
        self.process = Process("kwok", command, plane.run)

    def start(self) -> Self:
        """Start it."""
        self.process.start()
        return self

    def stop(self) -> None:
        """Stop it; its nodes stay as they are until the controller-manager finds them silent."""
        self.process.stop()
