"""What must hold after every event, as a function: run after every test, and sampled in production."""

from __future__ import annotations

from terrazzo.model.allocation import Allocation
from terrazzo.model.errors import LedgerError
from terrazzo.model.node import Node
from terrazzo.placement.fleet import Fleet
from terrazzo.placement.ledger import Ledger
from terrazzo.placement.seat import DeviceView
from terrazzo.placement.shapes import PLENTY


def check(ledger: Ledger) -> None:
    """Check the books of a ledger.

    Raises:
        LedgerError: with the device, the pods and the numbers that contradict each other.
    """
    check_fleet(ledger.fleet, tolerated=frozenset(ledger.over))
    held = {allocation.pod for allocation in ledger.fleet.allocations()}
    if held != set(ledger.stage):
        raise LedgerError(f"grants without a stage, or stages without a grant: {sorted(held ^ set(ledger.stage))[:5]}")
    for node, uuid in ledger.over:
        if not ledger.fleet.exceeded(node, uuid):
            raise LedgerError("is said to be exceeded and is not", where=f"node {node}, device {uuid}")


def check_fleet(fleet: Fleet, *, tolerated: frozenset[tuple[str, str]] = frozenset()) -> None:
    """Check a fleet: no device exceeded, columns equal to what is held, nothing left of who left.

    Args:
        fleet: to check.
        tolerated: devices (node, uuid) known to be exceeded by adopted grants.

    Raises:
        LedgerError: as in ``check``.
    """
    by_device: dict[tuple[str, str], list[Allocation]] = {}
    for allocation in fleet.allocations():
        _covered(allocation)
        for use in allocation.uses:
            by_device.setdefault((allocation.node, use.uuid), []).append(allocation)
    for node in fleet.nodes():
        _host(fleet, node)
        for view in fleet.devices(node.name):
            key = (node.name, view.device.uuid)
            _device(fleet, view, by_device.get(key, []), tolerated=key in tolerated)
    idle = [0] * len(fleet.kinds)
    for column, kinds in enumerate(fleet.kind.tolist()):
        for row, kind in enumerate(kinds):
            idle[kind] += int(fleet.share[column, row])
    if idle[1:] != fleet.idle.tolist()[1:]:
        raise LedgerError(f"idle shares by kind are {fleet.idle.tolist()}, the devices add up to {idle}")


def _covered(allocation: Allocation) -> None:
    """Each container's part of a device lies within what the books hold for the pod."""
    uses = {use.uuid: use for use in allocation.uses}
    for container in allocation.containers:
        for grant in container.devices:
            use = uses.get(grant.uuid)
            if use is None or grant.memory_mib > use.memory_mib or grant.units > use.units:
                raise LedgerError(
                    f"container {container.container} was granted {grant.memory_mib} MiB and {grant.units} units, "
                    f"the books hold {use}",
                    where=f"pod {allocation.title}, device {grant.uuid}",
                )


def _device(fleet: Fleet, view: DeviceView, holders: list[Allocation], *, tolerated: bool) -> None:
    device = view.device
    where = f"node {device.node}, device {device.uuid}"
    names = [allocation.pod for allocation in holders]
    if sorted(names) != sorted(view.holders):
        raise LedgerError(f"is held by {view.holders}, the grants say {names}", where=where)
    story = "; ".join(
        f"{a.title}: {use.memory_mib} MiB, {use.units} units{', alone' if use.alone else ''}"
        for a in holders
        for use in a.uses
        if use.uuid == device.uuid
    )
    if fleet.exceeded(device.node, device.uuid) and not tolerated:
        raise LedgerError(f"is exceeded ({device.memory_mib} MiB, {device.units} units): {story}", where=where)
    used = [use for a in holders for use in a.uses if use.uuid == device.uuid]
    shut = view.alone or len(used) >= device.sharers or device.health.value != "healthy"
    total = device.memory_mib if isinstance(device.memory_mib, int) else 1
    mib = 0 if shut else max(0, total - device.foreign_mib - sum(use.memory_mib for use in used))
    units = 0 if shut else max(0, device.units - sum(use.units for use in used))
    column = fleet.column(device.node)
    row = next(row for row, each in enumerate(fleet.devices(device.node)) if each.device.uuid == device.uuid)
    columns = (int(fleet.avail_mib[column, row]), int(fleet.avail_units[column, row]), int(fleet.state[column, row]))
    if (mib, units, view.state) != columns:
        right = (mib, units, view.state)
        raise LedgerError(f"columns say {columns} (MiB, units, state) free, not {right}; held: {story}", where=where)
    if int(fleet.sharers_left[column, row]) != (0 if shut else device.sharers - len(used)):
        raise LedgerError(f"columns say {fleet.sharers_left[column, row]} pods may join; held: {story}", where=where)


def _host(fleet: Fleet, node: Node) -> None:
    column = fleet.column(node.name)
    if column is None:
        raise LedgerError("has no column", where=f"node {node.name}")
    held = fleet.allocations_on(node.name)
    for total, left, taken, what in (
        (node.cpu_milli, int(fleet.cpu_milli[column]), sum(a.cpu_milli for a in held), "milli-CPU"),
        (node.memory_mib, int(fleet.memory_mib[column]), sum(a.memory_mib for a in held), "MiB of memory"),
        (node.max_pods, int(fleet.pods[column]), len(held), "pods"),
    ):
        if left != (PLENTY if total is None else total - taken):
            raise LedgerError(f"{left} {what} left of {total}, {taken} taken", where=f"node {node.name}")
