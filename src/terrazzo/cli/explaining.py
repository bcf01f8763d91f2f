"""What there is to say about one pod: where it stands, why, and what would help."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from terrazzo.admission.summary import shortfalls
from terrazzo.admission.vendors import REMEDY
from terrazzo.cli import granted
from terrazzo.cli.cluster import Cluster
from terrazzo.model.allocation import Allocation, DeviceUse
from terrazzo.model.device import Device
from terrazzo.model.errors import InputError
from terrazzo.model.request import PodRequest
from terrazzo.placement import sentences

_NEAREST = 3
_CHANGES = 5
_CALLED: tuple[Callable[[PodRequest], str], ...] = (
    lambda pod: pod.title,
    lambda pod: pod.name,
    lambda pod: pod.owner.partition("/")[2],
)
"""Names that people use for a pod, the most exact first."""


class Held(Struct, frozen=True, kw_only=True):
    """A device that the pod holds, or would get: all but ``uuid`` in words."""

    container: str
    index: int
    model: str
    uuid: str
    memory: str
    cores: str
    remains: str
    neighbours: tuple[str, ...] = ()


class Story(Struct, frozen=True, kw_only=True):
    """All that there is to say.

    Attributes:
        pod: namespace and name.
        state: ``runs``, ``fits``, ``waits`` or ``left alone``.
        asks: what it asks for.
        node: where it runs or would go; empty when it waits.
        nodes: nodes of the cluster.
        held: devices it holds or would get.
        reasons: why not, in words, with the number of nodes each.
        nearest: nodes that come nearest, with what they lack.
        changes: each of which would make it fit.
        devices: per device that was refused: node, device, why.
        remarks: sentences.
        notes: what a reader should know of the dump.
    """

    pod: str
    state: str
    asks: str
    node: str = ""
    nodes: int = 0
    held: tuple[Held, ...] = ()
    reasons: tuple[tuple[str, int], ...] = ()
    nearest: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    devices: tuple[tuple[str, str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def tell(cluster: Cluster, given: Sequence[PodRequest], name: str) -> Story:
    """Return what there is to say about the pod called ``name``.

    Args:
        cluster: as the dump tells it; not changed.
        given: pods of manifests, which may not be in the cluster yet.
        name: ``name``, ``namespace/name``, or the name of the workload that makes it.

    Raises:
        InputError: there is no such pod, or several.
    """
    request = _find([*cluster.requests.values(), *cluster.waiting], given, name)
    asks = sentences.asks(request)
    nodes = sum(1 for _ in cluster.fleet.nodes())
    base = Story(pod=request.title, state="", asks=asks, nodes=nodes, notes=tuple(cluster.notes))
    held = cluster.fleet.allocation(request.key)
    if held is not None:
        return _running(cluster, request, held, base)
    if not request.asks_devices:
        return _but(base, state="left alone", remarks=("It asks for no device, so Terrazzo has no say in it.",))
    if cluster.undecided(request):
        why = f"Nobody says whether it runs on {' or '.join(cluster.vendors)}; {REMEDY}."
        return _but(base, state="waits", remarks=(why,))
    placed = cluster.engine.decide(request)
    if placed is not None:
        return _but(base, state="fits", node=placed.node, held=_held(cluster, placed))
    return _waiting(cluster, request, base)


def _but(story: Story, **changes: Any) -> Story:
    return Story(**{**{name: getattr(story, name) for name in story.__struct_fields__}, **changes})


def _find(cluster: Sequence[PodRequest], given: Sequence[PodRequest], name: str) -> PodRequest:
    """Pods of the cluster come first: what runs is more than what is written."""
    for pods in (cluster, given):
        for called in _CALLED:
            found = [pod for pod in pods if called(pod) == name]
            if len({pod.namespace for pod in found}) > 1:
                titles = " or ".join(sorted(pod.title for pod in found)[:3])
                raise InputError(f"several pods are called {name}", remedy=f"write {titles}")
            if found:
                return next((pod for pod in found if pod.asks_devices), found[0])
    names = sorted({pod.title for pod in (*cluster, *given)})
    short = {title.partition("/")[2]: title for title in names}
    near = difflib.get_close_matches(name, [*names, *short], n=1)
    if not near:
        raise InputError(f"there is no pod {name}", remedy="give the manifest that makes it with -f")
    raise InputError(f"there is no pod {name}", remedy=f"did you mean {short.get(near[0], near[0])}?")


def _running(cluster: Cluster, request: PodRequest, held: Allocation, base: Story) -> Story:
    remarks: tuple[str, ...] = ()
    if request.key in cluster.unplaced:
        why = sentences.node_line(cluster.unplaced[request.key])
        remarks = (f"Nobody says which devices it holds, and the node has none that it could ({why}).",)
    elif not request.asks_devices:
        remarks = ("It asks for no device, so Terrazzo has no say in it.",)
    return _but(base, state="runs", node=held.node, held=_held(cluster, held), remarks=remarks)


def _held(cluster: Cluster, allocation: Allocation) -> tuple[Held, ...]:
    views = {view.device.uuid: view for view in cluster.fleet.devices(allocation.node)}
    mine = cluster.fleet.allocation(allocation.pod) is not None
    used = {use.uuid: use for use in allocation.uses}
    told = []
    for container in allocation.containers:
        for grant in container.devices:
            view = views.get(grant.uuid)
            if view is None:
                told.append(
                    Held(container=container.container, index=-1, model="(not on the node any more)", uuid=grant.uuid,
                         memory=granted.memory(grant.memory_mib), cores=str(grant.units), remains="–")
                )  # fmt: skip
                continue
            device, use = view.device, used.get(grant.uuid)
            taken = (0, 0) if mine or use is None else (use.memory_mib, use.units)
            left = (max(0, view.free_mib - taken[0]), max(0, view.free_units - taken[1]))
            memory, cores, remains = granted.grant(grant, device, left)
            told.append(
                Held(container=container.container, index=device.index, model=granted.device(device, grant),
                     uuid=grant.uuid, memory=memory, cores=cores, remains=remains,
                     neighbours=_neighbours(cluster, device, allocation.pod))
            )  # fmt: skip
    return tuple(told)


def _neighbours(cluster: Cluster, device: Device, pod: str) -> tuple[str, ...]:
    uses = cluster.fleet.uses(device.node, device.uuid)
    return tuple(f"{cluster.engine.title(key)} {_use(use, device)}" for key, use in uses.items() if key != pod)


def _use(use: DeviceUse, device: Device) -> str:
    return f"holds {granted.memory(use.memory_mib)}, {granted.units(use.units, device)}"


def _waiting(cluster: Cluster, request: PodRequest, base: Story) -> Story:
    from terrazzo.placement.explain import explain  # noqa: PLC0415 - only when something does not fit

    found = explain(cluster.engine, request, most=_CHANGES, requests=cluster.requests)
    reasons = tuple((sentences.SHORT[reason], number) for reason, number in sentences.grouped(found.rejections))
    near = sorted(filter(sentences.may_do, found.rejections), key=sentences.distance)[:_NEAREST]
    devices = tuple(
        (no.node, str(device.index), sentences.device_line(device)) for no in found.rejections for device in no.devices
    )
    return _but(
        base,
        state="waits",
        reasons=reasons,
        nearest=tuple(f"{no.node}: {sentences.nearest_line(no)}" for no in near),
        changes=tuple(change.describe() for change in found.changes),
        devices=devices,
        remarks=tuple(f"{clause[0].upper()}{clause[1:]}." for clause in shortfalls(request, cluster.summary)),
    )


def as_data(story: Story) -> Any:
    """Return the story for ``-o json``; the keys are part of the interface."""
    return to_builtins(story)
