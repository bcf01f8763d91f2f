"""``terrazzo explain``: why a pod does not fit and what would help, or what a running pod was granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from terrazzo.cli.options import cluster_options, format_option

if TYPE_CHECKING:
    from terrazzo.cli.explaining import Held, Story

NOT_PLACED = 3


@click.command(
    "explain",
    epilog="""\b
Examples:
  terrazzo explain train-9 -f pods.yaml --cluster nodes.yaml --pods running.yaml
  terrazzo explain research/train-9 -f pods.yaml --cluster nodes.yaml --devices
  kubectl get nodes,pods -A -o json | terrazzo explain train-9 --cluster -
  terrazzo explain train-9 -f pods.yaml --cluster nodes.yaml -o json

\b
The pod is looked at alone, against the cluster as it is.
Exit codes: 0 it runs or fits, 2 bad input, 3 it does not fit.""",
)
@click.argument("pod")
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE",
    help="Where the pod or its workload is written, when the cluster does not have it; may be given again.",
)  # fmt: skip
@cluster_options
@click.option("--devices", "per_device", is_flag=True, help="Also say for every device why it does not do.")
@format_option(("table", "json", "yaml"))
def command(
    pod: str,
    files: tuple[str, ...],
    dumps: tuple[str, ...],
    pods: tuple[str, ...],
    policy: str | None,
    per_device: bool,
    form: str,
) -> int:
    """Say why POD (its name or namespace/name) does not fit and what would help, or what it holds."""
    from terrazzo.cli import cluster as clusters  # noqa: PLC0415 - heavy, and help must not wait for it
    from terrazzo.cli import explaining, manifests, reading  # noqa: PLC0415 - see above

    reading.only_once(files, dumps, pods)
    given = reading.read(files)
    known = clusters.load(reading.read([*dumps, *pods]), clusters.read_policy(policy) if policy else None)
    wanted = manifests.read(known, given).wanted if given else []
    found = explaining.tell(known, [each.request for each in wanted], pod)
    if form in {"json", "yaml"}:
        from terrazzo.cli.render import dump  # noqa: PLC0415 - see above

        dump(explaining.as_data(found), form)
    else:
        _print(found, per_device=per_device)
    return NOT_PLACED if found.state == "waits" else 0


def _print(found: Story, *, per_device: bool) -> None:
    from terrazzo.cli.render import line, notes, say  # noqa: PLC0415 - heavy imports stay out of --help

    colours = {"waits": "red", "fits": "green", "runs": "green"}
    node = f" on {found.node}" if found.node else ""
    say(f"{found.pod}  {found.state.upper()}{node}, asks {found.asks}", fg=colours.get(found.state), bold=True)
    for held in found.held:
        line("granted", _held(held))
        for neighbour in held.neighbours:
            line("beside", neighbour)
    if found.reasons:
        line(f"0/{found.nodes}", " · ".join(f"{number} {words}" for words, number in found.reasons))
    for number, near in enumerate(found.nearest):
        line("" if number else "nearest", near)
    for number, change in enumerate(found.changes):
        line("" if number else "fits if", change, fg="green")
    for remark in found.remarks:
        say(remark)
    if per_device:
        _devices(found)
    notes(found.notes)


def _held(held: Held) -> str:
    beside = f" to {held.container}" if held.container else ""
    remains = "" if held.remains == "–" else f"; {held.remains} left on it"
    return f"{held.memory}, {held.cores} of device {held.index} {held.model}{beside}{remains}"


def _devices(found: Story) -> None:
    from terrazzo.cli.render import say, table  # noqa: PLC0415 - see ``_print``

    say()
    say(table(["NODE", "DEVICE", "WHY NOT"], found.devices) if found.devices else "No device was refused.")
