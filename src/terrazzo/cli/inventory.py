"""``terrazzo inventory``: how much accelerator is left in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from terrazzo.cli.options import cluster_options, format_option

if TYPE_CHECKING:
    from terrazzo.cli.cluster import Cluster
    from terrazzo.cli.stock import Fits, Line, Stock


class _Inventory(click.Command):
    """The command, and ``publish`` below it: a word where it takes none itself."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of ``publish`` where that is the first word."""
        if args[:1] == ["publish"]:
            from terrazzo.cli import publish  # noqa: PLC0415 - heavy, and help must not wait for it

            return publish.command.make_context(f"{info_name} publish", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(
    "inventory",
    cls=_Inventory,
    epilog="""\b
Examples:
  terrazzo inventory --cluster nodes.yaml
  kubectl get nodes,pods -A -o json | terrazzo inventory --cluster - --by node
  terrazzo inventory --cluster nodes.yaml --request 8Gi,30%
  terrazzo inventory --cluster nodes.yaml --request 2x40Gi,50% --request whole
  terrazzo inventory --cluster nodes.yaml --by namespace -o json

\b
terrazzo inventory publish --help: write what nodes have where the scheduler reads it.""",
)
@cluster_options
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
    help="Count pods of this size that fit now: 8Gi,30% or 2x40Gi or whole or mig-1g.10gb; may be given again.",
)
@format_option(("table", "json", "yaml"))
def command(
    dumps: tuple[str, ...], pods: tuple[str, ...], policy: str | None, by: str, sizes: tuple[str, ...], form: str
) -> int:
    """Say how much accelerator is left: devices, memory and compute, the largest slice that fits, what is unknown."""
    from terrazzo.cli import cluster as clusters  # noqa: PLC0415 - heavy, and help must not wait for it
    from terrazzo.cli import reading, stock  # noqa: PLC0415 - see above

    reading.only_once(dumps, pods)
    wanted = [stock.parse_size(size) for size in sizes]
    known = clusters.load(reading.read([*dumps, *pods]), clusters.read_policy(policy) if policy else None)
    found = stock.take(known, by)
    counts = [stock.count(known, size) for size in wanted]
    if form in {"json", "yaml"}:
        from terrazzo.cli.render import dump  # noqa: PLC0415 - see above

        found.notes += known.notes
        dump(stock.as_data(found, counts), form)
    else:
        _print(known, found, counts)
    return 0


def _print(cluster: Cluster, found: Stock, counts: list[Fits]) -> None:
    from terrazzo.cli.render import Group, notes, plural, say, table  # noqa: PLC0415 - heavy imports stay out of --help

    if found.by == "namespace":
        columns = ["NAMESPACE", "MODEL", ">PODS", ">DEVICES HELD", ">MEMORY GiB", ">COMPUTE devices"]
        rows = [_namespace_row(line) for line in found.lines]
        say(table(columns, rows) if rows else "Nobody holds a device.")
    else:
        heads = {"model": ["VENDOR", "MODEL"], "vendor": ["VENDOR"], "node": ["NODE", "MODEL"]}[found.by]
        columns = [*heads, ">DEVICES", ">SICK", ">WHOLE FREE", ">GRANTED", ">FREE", ">TOTAL", ">GRANTED", ">FREE",
                   "LARGEST THAT FITS"]  # fmt: skip
        memory = len(heads) + 3
        groups = (Group("memory GiB", memory, memory + 2), Group("compute", memory + 3, memory + 4))
        say(table(columns, [_row(line, found) for line in found.lines], groups))
    say()
    for fits in counts:
        split = ", ".join(f"{number} {kind}" for kind, number in fits.per_model.items())
        say(f"fits now: {plural(fits.pods, 'pod')} of {fits.size}" + (f" ({split})" if split else ""), fg="green")
    say(f"{plural(found.nodes, 'node')}, {plural(found.devices, 'device')} of "
        f"{plural(len(cluster.vendors), 'vendor')}; {plural(found.pods, 'pod holds', 'pods hold')} devices, "
        f"{len(cluster.waiting)} wait.", bold=True)  # fmt: skip
    for number, reason in enumerate(found.unknowns, 1):
        say(f"?{number}: {reason}", fg="yellow")
    for line in found.sick:
        say(f"sick: {line}", fg="red")
    notes([*found.notes, *cluster.notes])


def _row(line: Line, found: Stock) -> list[str]:
    from terrazzo.cli.render import gib, percent  # noqa: PLC0415 - see ``_print``

    doubt = " ".join(f"?{found.unknowns.index(reason) + 1}" for reason in line.unknowns)
    known = line.total_mib is not None
    memory = (
        [gib(line.granted_mib), gib(line.free_mib, down=True), gib(line.total_mib or 0)] if known else ["?", "?", "?"]
    )
    if doubt:
        memory[-1] = f"{memory[-1]} + {doubt}" if known else doubt
    return [
        *line.key, str(line.devices), str(line.sick or "–"), str(line.whole_free), *memory,
        percent(line.granted_units, line.total_units), percent(line.free_units, line.total_units), line.largest,
    ]  # fmt: skip


def _namespace_row(line: Line) -> list[str]:
    from terrazzo.cli.render import gib  # noqa: PLC0415 - see ``_print``

    memory = gib(line.granted_mib) + (" + ?" if line.unknown_memory else "")
    return [*line.key, str(line.pods), str(line.devices), memory, f"{line.granted_compute:.2f}"]
