"""Scenario ``inference``: models resident in memory, compute now and then; how many replicas may share a card."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from terrazzo.simulator.demo.duty import Deferral, deferral, intermittent
from terrazzo.simulator.demo.genai import ServingTrace, read
from terrazzo.simulator.demo.scene import Scene
from terrazzo.simulator.demo.story import Remark, Standing, Story, Table

_REPLICAS = (1, 2, 3, 5, 8, 12)
_SEEDS = range(42, 52)
_CARD_MIB = 81008
_MADE_UP_MIB = 23 * 1024


def tell(scene: Scene) -> Story:
    """Return the story of ``inference/deployment.yaml``, on the GenAI trace where it is at hand."""
    placed = scene.place("inference/nodes.yaml", "inference/deployment.yaml")
    trace = read(scene.traces) if scene.traces else None
    rows, figures = [], {"cards": float(len(placed.devices_held)), "replicas": float(placed.pods)}
    for replicas in _REPLICAS:
        cards = [_card(trace, replicas, np.random.default_rng(seed)) for seed in _SEEDS]
        duty = [card.duty for card in cards]
        late = [card.deferred for card in cards]
        memory = float(np.mean([card.memory_p95_mib for card in cards]))
        figures[f"duty@{replicas}"] = float(np.mean(duty))
        figures[f"deferred@{replicas}"] = float(np.mean(late))
        rows.append(
            (
                str(replicas),
                f"{np.mean(duty):.0%} ({min(duty):.0%}–{max(duty):.0%})",
                f"{np.mean(late):.1%} ({min(late):.1%}–{max(late):.1%})",
                f"{np.mean([card.longest_wait_minutes for card in cards]):.1f} min",
                f"{memory / 1024:.0f} GiB" + ("" if memory <= _CARD_MIB else "  more than a card has"),
            )
        )
    where = "minute by minute from the public GenAI trace" if trace else "made up (the public trace is not at hand)"
    return Story(
        name="inference",
        title="Resident models that compute now and then",
        files=("inference/nodes.yaml", "inference/deployment.yaml"),
        tables=(
            scene.table("Where the replicas land", placed, limit=6),
            Table(
                "One card, by number of replicas on it",
                (">replicas", ">duty of the card", ">demand that waited", ">longest wait", ">memory held, p95"),
                tuple(rows),
                emphasis=2,
            ),
        ),
        remarks=(
            Remark(
                Standing.MEASURED if trace else Standing.ASSUMED,
                f"Duty and memory of each replica: {where}; groups drawn with seeds 42–51, range in brackets.",
            ),
            Remark(
                Standing.MODELLED,
                "One minute of work a minute, first come first served; interference between replicas is not modelled.",
            ),
            Remark(
                Standing.FAILS,
                "Memory ends it before compute does: with 23 GiB each a fourth replica does not fit an 80 GB card, "
                "however idle the first three are. Denser needs smaller grants or models that leave memory when idle.",
            ),
        ),
        sources=(
            "duty and memory: alibaba/clusterdata cluster-trace-v2026-GenAI (22.8 h, about 109 pods at once)",
            "23 GiB per replica: median of that trace",
        ),
        figures=figures,
    )


def _card(trace: ServingTrace | None, replicas: int, rng: np.random.Generator) -> Deferral:
    duty: NDArray[np.float64]
    if trace is None:
        duty = intermittent(1368, replicas, rng)
        return deferral(duty, np.full_like(duty, _MADE_UP_MIB))
    chosen = rng.choice(trace.duty.shape[1], size=replicas, replace=False)
    return deferral(trace.duty[:, chosen], trace.memory_mib[:, chosen])
