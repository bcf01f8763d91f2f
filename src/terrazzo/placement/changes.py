"""Changes that would let a pod in: data, with one line for people."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from terrazzo.model.quantity import format_mib
from terrazzo.model.request import Ask, ContainerRequest, NodeRules, Pattern, PodRequest
from terrazzo.placement.moves import Move, Moves


def _on(nodes: int) -> str:
    return f" ({nodes} node{'s' if nodes != 1 else ''})" if nodes else ""


class Smaller(Struct, frozen=True, tag=True):
    """Ask for less of one thing.

    Attributes:
        field: ``memory_mib``, ``memory_percent``, ``cores_percent``, ``count``, or ``share_mib``: that much memory of a
            device instead of a whole one.
        value: the most that fits now.
        nodes: on how many nodes.
    """

    field: str
    value: int
    nodes: int = 0

    def apply(self, request: PodRequest) -> PodRequest:
        """Return the request, changed."""
        ask = next(ask for container in request.containers for ask in container.asks)
        if self.field == "share_mib":
            new = msgspec.structs.replace(ask, whole=False, memory_mib=self.value)
        else:
            new = msgspec.structs.replace(ask, **{self.field: self.value})
        return msgspec.structs.replace(request, containers=with_ask(request, new))

    def describe(self) -> str:
        """Return one line."""
        match self.field:
            case "memory_mib":
                words = format_mib(self.value, down=True)
            case "share_mib":
                words = f"{format_mib(self.value, down=True)} of a shared device"
            case "memory_percent":
                words = f"{self.value}% of memory"
            case "cores_percent":
                words = f"{self.value}% of compute" if self.value else "no cores"
            case _:
                words = f"{self.value} device{'s' if self.value != 1 else ''}"
        return f"{words} now{_on(self.nodes)}"


RULES = ("model", "vendor", "device", "exclusive", "numa_bind", "node")
_RULE_WORDS = {
    "model": "without the model list",
    "vendor": "without the vendor list",
    "device": "without the device list",
    "exclusive": "not exclusive",
    "numa_bind": "without NUMA binding",
    "node": "without its node selector and affinity",
}


class Without(Struct, frozen=True, tag=True):
    """Drop one rule of the pod.

    Attributes:
        rule: one of ``RULES``.
        nodes: on how many nodes it then fits.
    """

    rule: str
    nodes: int = 0

    def apply(self, request: PodRequest) -> PodRequest:
        """Return the request, changed."""
        replace = msgspec.structs.replace
        match self.rule:
            case "model":
                return replace(request, model=Pattern())
            case "vendor":
                return replace(request, vendor=Pattern())
            case "device":
                return replace(request, device=Pattern())
            case "exclusive":
                return replace(request, exclusive=False)
            case "numa_bind":
                return replace(request, numa_bind=False)
        return replace(request, rules=NodeRules(tolerations=request.rules.tolerations))

    def describe(self) -> str:
        """Return one line."""
        return f"{_RULE_WORDS[self.rule]}{_on(self.nodes)}"


class Ends(Struct, frozen=True, tag=True):
    """Wait for a pod, or for all pods of an owner, to end.

    Attributes:
        who: namespace and name, or namespace and owner.
        keys: the pods.
    """

    who: str
    keys: tuple[str, ...]

    def describe(self) -> str:
        """Return one line."""
        return f"{self.who} ends"


class OneMore(Struct, frozen=True, tag=True):
    """Add a node.

    Attributes:
        like: an existing node of the kind.
        what: its devices, in words.
    """

    like: str
    what: str

    def describe(self) -> str:
        """Return one line."""
        return f"+1 node like {self.like} ({self.what})"


class Moved(Struct, frozen=True, tag=True):
    """Move running pods, as the plan says."""

    plan: Moves

    def describe(self) -> str:
        """Return one line."""
        moves = [f"{move.pod} to {_place(move)}" for move in self.plan.moves]
        return f"{len(moves)} move{'s' if len(moves) != 1 else ''}: {', '.join(moves)}"


def _place(move: Move) -> str:
    if move.after.node != move.before.node:
        return move.after.node
    return "another device of the same node"


class Preempts(Struct, frozen=True, tag=True):
    """Preempt pods of lower priority."""

    pods: tuple[str, ...]
    keys: tuple[str, ...]

    def describe(self) -> str:
        """Return one line."""
        return f"preempts {', '.join(self.pods)}"


Change = Smaller | Without | Ends | OneMore | Moved | Preempts


def with_ask(request: PodRequest, new: Ask) -> tuple[ContainerRequest, ...]:
    """Return the containers with the pod's only ask replaced."""
    return tuple(
        msgspec.structs.replace(container, asks=(new,)) if container.asks else container
        for container in request.containers
    )
