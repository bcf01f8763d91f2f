"""What services must do after an event. Data only; they turn it into API calls."""

from __future__ import annotations

from msgspec import Struct

from terrazzo.model.allocation import Allocation


class Write(Struct, frozen=True):
    """Write this allocation with its pod, then answer Written, WriteFailed or WriteUnknown."""

    allocation: Allocation


class Refuse(Struct, frozen=True):
    """The decision does not hold any more: decide again. Nothing was taken."""

    pod: str
    why: str


class Rebuild(Struct, frozen=True):
    """The pod lives and holds this, but what was written is gone: write it again under the same name."""

    allocation: Allocation


class Retract(Struct, frozen=True):
    """Two pods exceed a device together: take the loser back and tell both.

    Attributes:
        loser, keeper: pods.
        node, uuid: the device.
    """

    loser: str
    keeper: str
    node: str
    uuid: str


class TellHolders(Struct, frozen=True):
    """A device went sick or vanished: tell the pods that hold it."""

    node: str
    uuid: str
    reason: str
    pods: tuple[str, ...]


class TellForeign(Struct, frozen=True):
    """Processes that nobody granted anything use memory of a device."""

    node: str
    uuid: str
    foreign_mib: int


class Wake(Struct, frozen=True):
    """Capacity appeared that these waiting pods might use: have them scheduled again."""

    pods: tuple[str, ...]


Instruction = Write | Refuse | Rebuild | Retract | TellHolders | TellForeign | Wake
