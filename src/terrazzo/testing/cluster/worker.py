"""A node with a real kubelet and containerd, whose pods are real processes. Needs root.

Kubelet's places are fixed (``/var/lib/kubelet/device-plugins`` and its like), so each node has a mount namespace of its
own in which those paths are folders of the run: several nodes can live on one machine, the machine's own kubelet is not
touched, and what kubelet mounts goes with the namespace. The network is the machine's; pods are on a bridge.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from terrazzo.kube.kinds import NODE
from terrazzo.model.errors import TerrazzoError
from terrazzo.testing.cluster.cgroups import joining, make_group
from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.testing.cluster.image import write_image
from terrazzo.testing.cluster.parts import part
from terrazzo.testing.cluster.process import Process
from terrazzo.testing.cluster.waiting import wait_until

IMAGE = "terrazzo.test/pause:1"
"""The one image there is; see ``tools/kube/pause`` for what it can do. Pods must not ask for it to be pulled."""
PLACES = ("/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/var/log/pods", "/var/run/cdi", "/etc/cdi")
"""What a node has for itself; the folders of the run are named alike, such as ``var-lib-kubelet``."""
SOCKET = "/run/containerd/containerd.sock"

_CONTAINERD = """version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "{socket}"
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.internal.v1.opt']
path = "{folder}/opt"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{image}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{cni}"]
conf_dir = "{folder}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"""


class Worker:
    """One node.

    Args:
        plane: whose node.
        name: of the node.
        labels: for the Node object.
        settings: fields of KubeletConfiguration, which win over ours.

    Attributes:
        folder: of the node; ``folder / "var-lib-kubelet"`` is its ``/var/lib/kubelet``, and so on.
        containerd, kubelet: the processes.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str = "worker",
        *,
        labels: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if os.getuid() != 0:
            raise TerrazzoError("a real node needs root", where=f"node {name}", remedy="use kwok nodes instead")
        self.plane, self.run, self.name = plane, plane.run, name
        self.folder = self.run.make(f"nodes/{name}")
        self._network = f"10.{random.randrange(64, 192)}.{random.randrange(256)}"
        self.address = f"{self._network}.1"
        self._bridge = f"tz{random.randrange(1 << 32):08x}"
        self._group = f"terrazzo-{self.run.folder.name}-{name}"
        self._binaries = part(f"kubernetes-{plane.version}")
        self._containers = part("containerd")
        self._namespace = Process(f"{name}-namespace", self._namespace_command(), self.run)
        self._namespace.ready = (self.folder / "mounted").exists
        self.containerd = self.process("containerd", self._containerd_command())
        self.containerd.ready = lambda: self.ctr("version")
        self.kubelet = self.process("kubelet", self._kubelet_command(labels or {}, settings or {}))

    def start(self, *, wait: bool = True) -> Self:
        """Start it, and by default wait until the node is ready.

        Raises:
            TerrazzoError: a part does not come up; the end of its log is in it.
        """
        self.run.record_kernel("cgroup", self._group)
        make_group(self._group)
        self.run.record_kernel("link", self._bridge)
        for words in (
            ("link", "add", self._bridge, "type", "bridge"),
            ("address", "add", f"{self.address}/24", "dev", self._bridge),
            ("link", "set", self._bridge, "up"),
        ):
            _run("ip", *words)
        self._namespace.start()
        self.containerd.start()
        archive = self.folder / "pause.tar"
        write_image(archive, IMAGE, part("pause") / "pause")
        self.ctr("--namespace", "k8s.io", "images", "import", "--local", str(archive))
        self.kubelet.start(wait=False)
        if wait:
            wait_until(lambda: not self.kubelet.alive or self.ready(), f"node {self.name} is ready")
            self.kubelet.wait_ready()
        return self

    def ready(self) -> bool:
        """Return whether the API server knows the node and says that it is ready."""
        found = self.plane.admin.find(NODE, self.name)
        conditions = found["status"].get("conditions", ()) if found else ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def process(
        self, name: str, command: Sequence[str | Path], *, ready: Callable[[], object] | None = None, **more: Any
    ) -> Process:
        """Return a process that sees the node's files, not started yet; an agent under test is one."""
        return Process(f"{self.name}-{name}", _Late(self._enter, command), self.run, ready=ready, **more)

    def ctr(self, *arguments: str) -> str:
        """Return what ``ctr`` prints on this node."""
        return _run(*self._enter([self._containers / "ctr", "--address", SOCKET, *arguments]))

    def _enter(self, command: Sequence[str | Path]) -> list[str]:
        script = f'{joining(self._group)}\nexec "$@"'
        inside = ["nsenter", f"--mount=/proc/{self._namespace.pid}/ns/mnt", "--"]
        return [*inside, "sh", "-euc", script, "sh", *map(str, command)]
