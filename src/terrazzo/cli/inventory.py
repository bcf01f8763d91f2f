"""``terrazzo inventory``: how much accelerator is left in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from terrazzo.cli.render import format_option

if TYPE_CHECKING:
    from terrazzo.cli.cluster import Cluster
    from terrazzo.cli.stock import Line, Stock


@click.command(
    "inventory",
    epilog="""\b
Examples:
  terrazzo inventory --cluster nodes.yaml
  kubectl get nodes,pods -A -o json | terrazzo inventory --cluster - --by node
  terrazzo inventory --cluster nodes.yaml --request 8Gi,30%
  terrazzo inventory --cluster nodes.yaml --request 2x40Gi,50% --request whole
  terrazzo inventory --cluster nodes.yaml --by namespace -o json""",
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
@click.option(
    "--by",
    "by",
    type=click.Choice(["model", "vendor", "node", "namespace"]),
    default="model",
    show_default=True,
    help="What to group by.",
)
@click.option(
    "--request",
    "sizes",
    multiple=True,
    metavar="SIZE",
    help="Count pods of this size that fit now: 8Gi,30% or 2x40Gi or whole or 10%; may be given again.",
)
@click.option("--policy", metavar="FILE", help="Policy: vendors of neutral requests, image rules, strategies.")
@format_option(("table", "json", "yaml"))
def command(
    dumps: tuple[str, ...], pods: tuple[str, ...], by: str, sizes: tuple[str, ...], policy: str | None, form: str
) -> int:
    """Say how much accelerator is left: devices, memory and compute, the largest slice that fits, what is unknown."""
    from terrazzo.cli import cluster as clusters  # noqa: PLC0415 - heavy, and help must not wait for it
    from terrazzo.cli import stock  # noqa: PLC0415 - see above
    from terrazzo.cli.reading import read  # noqa: PLC0415 - see above

    wanted = [stock.parse_size(size) for size in sizes]
    known = clusters.load(read([*dumps, *pods]), clusters.read_policy(policy) if policy else None)
    found = stock.take(known, by)
    counts = [stock.count(known, size) for size in wanted]
    if form in {"json", "yaml"}:
        from terrazzo.cli.render import dump  # noqa: PLC0415 - see above

        dump(stock.as_data(found, counts), form)
    else:
        _print(known, found, counts)
    return 0


def _print(cluster: Cluster, found: Stock, counts: list[Any]) -> None:
    from terrazzo.cli.render import console, plural, table  # noqa: PLC0415 - heavy imports stay out of --help

    out = console()
    heads = {"model": ["VENDOR", "MODEL"], "vendor": ["VENDOR"], "node": ["NODE", "MODEL"], "namespace": ["NAMESPACE"]}
    if found.by == "namespace":
        rows = [[*line.key, str(line.pods), str(line.devices), _gib(line.granted_mib), _devices(line.granted_compute)]
                for line in found.lines]  # fmt: skip
        out.print(table(["NAMESPACE", ">PODS", ">DEVICES HELD", ">MEMORY GiB", ">COMPUTE devices"], rows))
    else:
        columns = [*heads[found.by], ">DEV", ">WHOLE FREE", ">MEMORY GiB grant/free/total", ">COMPUTE grant/free",
                   ">LARGEST SLICE", "HEALTH"]  # fmt: skip
        out.print(table(columns, [_row(line) for line in found.lines]))
    for size, per_vendor, total in counts:
        split = ", ".join(f"{vendor} {number}" for vendor, number in per_vendor.items())
        out.print(f"fits now: {plural(total, 'pod')} of {size}" + (f" ({split})" if len(per_vendor) > 1 else ""))
    nodes = plural(found.nodes, "node")
    out.print(f"{nodes}, {plural(found.devices, 'device')}, {plural(len(cluster.vendors), 'vendor')}; "
              f"{plural(found.pods, 'pod')} hold devices; {plural(len(cluster.waiting), 'pod')} waiting.")  # fmt: skip
    for number, reason in enumerate(found.unknowns, 1):
        out.print(f"? {number}: {reason}")
    for line in found.sick:
        out.print(f"unhealthy: {line}")
    for note in cluster.notes:
        out.print(f"note: {note}.")


def _row(line: Line) -> list[str]:
    memory = (
        "?" if line.total_mib is None else f"{_gib(line.granted_mib)} / {_gib(line.free_mib)} / {_gib(line.total_mib)}"
    )
    health = f"{line.sick} sick" if line.sick else "ok"
    doubt = f" ?{line.unknown_memory}" if line.unknown_memory else ""
    percent = f"{line.percent(line.granted_units)} / {line.percent(line.free_units)}"
    return [*line.key, str(line.devices), str(line.whole_free), memory, percent, line.largest, health + doubt]


def _gib(mib: int) -> str:
    from terrazzo.cli.render import gib  # noqa: PLC0415 - see ``_print``

    return gib(mib)


def _devices(amount: float) -> str:
    return f"{amount:.1f}"
