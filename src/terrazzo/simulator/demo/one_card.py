"""Scenario ``one-card``: three services that hold three cards and need a fraction of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from terrazzo.model.node import Node
from terrazzo.model.request import PodRequest
from terrazzo.placement.fleet import Fleet
from terrazzo.simulator.demo.filling import BASELINES, Outcome, fill, place_all
from terrazzo.simulator.demo.scene import Scene, place
from terrazzo.simulator.demo.story import Remark, Standing, Story, Table

_NODE = "one-card/node.yaml"


def tell(scene: Scene) -> Story:
    """Return the story of ``one-card/pods.yaml``."""
    nodes = scene.nodes(_NODE)
    kinds = scene.requests("one-card/pods.yaml", nodes)
    placed = scene.place(_NODE, "one-card/pods.yaml")
    cards = len(placed.devices())
    today = len(set(place_all("whole-cards", nodes, kinds).devices()))
    held = len(placed.devices_held)
    figures: dict[str, float] = {"cards today": today, "cards": held, "wholly free": cards - held}
    filled = _filled(nodes, kinds, figures)
    more = scene.requests("one-card/more.yaml", nodes)
    after = place(Fleet(nodes), [*kinds, *more])
    whole = next(allocation for request, allocation in after.placed if request.name == "whole-card")
    others = {use.uuid for _, a in after.placed if a is not whole for use in a.uses}
    figures["whole card alone"] = float(not others & {use.uuid for use in whole.uses})
    return Story(
        name="one-card",
        title="Three cards held today, one needed",
        files=(_NODE, "one-card/pods.yaml", "one-card/more.yaml"),
        tables=(
            Table(
                f"The three pods on a box of {cards} cards",
                ("", ">cards held", ">cards wholly free"),
                (("whole cards", str(today), str(cards - today)), ("Terrazzo", str(held), str(cards - held))),
                emphasis=1,
            ),
            scene.table("Then 8Gi and 30 %, and nvidia.com/gpu: 1 as always", after),
            filled,
        ),
        remarks=(
            Remark(Standing.MEASURED, "Every figure is a count of decisions on the files above; pods come in turn, "
                   "llama, resnet, notebook, until none of the three fits."),
            Remark(Standing.MODELLED, "Time-slicing fences no memory: pods beyond what a card holds are out of memory "
                   "as soon as they touch what they asked for; they are shown as such."),
            Remark(Standing.FAILS, "Memory is what ends it: compute is reserved to a quarter only. Nothing here makes "
                   "a card larger; smaller models or swapping would."),
        ),
        sources=(
            "14Gi and 10 %, 4Gi and 5 %, 2Gi: assumed for LLaMA-7B inference, a ResNet evaluation, a notebook",
            "79.4 GiB of 80 usable: driver's part on an A100-80, assumed in one-card/node.yaml",
            "MIG slices: NVIDIA MIG User Guide; HAMi's ten slots a card: its chart's default",
        ),
        figures=figures,
    )  # fmt: skip


def _filled(nodes: Sequence[Node], kinds: Sequence[PodRequest], figures: dict[str, float]) -> Table:
    total_mib = sum(d.memory_mib for node in nodes for d in node.devices if isinstance(d.memory_mib, int))
    rows = []
    for words, policy in BASELINES:
        outcome = fill(policy, nodes, kinds)
        asked = sum(_mib(request) for request, _ in outcome.placed)
        drowned = _out_of_memory(nodes, outcome) if policy == "time-slicing" else 0
        figures[f"filled {policy}"] = len(outcome.placed)
        figures[f"out of memory {policy}"] = drowned
        count = Counter(request.name for request, _ in outcome.placed)
        split = " + ".join(str(count[kind.name]) for kind in kinds)
        cores = sum(_cores(request) for request, _ in outcome.placed)
        note = f"{drowned} out of memory" if drowned else ""
        rows.append((words, str(len(outcome.placed)), split, f"{asked / total_mib:.0%}", f"{cores / 100:.1f}", note))
    names = " + ".join(kind.name for kind in kinds)
    return Table(
        "The same box filled with such triples until nothing fits",
        ("", ">pods", f">{names}", ">memory asked", ">cards' compute reserved", ""),
        tuple(rows),
        emphasis=len(rows) - 1,
    )


def _mib(request: PodRequest) -> int:
    return sum(ask.count * ask.memory_mib for container in request.containers for ask in container.asks)


def _cores(request: PodRequest) -> int:
    return sum(ask.count * ask.cores_percent for container in request.containers for ask in container.asks)


def _out_of_memory(nodes: Sequence[Node], outcome: Outcome) -> int:
    """Return pods that do not fit the memory of their card when all touch what they asked for, latest first."""
    free = {(node.name, d.uuid): d.memory_mib for node in nodes for d in node.devices if isinstance(d.memory_mib, int)}
    lost = 0
    for request, allocation in outcome.placed:
        for use in allocation.uses:
            card = (allocation.node, use.uuid)
            if _mib(request) > free[card]:
                lost += 1
            else:
                free[card] -= _mib(request)
    return lost
