"""``terrazzo plan``: where pods would go, on which devices, with how much, and what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from terrazzo.cli.options import cluster_options, file_option, format_option

if TYPE_CHECKING:
    from terrazzo.cli.planning import Placed, Plan
    from terrazzo.model.allocation import DeviceGrant
    from terrazzo.model.device import Device

SOME_UNPLACED = 3


@click.command(
    "plan",
    epilog="""\b
Examples:
  terrazzo plan -f pods.yaml --cluster nodes.yaml
  terrazzo plan -f deployment.yaml --cluster nodes.yaml --pods running.yaml -o wide
  kubectl get nodes,pods -A -o json | terrazzo plan -f pods.yaml --cluster -
  terrazzo plan -f pods.yaml --cluster nodes.yaml --policy policy.yaml -o json

\b
Exit codes: 0 all placed, 2 bad input, 3 some were not placed.""",
)
@file_option
@cluster_options
@format_option(("table", "wide", "json", "yaml"))
def command(
    files: tuple[str, ...], dumps: tuple[str, ...], pods: tuple[str, ...], policy: str | None, form: str
) -> int:
    """Say where pods would go: node, device, memory, cores, and what remains on the device."""
    from terrazzo.cli import cluster as clusters  # noqa: PLC0415 - heavy, and help must not wait for it
    from terrazzo.cli import manifests, planning, reading  # noqa: PLC0415 - see above

    reading.only_once(files, dumps, pods)
    given = reading.read(files)
    known = clusters.load(reading.read([*dumps, *pods]), clusters.read_policy(policy) if policy else None)
    plan = planning.make(known, manifests.read(known, given))
    if form in {"json", "yaml"}:
        from terrazzo.cli.render import dump  # noqa: PLC0415 - see above

        dump(planning.as_data(plan), form)
    else:
        _print(plan, wide=form == "wide")
    return SOME_UNPLACED if plan.unplaced else 0


def _print(plan: Plan, *, wide: bool) -> None:
    from terrazzo.cli.render import first, line, notes, say, table  # noqa: PLC0415 - see above
    from terrazzo.placement import sentences  # noqa: PLC0415 - heavy imports stay out of --help

    devices = plan.devices()
    many = wide or any(len(each.allocation.containers) > 1 for each in plan.placed)
    rows = [row for each in plan.placed for row in _rows(each, devices, wide=wide)]
    columns = ["POD", "CONTAINER", "NODE", "DEVICE", ">MEMORY", ">CORES", ">REMAINS", "ASKED", "UUID"]
    shown = [i for i in range(len(columns)) if (i < 7 or wide) and (i != 1 or many)]
    if rows:
        say(table([columns[i] for i in shown], [[row[i] for i in shown] for row in rows]))
        say()
    alike: dict[tuple[str, str, str], list[str]] = {}
    for pod in plan.unplaced:
        alike.setdefault((sentences.asks(pod.request), pod.why, pod.remedy), []).append(pod.request.title)
    for (asks, why, remedy), titles in alike.items():
        does = "does" if len(titles) == 1 else "do"
        say(f"{first(titles, 3)} {does} not fit, asks {asks}", fg="red")
        line("  why", why)
        if remedy:
            line("  help", remedy, fg="green")
    if plan.unplaced:
        say()
    say(_summary(plan), bold=True)
    notes([*plan.warnings, *_aside(plan), *plan.cluster.notes])


def _rows(placed: Placed, devices: dict[tuple[str, str], Device], *, wide: bool) -> list[list[str]]:
    """One row for each run of devices that look alike; one for each device when ``wide``."""
    from terrazzo.cli import granted  # noqa: PLC0415 - see ``_print``
    from terrazzo.placement import sentences  # noqa: PLC0415 - see ``_print``

    request, allocation, left = placed
    title = request.name if request.namespace == "default" else request.title
    rows: list[list[str]] = []
    for container in allocation.containers:
        runs: dict[tuple[str, ...], list[DeviceGrant]] = {}
        for grant in container.devices:
            device = devices[allocation.node, grant.uuid]
            look = (granted.device(device, grant), *granted.grant(grant, device, left[grant.uuid]))
            runs.setdefault((*look, grant.uuid) if wide else look, []).append(grant)
        for (model, memory, cores, remains, *uuid), grants in runs.items():
            indices = sentences.span([devices[allocation.node, grant.uuid].index for grant in grants])
            times = f"{len(grants)}×" if len(grants) > 1 else ""
            rows.append(
                [
                    title, container.container, allocation.node, f"{indices} {model}", f"{times}{memory}",
                    f"{times}{cores}", remains, sentences.asks(request), *uuid,
                ]
            )  # fmt: skip
            title = ""
    return rows


def _summary(plan: Plan) -> str:
    from terrazzo.cli.render import plural  # noqa: PLC0415 - see ``_print``

    nodes = {each.allocation.node for each in plan.placed}
    parts = [f"{len(plan.placed)} of {plural(len(plan.placed) + len(plan.unplaced), 'pod')} placed"]
    if nodes:
        parts[0] += f" on {plural(len(nodes), 'node')}"
    if plan.unplaced:
        parts.append(f"{len(plan.unplaced)} not")
    if plan.left_alone:
        parts.append(f"{plural(plan.left_alone, 'pod')} without devices left alone")
    if plan.running:
        parts.append(f"{len(plan.running)} running already")
    if plan.ended:
        parts.append(f"{plan.ended} ended")
    return ", ".join(parts) + "."


def _aside(plan: Plan) -> list[str]:
    from terrazzo.cli.render import first  # noqa: PLC0415 - see ``_print``

    told = []
    if plan.running:
        told.append(f"running already and not placed again: {first(plan.running)}")
    if plan.waiting:
        told.append(f"waiting in the cluster and not in this plan (give them with -f): {first(plan.waiting)}")
    if plan.others:
        told.append(f"objects that make no pod: {', '.join(f'{n} {kind}' for kind, n in sorted(plan.others.items()))}")
    return told
