"""``terrazzo plan``: where pods would go, on which devices, with how much, and what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from terrazzo.cli.render import FORMATS, format_option

if TYPE_CHECKING:
    from terrazzo.cli.cluster import Cluster
    from terrazzo.model.allocation import Allocation, DeviceGrant
    from terrazzo.model.request import PodRequest

SOME_UNPLACED = 3


@click.command(
    "plan",
    epilog="""\b
Examples:
  terrazzo plan -f pods.yaml --cluster nodes.yaml
  terrazzo plan -f deployment.yaml --cluster nodes.yaml --pods running.yaml -o wide
  kubectl get nodes,pods -A -o json | terrazzo plan -f pods.yaml --cluster -
  terrazzo plan -f examples/one-card/pods.yaml --cluster examples/one-card/node.yaml -o json

\b
Exit codes: 0 all placed, 2 bad input, 3 some were not placed.""",
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Pods or workloads to place; - for standard input; may be given again.",
)
@click.option(
    "--cluster",
    "dumps",
    multiple=True,
    required=True,
    metavar="FILE",
    help="kubectl get nodes[,pods] -o yaml|json; may be given again.",
)
@click.option(
    "--pods", "pods", multiple=True, metavar="FILE", help="Running pods, when they are in a file of their own."
)
@click.option("--policy", metavar="FILE", help="Policy: vendors of neutral requests, image rules, strategies.")
@format_option(FORMATS)
def command(
    files: tuple[str, ...], dumps: tuple[str, ...], pods: tuple[str, ...], policy: str | None, form: str
) -> int:
    """Say where pods would go: node, device, memory, cores, and what remains on the device."""
    from terrazzo.cli import cluster as clusters  # noqa: PLC0415 - heavy, and help must not wait for it
    from terrazzo.cli.reading import read  # noqa: PLC0415 - see above

    known = clusters.load(read([*dumps, *pods]), clusters.read_policy(policy) if policy else None)
    plan = make(known, clusters.manifests(known, read(files)))
    if form in {"json", "yaml"}:
        from terrazzo.cli.render import dump  # noqa: PLC0415 - see above

        dump(as_data(plan), form)
    else:
        _print(plan, wide=form == "wide")
    return SOME_UNPLACED if plan.unplaced else 0


class Plan:
    """The outcome.

    Attributes:
        cluster: with everything placed that could be.
        placed: request, allocation and what each device had left just afterwards (MiB, units), by uuid.
        unplaced: request, one line why, and the nearest change.
        left_alone: pods that ask for no device.
        running: pods of the manifests that the dump shows running.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.placed: list[tuple[PodRequest, Allocation, dict[str, tuple[int, int]]]] = []
        self.unplaced: list[tuple[PodRequest, str, str]] = []
        self.left_alone = 0
        self.running = 0


def make(cluster: Cluster, requests: list[PodRequest]) -> Plan:
    """Return the plan: pods placed one by one, by priority, then age, then the order given."""
    plan = Plan(cluster)
    held = {(r.namespace, r.name) for r in cluster.requests.values()}
    for request in sorted(requests, key=lambda r: (-r.priority, r.created_s)):
        if not request.asks_devices:
            plan.left_alone += 1
        elif (request.namespace, request.name) in held:
            plan.running += 1
        else:
            _place(plan, request)
    return plan


def _place(plan: Plan, request: PodRequest) -> None:
    cluster = plan.cluster
    if cluster.undecided(request):
        from terrazzo.admission.vendors import REMEDY  # noqa: PLC0415 - only for pods that wait

        present = " or ".join(cluster.vendors)
        plan.unplaced.append((request, f"nobody says whether it runs on {present}", REMEDY))
        return
    cluster.engine.learn(request)
    allocation = cluster.engine.decide(request)
    if allocation is None:
        plan.unplaced.append((request, *_why(cluster, request)))
        return
    if cluster.fleet.allocation(allocation.pod) is not None:
        plan.running += 1
        return
    cluster.fleet.grant(allocation)
    left = {view.device.uuid: (view.free_mib, view.free_units) for view in cluster.fleet.devices(allocation.node)}
    plan.placed.append((request, allocation, left))


