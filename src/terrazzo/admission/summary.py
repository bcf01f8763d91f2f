"""What the cluster has at all, so that admission can say at once what no node will ever hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Struct

from terrazzo.model.device import Device, SharingMode
from terrazzo.model.node import Node
from terrazzo.model.quantity import format_mib
from terrazzo.model.request import Ask, PodRequest
from terrazzo.model.unknown import Unknown


class ModelSummary(Struct, frozen=True, kw_only=True):
    """Devices of one vendor that look alike.

    Attributes:
        vendor: lower-case vendor word.
        names: model, product and family, as selectors match them.
        largest_mib: most memory of one device, or unknown.
        profiles: slices by name that can be cut, or are cut already; aliases included.
        only_whole: no slice of it can be enforced.
    """

    vendor: str
    names: tuple[str, ...]
    largest_mib: int | Unknown
    profiles: tuple[str, ...] = ()
    only_whole: bool = False


class FleetSummary(Struct, frozen=True):
    """Every kind of device in the cluster. Empty when nothing is known, and then nothing is warned of.

    Attributes:
        models: kinds of devices.
        shapes: what stands together on a node, each once: pairs of an index into ``models`` and a number of devices.
    """

    models: tuple[ModelSummary, ...] = ()
    shapes: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def vendors(self) -> tuple[str, ...]:
        """Vendors present, in alphabetical order."""
        return tuple(sorted({model.vendor for model in self.models}))

    def most_on_a_node(self, rows: Iterable[ModelSummary]) -> int:
        """Return the most devices of these kinds that any node has."""
        wanted = {index for index, model in enumerate(self.models) if model in rows}
        return max((sum(number for index, number in shape if index in wanted) for shape in self.shapes), default=0)


def summarise(nodes: Iterable[Node]) -> FleetSummary:
    """Return what the nodes have."""
    kinds: dict[tuple[str, tuple[str, ...]], list[Device]] = {}
    held: set[frozenset[tuple[tuple[str, tuple[str, ...]], int]]] = set()
    for node in nodes:
        for device in node.devices:
            kinds.setdefault((device.vendor, device.names), []).append(device)
        held.add(frozenset(Counter((device.vendor, device.names) for device in node.devices).items()))
    order = {key: index for index, key in enumerate(sorted(kinds))}
    shapes = sorted(tuple(sorted((order[key], number) for key, number in shape)) for shape in held if shape)
    return FleetSummary(tuple(_summary(key, kinds[key]) for key in order), tuple(shapes))


def _summary(key: tuple[str, tuple[str, ...]], devices: list[Device]) -> ModelSummary:
    sizes = [device.memory_mib for device in devices]
    known = [size for size in sizes if isinstance(size, int)]
    unknown = next((size for size in sizes if isinstance(size, Unknown)), None)
    profiles = {name for device in devices for name in _profiles(device)}
    return ModelSummary(
        vendor=key[0],
        names=key[1],
        largest_mib=unknown if unknown is not None else max(known),
        profiles=tuple(sorted(profiles)),
        only_whole=all(device.mode is SharingMode.WHOLE and not device.profile for device in devices),
    )


def _profiles(device: Device) -> Iterable[str]:
    if device.profile:
        yield device.profile
    elif device.geometry is not None:
        for profile in device.geometry.profiles:
            yield profile.name
            yield from profile.aliases


def shortfalls(request: PodRequest, fleet: FleetSummary) -> list[str]:
    """Return, for each ask that no device of the cluster can ever serve, a clause that says why."""
    if not fleet.models:
        return []
    clauses = [_shortfall(request, ask, fleet) for container in request.containers for ask in container.asks]
    return list(dict.fromkeys(clause for clause in clauses if clause))


def _shortfall(request: PodRequest, ask: Ask, fleet: FleetSummary) -> str:
    rows = [row for row in fleet.models if _vendor_fits(request, ask, row)]
    if not rows:
        vendors = " or ".join(ask.vendors) or "a vendor that terrazzo.io/vendor leaves"
        return f"no device in this cluster is of {vendors}"
    rows = [row for row in rows if _model_fits(request, ask, row)]
    if not rows:
        return f"no device in this cluster is called {_called(request, ask)}"
    most = fleet.most_on_a_node(rows)
    if not ask.profile and ask.count > most:
        return f"no node in this cluster has {ask.count} such devices, the most is {most}"
    if ask.profile:
        known = {name.casefold() for row in rows for name in row.profiles}
        return "" if ask.profile.casefold() in known else f"no device in this cluster has a slice {ask.profile}"
    return "" if ask.whole else _too_small(ask, rows)


def _too_small(ask: Ask, rows: list[ModelSummary]) -> str:
    rows = [row for row in rows if not row.only_whole]
    if not rows:
        return "the devices in this cluster that it may use can only be given whole"
    sizes = [row.largest_mib for row in rows if isinstance(row.largest_mib, int)]
    if len(sizes) < len(rows) or ask.memory_mib <= max(sizes):
        return ""
    return f"no device in this cluster has {format_mib(ask.memory_mib)}, the largest has {format_mib(max(sizes))}"


def _vendor_fits(request: PodRequest, ask: Ask, row: ModelSummary) -> bool:
    return (not ask.vendors or row.vendor in ask.vendors) and request.vendor.matches(row.vendor)


def _model_fits(request: PodRequest, ask: Ask, row: ModelSummary) -> bool:
    implied = not ask.models or any(
        fnmatchcase(name.casefold(), glob.casefold()) for glob in ask.models for name in row.names
    )
    return implied and request.model.matches(*row.names)


def _called(request: PodRequest, ask: Ask) -> str:
    wanted = ask.models or request.model.include or tuple(f"!{glob}" for glob in request.model.exclude)
    return " or ".join(wanted)
