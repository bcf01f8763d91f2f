"""Scenario ``burst``: two training jobs, a card each, half a card each, or half a card as a floor."""

from __future__ import annotations

import numpy as np

from terrazzo.simulator.demo.duty import two_jobs
from terrazzo.simulator.demo.scene import Scene
from terrazzo.simulator.demo.story import Remark, Standing, Story, Table

_DUTIES = (0.5, 0.7, 0.9)
_SEEDS = range(42, 52)
_STEPS = 2000
_WAYS = (
    ("exclusive", "a card each", 2),
    ("hard", "half a card each, hard", 1),
    ("burst", "half a card each, burst", 1),
)


def tell(scene: Scene) -> Story:
    """Return the story of the two jobs of ``burst/jobs.yaml``."""
    placed = scene.place("burst/node.yaml", "burst/jobs.yaml")
    figures: dict[str, float] = {"cards": len(placed.devices_held)}
    rows = []
    for way, words, cards in _WAYS:
        cells = [words, str(cards)]
        for duty in _DUTIES:
            speeds = [two_jobs(duty, way, _STEPS, np.random.default_rng(seed)) for seed in _SEEDS]
            mean = float(np.mean(speeds))
            figures[f"{way}@{duty}"] = mean
            spread = "" if way == "exclusive" else f" ({min(speeds):.2f}–{max(speeds):.2f})"
            cells.append(f"{mean:.2f}{spread}")
        gain = [2 * figures[f"{way}@{duty}"] / cards for duty in _DUTIES]
        cells.append(f"{min(gain):.2f}–{max(gain):.2f}" if max(gain) > min(gain) else f"{gain[0]:.2f}")
        rows.append(tuple(cells))
    poor = 1 / figures["burst@0.9"]
    return Story(
        name="burst",
        title="Two training jobs that leave their card idle part of the time",
        files=("burst/node.yaml", "burst/jobs.yaml"),
        tables=(
            scene.table("Where they land", placed),
            Table(
                "Speed of each job (1 = a card of its own), by the part of the time it computes",
                ("", ">cards", *(f">duty {duty:.0%}" for duty in _DUTIES), ">jobs' work per card"),
                tuple(rows),
                emphasis=2,
            ),
        ),
        remarks=(
            Remark(Standing.MODELLED, f"Speeds: exponential phases, {_STEPS} steps, seeds 42–51, range in brackets; "
                   "slow-down from sharing caches and memory bandwidth is not modelled."),
            Remark(Standing.MEASURED, "Where the jobs land: the engine's own decision on the files above."),
            Remark(Standing.FAILS, f"At duty 90 % two bursting jobs take {poor:.1f} times as long each: hardly better "
                   "than one after the other. Give such jobs a card each."),
        ),
        sources=(
            "duty 0.5–0.9 of training jobs: assumed",
            "exclusive, hard and burst: the words of terrazzo.io/compute",
        ),
        figures=figures,
    )  # fmt: skip
