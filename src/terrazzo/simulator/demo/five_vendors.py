"""Scenario ``five-vendors``: one manifest on eight kinds of device, then the same in each vendor's own words."""

from __future__ import annotations

from terrazzo.placement.fleet import Fleet
from terrazzo.simulator.demo.scene import Scene, amounts, place
from terrazzo.simulator.demo.story import Remark, Standing, Story, Table


def tell(scene: Scene) -> Story:
    """Return the story of ``five-vendors/inference.yaml``."""
    policy = scene.policy("five-vendors/policy.yaml")
    placed = scene.place("five-vendors/nodes.yaml", "five-vendors/inference.yaml", "five-vendors/policy.yaml")
    devices = {(device.node, device.uuid): device for device in placed.devices()}
    rows = []
    for request, allocation in placed.placed:
        grant = allocation.containers[0].devices[0]
        device = devices[allocation.node, grant.uuid]
        rule = policy.image_rule(request.containers[0].image)
        image = rule.images.get(device.vendor, request.containers[0].image) if rule else request.containers[0].image
        rows.append((device.vendor, device.model, "8Gi, 30 %", *amounts(grant, device), image.rpartition("/")[2]))
    nodes = scene.nodes("five-vendors/nodes.yaml")
    own = place(Fleet(nodes), scene.requests("five-vendors/own-words.yaml", nodes))
    table = scene.table("The same in the names people already write", own)
    words = [" ".join(ask.words) for request, _ in own.placed for c in request.containers for ask in c.asks]
    own_rows = tuple(
        (said, *row[1:]) for said, row in zip(words, (row for row in table.rows if row[1] != "waits"), strict=True)
    )
    return Story(
        name="five-vendors",
        title="One manifest, five vendors",
        files=("five-vendors/nodes.yaml", "five-vendors/policy.yaml", "five-vendors/inference.yaml",
               "five-vendors/own-words.yaml"),
        tables=(
            Table(
                "One DaemonSet that asks for 8Gi and 30 %",
                ("vendor", "device", "asked", ">granted memory", ">granted compute", "image"),
                tuple(rows),
            ),
            Table(table.title, ("written", "device", "model", ">memory", ">compute"), own_rows),
        ),
        remarks=(
            Remark(Standing.MEASURED, "Every line is the engine's decision; what is granted is what the device can "
                   "enforce, rounded up, and is what the books hold."),
            Remark(Standing.FAILS, "8Gi and 30 % of a 910B3 is 6 of 20 cores: the smallest template that covers it has "
                   "10 cores and 32 GiB, half a chip. Asking for 25 % would take a quarter."),
        ),
        sources=(
            "steps, templates and compute units: the chip tables of the package, each row with its source",
            "usable memory of each card: assumed in five-vendors/nodes.yaml",
        ),
        figures={"placed": placed.pods, "own_words": own.pods, "own_words_refused": len(own.refused)},
    )  # fmt: skip
