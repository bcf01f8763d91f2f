"""``terrazzo inventory publish``: write what nodes have where the scheduler reads it, for nodes without an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from terrazzo.kube.client import Client
    from terrazzo.model.node import Node


@click.command(
    "publish",
    epilog="""\b
Examples:
  kubectl get nodes,configmaps -A -o yaml | terrazzo inventory publish -f -
  terrazzo inventory publish -f nodes.yaml --node gpu-1 --ledger classic --manage""",
)
@click.option(
    "-f", "--file", "files", multiple=True, required=True, metavar="FILE",
    help="Nodes, with config maps and resource slices that tell of their devices; - for standard input.",
)  # fmt: skip
@click.option("--node", "only", multiple=True, metavar="NAME", help="Publish these nodes alone; may be given again.")
@click.option(
    "--ledger", type=click.Choice(["dra", "classic"]), default="dra", show_default=True,
    help="ResourceSlices with the annotation, or the annotation alone.",
)  # fmt: skip
@click.option("--manage", is_flag=True, help="Also give the nodes the label terrazzo.io/managed=true.")
@click.option("--kubeconfig", default="", help="How to reach the API server; in a pod, its account.")
@click.option("--context", default="", help="Context of the kubeconfig.")
def command(
    files: tuple[str, ...], only: tuple[str, ...], ledger: str, manage: bool, kubeconfig: str, context: str
) -> int:
    """Publish the devices of nodes: in simulations, and where no agent does it."""
    try:
        from terrazzo.kube.access import find  # noqa: PLC0415 - heavy, and help must not wait for it
    except ModuleNotFoundError as error:
        raise click.UsageError(f"{error.name} is not installed; install terrazzo[control]") from None
    from terrazzo.cli import cluster as clusters  # noqa: PLC0415 - see above
    from terrazzo.cli import reading  # noqa: PLC0415 - see above
    from terrazzo.model.errors import InputError  # noqa: PLC0415 - see above

    known = {node.name: node for node in clusters.load(reading.read(files)).fleet.nodes()}
    missing = [name for name in only if name not in known]
    if missing:
        raise InputError(f"holds no node {missing[0]}", where=", ".join(files))
    nodes = [known[name] for name in only] or list(known.values())
    access = find(kubeconfig, context)
    for line in asyncio.run(_publish(access, nodes, ledger, manage=manage)):
        click.echo(line)
    return 0


async def _publish(access: Any, nodes: list[Node], ledger: str, *, manage: bool) -> list[str]:
    from terrazzo.kube.client import Client  # noqa: PLC0415 - see ``command``

    async with Client(access, agent="terrazzo-publish") as client:
        return [await _publish_one(client, node, ledger, manage=manage) for node in nodes]


async def _publish_one(client: Client, node: Node, ledger: str, *, manage: bool) -> str:
    import time  # noqa: PLC0415 - see ``command``

    from terrazzo.dialects.inventory import publish, publish_slices  # noqa: PLC0415 - see ``command``
    from terrazzo.kube.errors import Conflict  # noqa: PLC0415 - see ``command``
    from terrazzo.kube.kinds import NODE, SLICE  # noqa: PLC0415 - see ``command``
    from terrazzo.wire.kubernetes import ResourceSlice  # noqa: PLC0415 - see ``command``
    from terrazzo.wire.state import INVENTORY  # noqa: PLC0415 - see ``command``

    now = int(time.time())
    metadata: dict[str, Any] = {"annotations": {INVENTORY: publish(node, ledger=ledger, generation=now, time=now)}}
    if manage:
        metadata["labels"] = {"terrazzo.io/managed": "true"}
    await client.patch(NODE, {"metadata": metadata}, node.name)
    number = 0
    for body in publish_slices(node, generation=now) if ledger == "dra" else ():
        name = body["metadata"]["name"]
        try:
            await client.create(SLICE, body)
        except Conflict:
            there = await client.get(SLICE, ResourceSlice, name)
            body["metadata"]["resourceVersion"] = there.metadata.resource_version
            await client.replace(SLICE, body, name)
        number += 1
    slices = f" and {number} ResourceSlice{'s' if number > 1 else ''}" if number else ""
    return f"{node.name}: {len(node.devices)} devices in the annotation{slices}"
