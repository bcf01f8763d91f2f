"""What can happen to the books. Services turn watch events and answers of the API server into these.

Every event about an object carries its UID and resourceVersion, so that applying one twice, or two of one object out of
order, changes nothing.
"""

from __future__ import annotations

from msgspec import Struct

from terrazzo.model.allocation import Allocation
from terrazzo.model.device import Health
from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest

ENDED = ("Succeeded", "Failed")
"""Phases in which a pod needs no device any more."""


class NodeSeen(Struct, frozen=True):
    """A node appeared or changed.

    Attributes:
        node: as it is now.
        version: resourceVersion.
        agent: our agent runs there: devices of a pod that left are free only when the agent says so (``Unprepared``).
    """

    node: Node
    version: int
    agent: bool = False


class NodeGone(Struct, frozen=True):
    """A node was deleted."""

    name: str
    version: int


class PodSeen(Struct, frozen=True):
    """A pod appeared or changed, as the API server has it.

    Attributes:
        request: normalised; ``request.uid`` and ``request.phase`` are used.
        version: resourceVersion.
        node: where it is bound, empty before.
        held: the allocation written with it, None when there is none.
    """

    request: PodRequest
    version: int
    node: str = ""
    held: Allocation | None = None


class ReadBack(Struct, frozen=True):
    """A pod as it was just read, not as a watch told: settles a write that nobody answered.

    Attributes:
        request, version, node, held: as in ``PodSeen``; the version may be one that was seen before.
    """

    request: PodRequest
    version: int
    node: str = ""
    held: Allocation | None = None


class PodGone(Struct, frozen=True):
    """A pod was deleted. A UID never comes back."""

    pod: str


class Committed(Struct, frozen=True):
    """The engine decided; the ledger takes it before it is written."""

    allocation: Allocation


class Written(Struct, frozen=True):
    """The API server has the allocation."""

    allocation: Allocation


class WriteFailed(Struct, frozen=True):
    """The API server refused the allocation: undone. One of an earlier attempt changes nothing."""

    allocation: Allocation


class WriteUnknown(Struct, frozen=True):
    """No answer in time. Kept until the pod is read back."""

    allocation: Allocation


class DeviceChanged(Struct, frozen=True):
    """An agent observed a device.

    Attributes:
        node, uuid: the device.
        version: of the observation, growing per device.
        health, reason: whether it takes new grants, and why not.
        foreign_mib: memory used by processes that nobody granted anything.
    """

    node: str
    uuid: str
    version: int
    health: Health
    reason: str = ""
    foreign_mib: int = 0


class Unprepared(Struct, frozen=True):
    """An agent says that nothing of a pod is left on its node: no claim, no process."""

    pod: str


class Waiting(Struct, frozen=True):
    """A pod fits nowhere now and is to be woken when it might.

    Attributes:
        request: the pod.
        since: the fleet's tick when it was decided on; what was freed since is looked at now.
    """

    request: PodRequest
    since: int | None = None


class Resync(Struct, frozen=True):
    """The whole list, as the API server has it. What is not in it is gone; what is unknown is adopted.

    Attributes:
        nodes, pods: all there are.
        version: resourceVersion of the lists: pods seen later than that stay, and what is told later of a pod as of
            before is stale. 0 where nobody knows.
    """

    nodes: tuple[NodeSeen, ...]
    pods: tuple[PodSeen, ...]
    version: int = 0


Event = (
    NodeSeen | NodeGone | PodSeen | ReadBack | PodGone | Committed | Written | WriteFailed | WriteUnknown
    | DeviceChanged | Unprepared | Waiting | Resync
)  # fmt: skip
