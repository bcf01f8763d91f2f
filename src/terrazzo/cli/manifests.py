"""What the manifests of a user ask for: every pod they make, admitted as the cluster would admit it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from terrazzo.admission import Admitted, Refused, decide
from terrazzo.cli.cluster import ENDED, Cluster
from terrazzo.cli.reading import Item
from terrazzo.dialects import workloads
from terrazzo.dialects.normalise import normalise
from terrazzo.model.errors import InputError, RequestError
from terrazzo.model.request import PodRequest
from terrazzo.placement import noderules
from terrazzo.wire import kubernetes as k8s


class Wanted(NamedTuple):
    """A pod to place.

    Attributes:
        request: what it asks for, vendors decided as far as anybody says.
        warnings: sentences that admission would show its author.
    """

    request: PodRequest
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Manifests:
    """All that was handed in.

    Attributes:
        wanted: pods to place, in the order given.
        running: titles of pods that are bound already and so are not placed again.
        ended: pods that have run.
        others: objects that make no pod, counted by kind.
    """

    wanted: list[Wanted] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    ended: int = 0
    others: Counter[str] = field(default_factory=Counter)


def read(cluster: Cluster, items: Sequence[Item]) -> Manifests:
    """Return the pods that the objects make.

    A DaemonSet makes one pod for each node that its own rules allow. A PriorityClass among the objects counts.

    Raises:
        TerrazzoError: an object cannot be read, asks for what can never be valid, is given twice, or none makes a pod.
    """
    found = Manifests()
    seen: dict[str, str] = {}
    for item in items:
        if cluster.learn_priority(item):
            continue
        made = workloads.pods_of(item.body, item.where)
        if not made and not workloads.is_workload(item.body):
            found.others[item.kind] += 1
        admitted: dict[int, Wanted] = {}
        for each in made:
            _add(cluster, found, item, each, admitted, seen)
    if not (found.wanted or found.running or found.ended):
        kinds = ", ".join(found.others) or "nothing that runs"
        raise InputError(f"makes no pod ({kinds})", where=items[0].where, remedy="give a Pod or a workload")
    return found


def _add(
    cluster: Cluster,
    found: Manifests,
    item: Item,
    made: workloads.Made,
    admitted: dict[int, Wanted],
    seen: dict[str, str],
) -> None:
    pod = _named(made.pod, len(seen))
    title = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
    if title in seen:
        raise InputError(f"pod {title} is given twice, first in {seen[title]}", where=item.where, remedy="give it once")
    seen[title] = item.where
    if pod.status.phase in ENDED:
        found.ended += 1
    elif pod.spec.node_name and (pod.metadata.uid or pod.status.phase):
        found.running.append(title)
    else:
        wanted = admitted.get(id(pod.spec))
        if wanted is None:
            wanted = admitted[id(pod.spec)] = _admit(cluster, pod, item.where)
        request = msgspec.structs.replace(wanted.request, name=pod.metadata.name, uid=pod.metadata.uid)
        wanted = wanted._replace(request=request)
        found.wanted += _per_node(cluster, wanted) if made.per_node else [wanted]


def _named(pod: k8s.Pod, number: int) -> k8s.Pod:
    """Give a pod the name that the API server would make up."""
    meta = pod.metadata
    if meta.name:
        return pod
    name = f"{meta.generate_name or 'unnamed-'}{number}"
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, name=name))


def _admit(cluster: Cluster, pod: k8s.Pod, where: str) -> Wanted:
    warnings = cluster.prioritise(pod)
    normalise(pod, where=where)  # for the file and line in what it refuses
    match decide(pod, cluster.policy, cluster.summary):
        case Refused(sentence):
            raise RequestError(sentence.rstrip("."), where=where)
        case Admitted(request, told):
            return Wanted(request, (*warnings, *told))


def _per_node(cluster: Cluster, wanted: Wanted) -> list[Wanted]:
    request = wanted.request
    pinned = (
        msgspec.structs.replace(
            request,
            name=f"{request.name}-{node.name}",
            rules=msgspec.structs.replace(request.rules, node_name=node.name),
        )
        for node in cluster.fleet.nodes()
        if noderules.allows(request.rules, node) is None
    )
    return [wanted._replace(request=each) for each in pinned]
