"""Our own written state: the allocation on a pod and the inventory of a node, as JSON with ``"v": 1``.

Shapes (DESIGN, "Written state"): an allocation says per container and per device the uuid, MiB, units and isolation;
an inventory says the devices, a generation, the time and which ledger its node uses.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct, field

from terrazzo.model.errors import InputError

VERSION = 1

ALLOCATION = "terrazzo.io/allocation"
INVENTORY = "terrazzo.io/inventory"
_REBUILD = "delete the annotation to have it rebuilt"


class DeviceState(Struct, omit_defaults=True):
    """One device of a container in an allocation."""

    uuid: str
    mib: int
    units: int
    whole: bool = False
    profile: str = ""
    start: int = -1
    isolation: str = ""


class AllocationState(Struct, omit_defaults=True):
    """``terrazzo.io/allocation``: container name to its devices."""

    v: int = 0
    node: str = ""
    uid: str = ""
    containers: dict[str, list[DeviceState]] = field(default_factory=dict)


class InventoryDevice(Struct, omit_defaults=True):
    """One device of a node's inventory; ``mib`` is null when unknown, with the reason beside it."""

    uuid: str
    vendor: str
    model: str
    index: int = 0
    mib: int | None = None
    unknown: str = ""
    units: int = 100
    mode: str = "continuous"
    sharers: int = 64
    step: int = 1
    product: str = ""
    family: str = ""
    geometry: str = ""
    profile: str = ""
    numa: int | None = None
    links: list[str] = field(default_factory=list)
    health: str = "healthy"
    health_reason: str = ""
    foreign_mib: int = 0


class InventoryState(Struct, omit_defaults=True):
    """``terrazzo.io/inventory``."""

    v: int = 0
    ledger: str = ""
    generation: int = 0
    time: int = 0
    devices: list[InventoryDevice] = field(default_factory=list)


_State = TypeVar("_State", AllocationState, InventoryState)


def encode(state: AllocationState | InventoryState) -> str:
    """Return ``state`` as the JSON text that goes into the annotation; the version is always written."""
    state.v = VERSION
    return msgspec.json.encode(state, order="deterministic").decode()


def decode(text: str, kind: type[_State], where: str) -> _State:
    """Return the state that ``text`` holds.

    Raises:
        InputError: not JSON, not of that shape, or written by a newer version than this one.
    """
    try:
        state = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", where=where, remedy=_REBUILD) from None
    if state.v > VERSION:
        raise InputError(
            f"was written in format v{state.v}, this program reads up to v{VERSION}",
            where=where,
            remedy="upgrade terrazzo here",
        )
    if state.v < 1:
        raise InputError('has no format version ("v": 1)', where=where, remedy=_REBUILD)
    return state
