"""A node with a real kubelet and containerd, whose pods are real processes. Needs root.

Kubelet's places are fixed (``/var/lib/kubelet/device-plugins`` and its like), so each node has a mount namespace of its
own in which those paths are folders of the run: several nodes can live on one machine, the machine's own kubelet is not
touched, and what kubelet mounts goes with the namespace. The network is the machine's; pods are on a bridge.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from terrazzo.kube.kinds import NODE
from terrazzo.model.errors import TerrazzoError
from terrazzo.testing.cluster.cgroups import end_group, hierarchies, joining, make_group
from terrazzo.testing.cluster.control_plane import ControlPlane
from terrazzo.testing.cluster.image import write_image
from terrazzo.testing.cluster.parts import part
from terrazzo.testing.cluster.process import Process, output
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


def lacks() -> str:
    """Return which right this process lacks to run real nodes, as a sentence; empty when it may."""
    if os.getuid() != 0:
        return "a real node needs root"
    try:
        output("unshare", "--mount", "--propagation", "private", "true")
    except TerrazzoError as error:
        return f"a real node needs the right to mount ({error.what})"
    if not all(os.access(root, os.W_OK) for root in hierarchies()):
        return "a real node needs control groups that can be written"
    return ""


class Worker:
    """One node.

    Args:
        plane: whose node.
        name: of the node.
        labels: for the Node object.
        settings: fields of KubeletConfiguration, which win over ours.

    Attributes:
        folder: of the node; ``folder / "var-lib-kubelet"`` is its ``/var/lib/kubelet``, and so on.
        address, bridge, group: its address and its pods' bridge, and the control group of all its processes.
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
        if lacks():
            raise TerrazzoError(lacks(), where=f"node {name}", remedy="use kwok nodes instead")
        self.plane, self.run, self.name = plane, plane.run, name
        self.folder = self.run.make(f"nodes/{name}")
        self._network = f"10.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
        self.address = f"{self._network}.1"
        self.bridge = f"tz{secrets.token_hex(4)}"
        self.group = f"terrazzo-{self.run.folder.name}-{name}"
        self._pid, self._mounted = self.folder / "namespace.pid", self.folder / "mounted"
        self._binaries = part(f"kubernetes-{plane.version}")
        self._containers = part("containerd")
        self._namespace = Process(f"{name}-namespace", self._namespace_command(), self.run)
        self._namespace.ready = self._mounted.exists
        self.containerd = self.process("containerd", self._containerd_command())
        self.containerd.ready = lambda: self.ctr("version")
        self.kubelet = self.process("kubelet", self._kubelet_command(labels or {}, settings or {}))

    def start(self, *, wait: bool = True) -> Self:
        """Start it, and by default wait until the node is ready.

        Raises:
            TerrazzoError: a part does not come up; the end of its log is in it.
        """
        self.run.record_kernel("cgroup", self.group)
        make_group(self.group)
        self.run.record_kernel("link", self.bridge)
        for words in (
            ("link", "add", self.bridge, "type", "bridge"),
            ("address", "add", f"{self.address}/24", "dev", self.bridge),
            ("link", "set", self.bridge, "up"),
        ):
            output("ip", *words)
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
        path = f"{part('runc')}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        env = {"PATH": path, **more.pop("env", {})}
        return Process(f"{self.name}-{name}", self._enter(command), self.run, ready=ready, env=env, **more)

    def ctr(self, *arguments: str) -> str:
        """Return what ``ctr`` prints on this node."""
        return output(*self._enter([self._containers / "ctr", "--address", SOCKET, *arguments]))

    def stop(self) -> None:
        """Stop it, its containers too; the Node object and the node's files stay, and it can be started again."""
        for process in (self.kubelet, self.containerd):
            process.stop()
        end_group(self.group)
        self._namespace.stop()
        self._mounted.unlink(missing_ok=True)
        if Path("/sys/class/net", self.bridge).exists():
            output("ip", "link", "delete", self.bridge)

    def _enter(self, command: Sequence[str | Path]) -> list[str]:
        script = f'{joining(self.group)}\nexec nsenter --mount="/proc/$(cat {self._pid})/ns/mnt" -- "$@"'
        return ["sh", "-euc", script, "sh", *map(str, command)]

    def _namespace_command(self) -> list[str]:
        lines = ["mount --make-rshared /"]
        for place in PLACES:
            own = self.run.make(f"nodes/{self.name}/{place.strip('/').replace('/', '-')}")
            lines.append(f"mkdir -p {place}; mount --bind {own} {place}")
        lines += [f"echo $$ > {self._pid}", f"touch {self._mounted}", "exec sleep infinity"]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-euc", "\n".join(lines)]

    def _containerd_command(self) -> list[str]:
        text = _CONTAINERD.format(
            socket=SOCKET, folder=self.folder, image=IMAGE, cni=part("cni"), runc=part("unfiltered") / "unfiltered",
            shim=self._containers / "containerd-shim-runc-v2",
        )  # fmt: skip
        config = self.folder / "containerd.toml"
        config.write_text(text, "utf-8")
        ranges = [[{"subnet": f"{self._network}.0/24"}]]
        bridge = {
            "type": "bridge", "bridge": self.bridge, "isGateway": True,
            "ipam": {"type": "host-local", "dataDir": str(self.folder / "addresses"), "ranges": ranges},
        }  # fmt: skip
        network = {"cniVersion": "1.0.0", "name": self.bridge, "plugins": [bridge]}
        (self.run.make(f"nodes/{self.name}/cni") / "10-bridge.conflist").write_bytes(msgspec.json.encode(network))
        return [str(self._containers / "containerd"), "--config", str(config)]

    def _kubelet_command(self, labels: Mapping[str, str], settings: Mapping[str, Any]) -> list[str]:
        serving = self.plane.authority.server(f"kubelet-{self.name}", self.name)
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.plane.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "address": self.address,
            "port": self.run.port(),
            "healthzPort": 0,
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.group}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": ["pods"],
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "resolvConf": "",
            "nodeStatusUpdateFrequency": "5s",
            **settings,
        }
        file = self.folder / "kubelet.json"
        file.write_bytes(msgspec.json.encode(config))
        user = self.plane.kubeconfig(f"system:node:{self.name}", ["system:nodes"])
        words = [f"--config={file}", f"--kubeconfig={user}", f"--hostname-override={self.name}"]
        shown = ",".join(f"{name}={value}" for name, value in labels.items())
        return [
            str(self._binaries / "kubelet"), *words, f"--node-ip={self.address}",
            *([f"--node-labels={shown}"] if shown else []),
        ]  # fmt: skip