def _why(cluster: Cluster, request: PodRequest) -> tuple[str, str]:
    from terrazzo.cli import sentences  # noqa: PLC0415 - only when something does not fit
    from terrazzo.placement.explain import explain  # noqa: PLC0415 - see above

    explanation = explain(cluster.engine, request, most=1)
    nodes = sum(1 for _ in cluster.fleet.nodes())
    change = explanation.changes[0].describe() if explanation.changes else ""
    return sentences.why_line(explanation.rejections, nodes), f"fits with {change}" if change else ""


def _devices(plan: Plan) -> dict[tuple[str, str], Any]:
    return {(node.name, device.uuid): device for node in plan.cluster.fleet.nodes() for device in node.devices}


def as_data(plan: Plan) -> dict[str, Any]:
    """Return the plan for ``-o json``; the keys are part of the interface."""
    devices = _devices(plan)

    def grant(allocation: Allocation, each: DeviceGrant) -> dict[str, Any]:
        device = devices[allocation.node, each.uuid]
        return {
            "uuid": each.uuid,
            "vendor": device.vendor,
            "model": device.model,
            "index": device.index,
            "memory_mib": each.memory_mib,
            "compute_units": each.units,
            "compute_units_total": device.units,
            "whole": each.whole,
            "profile": each.profile,
            "start": each.start,
        }

    return {
        "placed": [
            {
                "namespace": request.namespace,
                "name": request.name,
                "node": allocation.node,
                "containers": [
                    {"name": c.container, "devices": [grant(allocation, g) for g in c.devices]}
                    for c in allocation.containers
                ],
                "remaining": [
                    {"uuid": use.uuid, "memory_mib": left[use.uuid][0], "compute_units": left[use.uuid][1]}
                    for use in allocation.uses
                ],
            }
            for request, allocation, left in plan.placed
        ],
        "unplaced": [
            {"namespace": request.namespace, "name": request.name, "why": why, "remedy": remedy}
            for request, why, remedy in plan.unplaced
        ],
        "left_alone": plan.left_alone,
        "already_running": plan.running,
        "notes": plan.cluster.notes,
    }


def _print(plan: Plan, *, wide: bool) -> None:
    from terrazzo.cli import sentences  # noqa: PLC0415 - heavy imports stay out of --help
    from terrazzo.cli.render import console, gib, plural, table  # noqa: PLC0415 - see above

    devices = _devices(plan)
    rows = []
    for request, allocation, left in plan.placed:
        first = True
        for container in allocation.containers:
            for each in container.devices:
                device = devices[allocation.node, each.uuid]
                free_mib, free_units = left[each.uuid]
                memory = "all" if each.whole else f"{gib(each.memory_mib)}Gi"
                slice_ = f" {each.profile}" if each.profile else ""
                known = isinstance(device.memory_mib, int)
                remains = f"{gib(free_mib)}Gi, {free_units * 100 // device.units}%" if known else "?"
                name = request.name if first else ""
                title = f"{request.namespace}/{name}" if name and request.namespace != "default" else name
                row = [title, container.container, allocation.node, f"{device.index} {device.model}{slice_}", memory,
                       "all" if each.whole else sentences.units(each.units, device), remains]  # fmt: skip
                rows.append([*row, each.uuid] if wide else row)
                first = False
    out = console()
    if rows:
        columns = ["POD", "CONTAINER", "NODE", "DEVICE", ">MEMORY", ">CORES", ">REMAINS"]
        out.print(table([*columns, "UUID"] if wide else columns, rows))
    for request, why, remedy in plan.unplaced:
        out.print(
            f"{request.title} does not fit ({sentences.asks(request)}): {why}." + (f" {remedy}." if remedy else "")
        )
    if plan.unplaced:
        out.print()
    total = len(plan.placed) + len(plan.unplaced)
    parts = [f"{len(plan.placed)} of {plural(total, 'pod')} placed"]
    if plan.running:
        parts.append(f"{plan.running} running already")
    if plan.left_alone:
        parts.append(f"{plural(plan.left_alone, 'pod')} without devices left alone")
    out.print(", ".join(parts) + ".")
    for note in plan.cluster.notes:
        out.print(f"note: {note}.")
