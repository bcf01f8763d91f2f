"""What Kubernetes itself checks about a node, as far as a dump tells; and how much a pod would like to be there.

Source: Kubernetes documentation, "Assigning Pods to Nodes" and "Taints and Tolerations".
"""

from __future__ import annotations

from terrazzo.model.node import Node, Taint
from terrazzo.model.reason import NodeRejection, Reason
from terrazzo.model.request import LabelTest, NodeRules, PodRequest


def allows(rules: NodeRules, node: Node) -> NodeRejection | None:
    """Return why the node's own state or labels keep the pod out, or None."""
    if not node.ready:
        return NodeRejection(node.name, Reason.NOT_READY)
    if node.unschedulable:
        return NodeRejection(node.name, Reason.CORDONED)
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not _tolerated(rules, taint):
            shown = f"{taint.key}={taint.value}" if taint.value else taint.key
            return NodeRejection(node.name, Reason.TAINT, detail=f"{shown}:{taint.effect}")
    return _labels(rules, node)


def _labels(rules: NodeRules, node: Node) -> NodeRejection | None:
    if rules.node_name and rules.node_name != node.name:
        return NodeRejection(node.name, Reason.SELECTOR, detail=f"spec.nodeName is {rules.node_name}")
    for key, value in rules.selector.items():
        if node.labels.get(key) != value:
            return NodeRejection(node.name, Reason.SELECTOR, detail=f"{key}={value}")
    if rules.terms and not any(_holds(term, node) for term in rules.terms):
        return NodeRejection(node.name, Reason.SELECTOR, detail="required node affinity")
    return None


def _tolerated(rules: NodeRules, taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in rules.tolerations)


def _holds(term: tuple[LabelTest, ...], node: Node) -> bool:
    labels = {**node.labels, "metadata.name": node.name}
    return bool(term) and all(test.holds(labels) for test in term)


def is_plain(rules: NodeRules) -> bool:
    """Return whether the rules say nothing, so that only the node's own state matters."""
    return not (rules.node_name or rules.selector or rules.terms or rules.preferences or rules.tolerations)


def preference(rules: NodeRules, node: Node) -> int:
    """Return the summed weight of the preferred terms that hold, less 1 for each untolerated PreferNoSchedule taint."""
    liked = sum(term.weight for term in rules.preferences if _holds(term.tests, node))
    disliked = sum(t.effect == "PreferNoSchedule" and not _tolerated(rules, t) for t in node.taints)
    return liked - disliked


def host_shortage(request: PodRequest, node: Node, cpu_milli: int, memory_mib: int, pods: int) -> NodeRejection | None:
    """Return which host resource is short, or None.

    Args:
        request: the pod.
        node: the node.
        cpu_milli: CPU left on it.
        memory_mib: memory left on it.
        pods: pods it still takes.
    """
    if request.cpu_milli > cpu_milli:
        return NodeRejection(node.name, Reason.CPU, request.cpu_milli, cpu_milli)
    if request.memory_mib > memory_mib:
        return NodeRejection(node.name, Reason.HOST_MEMORY, request.memory_mib, memory_mib)
    if pods < 1:
        return NodeRejection(node.name, Reason.PODS, 1, pods)
    for name, amount in request.other.items():
        if amount > node.other.get(name, 0):
            return NodeRejection(node.name, Reason.OTHER_RESOURCE, amount, node.other.get(name, 0), detail=name)
    return None
