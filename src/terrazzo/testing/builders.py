"""Builders of valid values: what is not given has a plain default."""

from __future__ import annotations

from typing import Any, NamedTuple

from terrazzo.dialects import catalogue
from terrazzo.model.device import Device, SharingMode
from terrazzo.model.node import Node
from terrazzo.model.request import Ask, ContainerKind, ContainerRequest, PodRequest
from terrazzo.wire import kubernetes as k8s

VENDORS = ("nvidia", "ascend", "cambricon", "hygon", "mthreads")
"""The five vendors for which everything is proved alike."""


class Kind(NamedTuple):
    """A vendor's device in one of the ways in which it can be shared.

    Attributes:
        vendor, model: the chip.
        mode: how it is shared; None = as usual.
    """

    vendor: str
    model: str
    mode: SharingMode | None = None

    def __str__(self) -> str:
        """Return a readable test id."""
        return f"{self.vendor}-{self.model}" + (f"-{self.mode}" if self.mode else "")


SHARED = (
    Kind("nvidia", "A100-80"),
    Kind("cambricon", "MLU370-X8"),
    Kind("hygon", "K100"),
    Kind("mthreads", "S4000"),
    Kind("ascend", "910B3"),
)
"""One kind per vendor, shared as that vendor's devices are."""
CUT = (Kind("nvidia", "A100-80", SharingMode.GEOMETRY), Kind("ascend", "910B3"))
"""Kinds that are cut into slices, with position and without."""


def make_device(kind: Kind = SHARED[0], *, node: str = "node-0", index: int = 0, **more: Any) -> Device:
    """Return a device of a kind; any field can be given."""
    uuid = more.pop("uuid", f"{node}/{kind.vendor}-{index}")
    mode = more.pop("mode", kind.mode)
    return catalogue.device(kind.vendor, kind.model, node=node, uuid=uuid, index=index, mode=mode, **more)


def make_node(name: str = "node-0", kind: Kind = SHARED[0], devices: int = 2, **more: Any) -> Node:
    """Return a node with devices of one kind; ``device`` gives fields of all of them."""
    fields = more.pop("device", {})
    made = tuple(make_device(kind, node=name, index=index, **fields) for index in range(devices))
    defaults: dict[str, Any] = {"cpu_milli": 128_000, "memory_mib": 1 << 20, "max_pods": 250, "devices": made}
    return Node(name=name, **{**defaults, **more})


def make_request(
    name: str = "pod-0", *asks: Ask | tuple[Ask, ...], kinds: dict[int, ContainerKind] | None = None, **more: Any
) -> PodRequest:
    """Return a pod with one container per ask (or tuple of asks).

    Args:
        name: of the pod; its UID is made from it.
        *asks: by container; without any the pod asks for no device.
        kinds: kind by container, where it is no app container.
        **more: any field of ``PodRequest``.
    """
    containers = tuple(
        ContainerRequest(f"c{i}", (kinds or {}).get(i, ContainerKind.APP), ask if isinstance(ask, tuple) else (ask,))
        for i, ask in enumerate(asks)
    )
    return PodRequest(name=name, uid=more.pop("uid", f"uid-{name}"), containers=containers, **more)


def fraction(memory_mib: int = 8192, cores_percent: int = 0, count: int = 1) -> Ask:
    """Return an ask for a part of ``count`` devices."""
    return Ask(count=count, memory_mib=memory_mib, cores_percent=cores_percent)


def whole(count: int = 1) -> Ask:
    """Return an ask for whole devices."""
    return Ask(count=count, whole=True)


def make_pod(name: str = "pod-0", limits: dict[str, k8s.Quantity] | None = None, **more: Any) -> k8s.Pod:
    """Return a pod with one container that has these limits; ``annotations`` and ``node`` may be given."""
    meta = k8s.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", annotations=more.pop("annotations", None))
    container = k8s.Container(name="main", image="app:1", resources=k8s.Resources(limits=limits))
    return k8s.Pod(meta, k8s.PodSpec(containers=[container], node_name=more.pop("node", "")), k8s.PodStatus(**more))
